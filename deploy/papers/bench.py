"""The class `Bench`, with which an experiment runs scenarios and reads the tables that the runs wrote."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
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
from schedbed.deploy.simulated.isolated import JobEnds
from schedbed.deploy.simulated.simulated_runs import setup_of
from schedbed.deploy.simulated.task_costs import costs_of
from schedbed.deploy.whole_run import RunOptions, run_scenario
from schedbed.scheduler.simulate.setup import Setup
from schedbed.scheduler.simulate.simulation import Simulation

if TYPE_CHECKING:
    from schedbed.deploy.results.metrics import RunTables

LOG = "log.txt"


@dataclass(frozen=True, slots=True)
class FinishedRun:
    """A finished run of a scenario under each of its policies: the output folder and the recorded tables."""

    folder: Path
    run: RunFile
    recorded: Recorded

    @property
    def scale(self) -> float:
        """Return the factor by which the scenario shortens all times."""
        return self.run.scenario["scale"]

    @property
    def policies(self) -> list[str]:
        return self.run.policies

    def of(self, policy: str, repeat: int = 0) -> RunTables:
        """Return the tables of a policy's run in a repeat."""
        return self.recorded.tables(policy, repeat)

    def each(self, policy: str) -> list[RunTables]:
        """Return the tables of each repeat, all in memory: runs must be small."""
        return [self.of(policy, repeat) for repeat in range(self.run.repeats)]

    def findings(self, policy: str, repeat: int = 0) -> Mapping[str, Any]:
        """Return what the policy reported at the end of a repeat, or nothing."""
        record = self.run.run(policy, repeat)
        return record.findings if record else {}

    def figures(self, policy: str, *path: str) -> list[float]:
        """Return a policy's value in summary.json for each repeat, NaN if missing: `figures("fair", "makespan_s")`."""
        found: Any = load(self.folder)["policies"][policy]
        for key in path:
            found = found[key]
        return [float("nan") if value is None else value for value in found["repeats"]]


class Bench:
    """Runs scenarios for an experiment. `run` records all tables, `times` only the jobs' times.

    `finished` shares runs among experiments of one command. `full` uses the paper's own size, maybe for
    hours. `jobs` simulations run in parallel.
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
        """Return whether scenarios run live; workloads must then be small, since they take wall-clock time."""
        return self.machines != "sim"

    @property
    def seeds(self) -> range:
        """Return seeds of the repeats, for an experiment with another scenario in each."""
        return range(self.seed, self.seed + self.repeats)

    @property
    def ran(self) -> bool:
        """Return whether the experiment has run or simulated anything."""
        return bool(self.used) or self.simulations > 0

    def run(
        self,
        name: str,
        scenario: Mapping[str, Any] | ResolvedScenario,
        *,
        repeats: int | None = None,
        slowdowns: bool = False,
    ) -> FinishedRun:
        """Run a scenario in the subfolder `name`, once for all calls with this name. Raises RunFailed.

        The bench's seed counts unless the scenario has one. With `slowdowns`, each job is also simulated
        alone.
        """
        folder = self.folder / name
        self.used.append(folder)
        if folder not in self._finished:
            self._run_scenario(folder, self._resolved(scenario, name, repeats or self.repeats), slowdowns)
            run = open_record(folder)
            self._finished[folder] = FinishedRun(folder, run, Recorded(folder, run))
        return self._finished[folder]

    def times(self, name: str, scenario: Mapping[str, Any]) -> list[JobTime]:
        """Simulate a scenario of one policy once for each `name`. Return jobs' times; no tables are written."""
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
    """Return (first - mine) / first: 0.2 means that `mine` is 20% smaller."""
    return [(b - a) / b for a, b in zip(mine, first, strict=True)]


# Simulations that record only the times of jobs. They take half the time of a run with tables.


@dataclass(frozen=True, slots=True, kw_only=True)
class JobTime:
    """The submission, the end and the deadline (or None) of a job, in seconds since the run's start."""

    name: str
    submit_s: float
    finish_s: float
    deadline_s: float | None

    @property
    def took_s(self) -> float:
        return self.finish_s - self.submit_s


def job_times(resolved: ResolvedScenario, policy: PolicyChoice) -> list[JobTime]:
    """Simulate a scenario under one of its policies once, and return the times of its jobs."""
    ends = JobEnds()
    Simulation(lean_setup(resolved, policy), ends).run()
    return [
        JobTime(
            name=job.name,
            submit_s=job.submit_s,
            finish_s=ends.finish_s[job.job],
            deadline_s=job.deadline_s,
        )
        for job in resolved.jobs
    ]


def lean_setup(resolved: ResolvedScenario, policy: PolicyChoice) -> Setup:
    """Return the setup of a simulation of the scenario that makes only the rows of jobs and attempts."""
    setup = setup_of(resolved, policy, 0, costs_of(resolved), Latencies())
    return replace(setup, heartbeat_rows=False, skip_rows=False)
