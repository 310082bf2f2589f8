"""The interface through which an experiment runs scenarios and reads the tables of the runs."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from schedbed.deploy.papers.job_times import JobTime, job_times
from schedbed.deploy.results.record_check import open_record
from schedbed.deploy.results.recorded import Recorded
from schedbed.deploy.results.runfile import RunFile
from schedbed.deploy.results.summary import load
from schedbed.deploy.scenario.resolve import resolve
from schedbed.deploy.scenario.resolved import ResolvedScenario
from schedbed.deploy.whole_run import RunOptions, run_scenario

if TYPE_CHECKING:
    from schedbed.deploy.results.metrics import RunTables

LOG = "log.txt"


@dataclass(frozen=True, slots=True)
class FinishedRun:
    """A finished run of a scenario: its folder, its record and its tables."""

    folder: Path
    run: RunFile
    recorded: Recorded

    @property
    def policies(self) -> list[str]:
        """Return the names of the policies that were run, in the order of the scenario."""
        return self.run.policies

    def of(self, policy: str, repeat: int = 0) -> RunTables:
        """Return the tables of the run of `policy` in the repeat with this number."""
        return self.recorded.tables(policy, repeat)

    def each(self, policy: str) -> list[RunTables]:
        """Return the tables of a policy's runs, one item per repeat.

        All tables are in memory at the same time, so the runs must be small.
        """
        return [self.of(policy, repeat) for repeat in range(self.run.repeats)]

    def findings(self, policy: str, repeat: int = 0) -> Mapping[str, Any]:
        """Return the values that the policy itself reported at the end of its run.

        The dictionary is empty if there is no record of this run.
        """
        record = self.run.run(policy, repeat)
        return record.findings if record else {}

    def figures(self, policy: str, *path: str) -> list[float]:
        """Return a value of the policy from summary.json, one number per repeat.

        `path` are the keys that lead to the value, as in `figures("fair", "makespan_s")`. Missing values are
        NaN.
        """
        found: Any = load(self.folder)["policies"][policy]
        for key in path:
            found = found[key]
        return [float("nan") if value is None else value for value in found["repeats"]]


class Bench:
    """The runner of an experiment's scenarios. `run` keeps a run's tables, and `times` only the jobs' times.

    `folder` is the folder for the runs of the paper, and `seed` the seed of all random choices. `finished` has
    the runs that this command has made so far, by folder, so that experiments share them. With `full`,
    experiments use the paper's own size, which may take hours. `jobs` is the number of simulations that run
    in parallel.
    """

    def __init__(
        self,
        folder: Path,
        *,
        machines: str,
        repeats: int,
        seed: int,
        finished: dict[Path, FinishedRun] | None = None,
        full: bool = False,
        jobs: int = 1,
    ) -> None:
        self.folder, self.machines, self.repeats, self.seed = folder, machines, repeats, seed
        self._finished = {} if finished is None else finished
        self.full = full
        self._jobs = jobs
        self.used: list[Path] = []  # folders of the runs that the experiment used
        self.simulations = 0  # number of simulations without a folder
        self._times: dict[str, list[JobTime]] = {}

    @property
    def live(self) -> bool:
        """Return whether scenarios run live, on nodes of real processes. Otherwise they are simulated.

        Workloads of live runs must be small, since they take wall-clock time.
        """
        return self.machines != "sim"

    @property
    def ran(self) -> bool:
        """Return whether the experiment has run or simulated any scenario."""
        return bool(self.used) or self.simulations > 0

    def run(
        self,
        name: str,
        scenario: Mapping[str, Any] | ResolvedScenario,
        *,
        repeats: int | None = None,
        slowdowns: bool = False,
    ) -> FinishedRun:
        """Run a scenario in the subfolder `name` of the bench's folder, and return the finished run.

        `scenario` is a ResolvedScenario or has the form of a scenario file. A seed in the scenario replaces
        the bench's seed, and `repeats` replaces its number of repeats. With `slowdowns`, each job is also
        simulated alone. A scenario with the same name is run only once, so that experiments share runs.
        Raises RunFailed if `schedbed run` would.
        """
        folder = self.folder / name
        self.used.append(folder)
        if folder not in self._finished:
            self._run_scenario(folder, self._resolved(scenario, name, repeats or self.repeats), slowdowns)
            run = open_record(folder)
            self._finished[folder] = FinishedRun(folder, run, Recorded(folder, run))
        return self._finished[folder]

    def times(self, name: str, scenario: Mapping[str, Any]) -> list[JobTime]:
        """Simulate a scenario with one policy once, and return the times of its jobs. No tables are written.

        A scenario with the same name is simulated only once.
        """
        if name not in self._times:
            self.simulations += 1
            resolved = self._resolved(scenario, name, 1)
            (policy,) = resolved.policies
            self._times[name] = job_times(resolved, policy)
        return self._times[name]

    def _resolved(
        self, scenario: Mapping[str, Any] | ResolvedScenario, name: str, repeats: int
    ) -> ResolvedScenario:
        if isinstance(scenario, ResolvedScenario):
            return replace(scenario, repeats=repeats)
        own: dict[str, Any] = {"name": name, "seed": self.seed, "repeats": repeats}
        own["profiles"] = {"store": "none"}  # The user's earlier runs must have no influence.
        return resolve({**own, **scenario})

    def _run_scenario(self, folder: Path, scenario: ResolvedScenario, slowdowns: bool) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        options = RunOptions(
            out=folder,
            machines=self.machines,
            live=False,
            jobs=self._jobs,
            slowdowns=slowdowns,
        )
        with (folder / LOG).open("w") as log, contextlib.redirect_stdout(log):
            run_scenario(scenario, options)


def paired(mine: Sequence[float], first: Sequence[float]) -> list[float]:
    """Return the reduction from `first` to `mine` in each repeat, as a share of `first`: 0.2 is 20% less."""
    return [(b - a) / b for a, b in zip(mine, first, strict=True)]
