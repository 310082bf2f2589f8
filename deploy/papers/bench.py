"""The class `Bench`, with which an experiment runs scenarios and reads the tables that the runs wrote."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from schedbed.cluster.virtual.latencies import Latencies
from schedbed.deploy.results.record_check import open_record
from schedbed.deploy.results.recorded import Recorded
from schedbed.deploy.results.runfile import RunFile
from schedbed.deploy.results.summary import load
from schedbed.deploy.scenario.resolve import resolve
from schedbed.deploy.scenario.resolved import PolicyChoice, ResolvedScenario
from schedbed.deploy.simulated.simulated_runs import setup_of
from schedbed.deploy.simulated.task_costs import costs_of
from schedbed.deploy.whole_run import RunOptions, run_scenario
from schedbed.scheduler.simulate.setup import Setup

if TYPE_CHECKING:
    from schedbed.deploy.results.metrics import RunTables

LOG = "log.txt"

Asked = Mapping[str, Any] | ResolvedScenario
Size = Mapping[str, int]
"""The numbers of `nodes`, `jobs` and `tasks` of a scenario."""


def size_of(scenario: ResolvedScenario) -> Size:
    """Return the size of a scenario as it runs."""
    tasks = sum(job.maps + job.reduces for job in scenario.jobs)
    return {"nodes": len(scenario.cluster.nodes), "jobs": len(scenario.jobs), "tasks": tasks}


@dataclass(frozen=True, slots=True)
class FinishedRun:
    """A scenario that has run under each of its policies: a folder and its tables for each repeat."""

    folders: Sequence[Path]
    sizes: Sequence[Size]
    runs: Sequence[RunFile]
    recorded: Sequence[Recorded]

    @property
    def scale(self) -> float:
        """Return the factor by which the scenario shortens all times."""
        return self.runs[0].scenario["scale"]

    @property
    def policies(self) -> list[str]:
        return self.runs[0].policies

    @property
    def repeats(self) -> range:
        return range(len(self.runs))

    def split(self) -> list[FinishedRun]:
        """Return a finished run for each repeat."""
        parts = zip(self.folders, self.sizes, self.runs, self.recorded, strict=True)
        return [FinishedRun([folder], [size], [run], [tables]) for folder, size, run, tables in parts]

    def of(self, policy: str, repeat: int = 0) -> RunTables:
        """Return the tables of a policy's run in a repeat."""
        return self.recorded[repeat].tables(policy, 0)

    def each(self, policy: str) -> list[RunTables]:
        """Return the tables of each repeat, all in memory: runs must be small."""
        return [self.of(policy, repeat) for repeat in self.repeats]

    def findings(self, policy: str, repeat: int = 0) -> Mapping[str, Any]:
        """Return what the policy reported at the end of a repeat, or nothing."""
        record = self.runs[repeat].run(policy, 0)
        return record.findings if record else {}

    def figures(self, policy: str, *path: str) -> list[float]:
        """Return a policy's value in summary.json for each repeat, NaN if missing: `figures("fair", "makespan_s")`."""
        values: list[float] = []
        for folder in self.folders:
            found: Any = load(folder)["policies"][policy]
            for key in path:
                found = found[key]
            values += [float("nan") if value is None else value for value in found["repeats"]]
        return values


class Bench:
    """Runs scenarios for an experiment, with one of the command's seeds.

    Each repeat draws the scenario's tasks and jobs again. `finished` shares runs among experiments of one
    command. `full` uses the paper's own size, maybe for hours. `jobs` simulations run in parallel.
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
        self.sizes: list[Size] = []  # of the scenarios that the experiment used
        self.simulations = 0  # number of simulations without a folder

    @property
    def live(self) -> bool:
        """Return whether scenarios run live; workloads must then be small, since they take wall-clock time."""
        return self.machines != "sim"

    @property
    def seeds(self) -> range:
        """Return seeds of the repeats."""
        return range(self.seed, self.seed + self.repeats)

    @property
    def ran(self) -> bool:
        """Return whether the experiment has run or simulated anything."""
        return bool(self.used) or self.simulations > 0

    def run(
        self,
        name: str,
        scenario: Asked | Callable[[int], Asked],
        *,
        repeats: int | None = None,
        slowdowns: bool = False,
    ) -> FinishedRun:
        """Run a scenario in the subfolder `name`, once for all calls with this name. Raises RunFailed.

        A function gets the seed of a repeat, and returns its scenario. With `slowdowns`, each job is also
        simulated alone.
        """
        folder = self.folder / name
        found = self._finished.get(folder)
        if found is None:
            seeds = self.seeds[:repeats]
            folders = [folder / str(number) for number in range(1, len(seeds) + 1)]
            asked = [scenario(seed) if callable(scenario) else scenario for seed in seeds]
            drawn = [self._resolved(each, name, seed) for each, seed in zip(asked, seeds, strict=True)]
            for mine, each in zip(folders, drawn, strict=True):
                self._run_scenario(mine, each, slowdowns)
            runs = [open_record(mine) for mine in folders]
            found = FinishedRun(folders, list(map(size_of, drawn)), runs, list(map(Recorded, folders, runs)))
            self._finished[folder] = found
        self.sizes += found.sizes
        self.used += found.folders
        return found

    def _resolved(self, scenario: Asked, name: str, seed: int) -> ResolvedScenario:
        if isinstance(scenario, ResolvedScenario):
            return replace(scenario, repeats=1)
        own: dict[str, Any] = {"name": name, "repeats": 1}
        own["profiles"] = {"store": "none"}  # The user's earlier runs must have no influence.
        return resolve({**own, **scenario, "seed": seed})

    def _run_scenario(self, folder: Path, scenario: ResolvedScenario, slowdowns: bool) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        options = RunOptions(
            out=folder,
            machines=self.machines,
            live=False,
            jobs=self._jobs,
            slowdowns=slowdowns,
            report=self.live,
        )
        with (folder / LOG).open("w") as log, contextlib.redirect_stdout(log):
            run_scenario(scenario, options)


def paired(mine: Sequence[float], first: Sequence[float]) -> list[float]:
    """Return (first - mine) / first: 0.2 means that `mine` is 20% smaller."""
    return [(b - a) / b for a, b in zip(mine, first, strict=True)]


def lean_setup(resolved: ResolvedScenario, policy: PolicyChoice) -> Setup:
    """Return the setup of a simulation of the scenario that makes only the rows of jobs and attempts."""
    setup = setup_of(resolved, policy, 0, costs_of(resolved), Latencies())
    return replace(setup, heartbeat_rows=False, skip_rows=False)
