"""The interface with which an experiment runs scenarios, as `schedbed run` does, and reads tables."""

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
class Played:
    """A finished run: its folder, its record and its tables."""

    folder: Path
    run: RunFile
    recorded: Recorded

    @property
    def policies(self) -> list[str]:
        """Return the names of the policies as they appear in every table, in the order of the scenario."""
        return self.run.policies

    def of(self, policy: str, repeat: int = 0) -> RunTables:
        """Return the tables of one policy in one repeat."""
        return self.recorded.tables(policy, repeat)

    def each(self, policy: str) -> list[RunTables]:
        """Return the tables of a policy in each repeat.

        All tables are in memory at once, so use small runs.
        """
        return [self.of(policy, repeat) for repeat in range(self.run.repeats)]

    def findings(self, policy: str, repeat: int = 0) -> Mapping[str, Any]:
        """Return the values that the policy reported at the end of the run."""
        record = self.run.run(policy, repeat)
        return record.findings if record else {}

    def figures(self, policy: str, *path: str) -> list[float]:
        """Return one number per repeat from summary.json, such as `figures("fair", "makespan_s")`."""
        found: Any = load(self.folder)["policies"][policy]
        for key in path:
            found = found[key]
        return [float("nan") if value is None else value for value in found["repeats"]]


class Bench:
    """The runner of an experiment's scenarios: `play` keeps a run's tables, `times` only job times.

    `folder` keeps the runs of the paper. `seed` determines all random choices. `played` has the runs of this
    command so far, by folder. `full` requests the paper's own size, whatever time it takes. `jobs` is the
    number of simulations at a time.
    """

    def __init__(
        self,
        folder: Path,
        *,
        machines: str,
        repeats: int,
        seed: int,
        played: dict[Path, Played] | None = None,
        full: bool = False,
        jobs: int = 1,
    ) -> None:
        self.folder, self.machines, self.repeats, self.seed = folder, machines, repeats, seed
        self._played = {} if played is None else played
        self.full = full
        self._jobs = jobs
        self.used: list[Path] = []  # folders of the runs that the experiment used
        self.simulations = 0  # number of simulations without a folder
        self._times: dict[str, list[JobTime]] = {}

    @property
    def live(self) -> bool:
        """Return whether runs are live. Live runs take wall-clock time, so their workloads must be small."""
        return self.machines != "sim"

    @property
    def ran(self) -> bool:
        """Return whether the experiment has run any task."""
        return bool(self.used) or self.simulations > 0

    def play(
        self,
        name: str,
        scenario: Mapping[str, Any] | ResolvedScenario,
        *,
        repeats: int | None = None,
        slowdowns: bool = False,
    ) -> Played:
        """Run a scenario, given as in a file or resolved, in the subfolder `name` of the bench's folder.

        A `seed` in the scenario overrides the seed of the bench; `repeats` overrides its number of repeats.
        `slowdowns` are measured on request only, since each job is then also simulated alone. A name that was
        run before is not run again, so that experiments share runs. Raises RunFailed under the same
        conditions as `schedbed run`.
        """
        folder = self.folder / name
        self.used.append(folder)
        if folder not in self._played:
            self._play(folder, self._resolved(scenario, name, repeats or self.repeats), slowdowns)
            run = open_record(folder)
            self._played[folder] = Played(folder, run, Recorded(folder, run))
        return self._played[folder]

    def times(self, name: str, scenario: Mapping[str, Any]) -> list[JobTime]:
        """Simulate a scenario with one policy once, without tables, and return its jobs' times.

        A name that was simulated before is not simulated again.
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

    def _play(self, folder: Path, scenario: ResolvedScenario, slowdowns: bool) -> None:
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
    """Return the relative reduction from `first` to `mine` for each repeat: 0.2 means 20% less."""
    return [(b - a) / b for a, b in zip(mine, first, strict=True)]
