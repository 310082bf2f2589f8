"""All simulated runs of one command: each policy in each repeat in virtual time, with its rows streamed to
Parquet."""

from __future__ import annotations

import gc
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from schedbed.cluster.virtual.latencies import Latencies
from schedbed.deploy.apart import ApartFailed, CutOff, Send, apart
from schedbed.deploy.display.progress import Progress, make_progress
from schedbed.deploy.options import RunOptions, no_interrupts, order_of_play
from schedbed.deploy.results.runfile import RunFile, RunRecord
from schedbed.deploy.scenario.resolved import PolicyChoice, ResolvedScenario
from schedbed.deploy.simulated.task_costs import costs_of
from schedbed.scheduler.core.rows import AttemptRow, DecisionRow, JobRow
from schedbed.scheduler.guard.untouched import check_untouched
from schedbed.scheduler.history import COLUMNS, History
from schedbed.scheduler.policy import PolicyFailed
from schedbed.scheduler.registry.speculation import with_speculation
from schedbed.scheduler.registry.user_file import is_policy_file
from schedbed.scheduler.simulate.setup import CostModel, CpuFactors, Setup, Stragglers, Stuck, Timing
from schedbed.scheduler.simulate.simulation import Simulation
from schedbed.scheduler.sizes import make_sizes
from schedbed.tasks.chance import chance
from schedbed.tasks.errors import BadInput

if TYPE_CHECKING:
    import pandas as pd

PART_ROWS = 100_000  # of a table are held in memory before they are written
BAD_JOBS_SHOWN = 20
LIVE_TIMING = Timing(begin_s=0.012)
"""As measured of live runs: all nodes' first heartbeats are answered some 16 ms after the clock's start."""
COMPILED_TASKS = 100_000
"""From this number of tasks on, the compiled loop is asked whether it can play them: it takes seconds to load."""
SHOW_S = 0.2
Show = Callable[[float, int], None]
"""Takes the virtual time and the number of attempts that have ended."""
BATCH_ROWS = 2_000
"""Rows are handed to the history in batches of this size: a call for each row would cost more than the row."""


def setup_of(
    scenario: ResolvedScenario,
    choice: PolicyChoice,
    repeat: int,
    costs: CostModel,
    latencies: Latencies,
    *,
    cpu_factors: CpuFactors | None = None,
    as_live: bool = False,
) -> Setup:
    """Return the setup for the simulation of a policy in a repeat.

    Repeats differ in the placement of blocks and in other chance; with `as_live` only in the times of heartbeats, as
    repeats of live runs do.
    """
    again = repeat > 0 and not as_live
    seed = chance(scenario.seed, "repeat", repeat).getrandbits(62) if again else scenario.seed
    simulate = scenario.simulate
    return Setup(
        cluster=scenario.cluster.with_seek(simulate.seek),
        jobs=scenario.jobs,
        files=scenario.inputs,
        policy=lambda: with_speculation(
            choice.build(scale=scenario.scale, store=scenario.profiles.store),
            scenario.speculation,
            scenario.scale,
        ),
        costs=costs,
        seed=seed,
        play=repeat if as_live else 0,
        faults=scenario.faults,
        contention=simulate.contention,
        latencies=latencies,
        timing=LIVE_TIMING if simulate.contention else Timing(),
        sizes=make_sizes(scenario.sizes),
        framework=scenario.framework,
        stragglers=Stragglers(share=simulate.straggler_share, factor=simulate.straggler_factor),
        cpu_factors=cpu_factors or {},
    )


@contextmanager
def _no_collections() -> Iterator[None]:
    """Turn off the garbage collector: a simulation makes few cycles but many objects, and the searches would cost a
    third."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def _where(error: Exception) -> str:
    """Return an error and where it was raised in one line, such as `ValueError: no such pool (mine.py, line 7)`."""
    if isinstance(error, PolicyFailed):
        return str(error)
    place = traceback.extract_tb(error.__traceback__)[-1]
    text = " ".join(f"{type(error).__name__}: {error}".split())
    return f"{text} ({Path(place.filename).name}, line {place.lineno})"


class RowTarget(Protocol):
    """The destination of rows: the history, or the process that has it."""

    def append(self, table: str, rows: list[tuple[Any, ...]]) -> None:
        """Take rows of a table."""
        ...

    def append_frame(self, table: str, data: pd.DataFrame) -> None:
        """Take many rows of a table."""
        ...


class SentRows:
    """Sends rows to the process that started this one."""

    def __init__(self, send: Send) -> None:
        self._send = send

    def append(self, table: str, rows: list[tuple[Any, ...]]) -> None:
        """Implement `RowTarget`: send the rows."""
        self._send(("rows", table, [tuple(row) for row in rows]))

    def append_frame(self, table: str, data: pd.DataFrame) -> None:
        """Implement `RowTarget`: send the frame."""
        self._send(("frame", table, data))


@dataclass(slots=True)
class HowItEnded:
    """The end of a simulation, with the fields of `RunRecord`."""

    state: str = "interrupted"
    note: str = ""
    duration_s: float = 0.0
    ends: int = 0
    findings: dict[str, Any] = field(default_factory=dict)
    rates: dict[str, int] = field(default_factory=dict)


class HistoryRows:
    """The rows of a simulation on their way to the history."""

    def __init__(self, history: RowTarget) -> None:
        self._history = history
        self._waiting: dict[str, list[tuple[Any, ...]]] = {table: [] for table in COLUMNS}
        self.bad_jobs: list[str] = []

    def _take(self, table: str, row: tuple[Any, ...]) -> None:
        rows = self._waiting[table]
        rows.append(row)
        if len(rows) >= BATCH_ROWS:
            self._history.append(table, rows)
            rows.clear()

    def decision(self, row: DecisionRow) -> None:
        """Implement `Sink`."""
        self._take("decisions", row)

    def attempt(self, row: AttemptRow) -> None:
        """Implement `Sink`."""
        self._take("attempts", row)

    def job(self, row: JobRow) -> None:
        """Implement `Sink`; note jobs that did not succeed."""
        if row.state != "succeeded":
            self.bad_jobs.append(f"{row.job} {row.state}")
        self._take("jobs", row)

    def heartbeat(self, row: tuple[object, ...]) -> None:
        """Implement `Rows`."""
        self._take("heartbeats", row)

    def block(self, row: tuple[object, ...]) -> None:
        """Implement `Rows`."""
        self._take("blocks", row)

    def fault(self, row: tuple[object, ...]) -> None:
        """Implement `Rows`."""
        self._take("faults", row)

    def columns(self, table: str, data: pd.DataFrame) -> None:
        """Append many rows of a table at once, after the waiting ones."""
        self._history.append(table, self._waiting[table])
        self._waiting[table].clear()
        self._history.append_frame(table, data)

    def flush(self) -> None:
        """Append the rows that are left."""
        for table, rows in self._waiting.items():
            self._history.append(table, rows)
            rows.clear()


class SimRuns:
    """All runs of one command. The cost model is made once: every policy has the same tasks."""

    SUBMITS: ClassVar[bool] = False

    def __init__(
        self,
        scenario: ResolvedScenario,
        options: RunOptions,
        costs: CostModel | None = None,
        latencies: Latencies | None = None,
        *,
        cpu_factors: CpuFactors | None = None,
        as_live: bool = False,
    ) -> None:
        self._scenario, self._options = scenario, options
        self._costs = costs or costs_of(scenario)
        self._latencies = latencies or Latencies()
        self._cpu_factors, self._as_live = cpu_factors, as_live

    def play(self, folder: Path, record: RunFile, watch: object = None) -> None:
        """Simulate every policy in every repeat; continue after a run that failed."""
        scenario = self._scenario
        order = order_of_play(len(scenario.policies), scenario.repeats)
        tasks = sum(job.maps + job.reduces for job in scenario.jobs)
        with make_progress(tasks, live=self._options.live) as progress:
            for number, (repeat, index) in enumerate(order):
                choice = scenario.policies[index]
                label = choice.spec + (f", repeat {repeat + 1}" if scenario.repeats > 1 else "")
                progress.begin(f"{label} ({number + 1} of {len(order)})")
                run = RunRecord(policy=choice.spec, repeat=repeat, epoch_s=time.time())
                record.runs.append(run)
                try:
                    self._play_one(
                        choice, run, History(folder, choice.spec, repeat, part_rows=PART_ROWS), progress
                    )
                finally:
                    record.save(folder)

    def _play_one(
        self, choice: PolicyChoice, record: RunRecord, history: History, progress: Progress
    ) -> None:
        ended = HowItEnded()
        try:
            if choice.make is None and is_policy_file(choice.spec):
                ended = self._play_apart(choice, record.repeat, history, progress)
            else:
                self._simulate(choice, record.repeat, history, progress.show, ended)
        except BaseException as error:
            ended.note = type(error).__name__
            raise
        finally:
            record.state, record.note, record.findings = ended.state, ended.note, ended.findings
            record.duration_s, record.rates = ended.duration_s, ended.rates
            with no_interrupts():
                history.close()
                progress.end(ended.duration_s, ended.ends)

    def _play_apart(
        self, choice: PolicyChoice, repeat: int, history: History, progress: Progress
    ) -> HowItEnded:
        """Simulate a policy of a user's file in a process of its own, to protect this one."""
        ended = HowItEnded()

        def take(message: Any) -> None:
            match message:
                case ("rows", table, rows):
                    history.append(table, rows)
                case ("frame", table, data):
                    history.append_frame(table, data)
                case ("show", now_s, ends):
                    ended.duration_s, ended.ends = now_s, ends
                    progress.show(now_s, ends)

        def simulate(send: Send) -> dict[str, Any]:
            found = HowItEnded()
            show = partial(_send_now_and_then, send, [0.0])
            self._simulate(choice, repeat, SentRows(send), show, found)
            return asdict(found)

        try:
            return HowItEnded(**apart(simulate, take, file=choice.spec.rpartition(":")[0]))
        except (CutOff, ApartFailed, BadInput) as error:
            ended.state, ended.note = "failed", str(error)
            return ended

    def _simulate(
        self, choice: PolicyChoice, repeat: int, target: RowTarget, show: Show, ended: HowItEnded
    ) -> None:
        rows = HistoryRows(target)
        simulation: Simulation | None = None
        try:
            with _no_collections():
                setup = setup_of(
                    self._scenario,
                    choice,
                    repeat,
                    self._costs,
                    self._latencies,
                    cpu_factors=self._cpu_factors,
                    as_live=self._as_live,
                )
                simulation = Simulation(setup, rows)
                self._run(simulation, show)
            missing = len(simulation.jobs) - simulation.statistics.jobs
            check_untouched(simulation.core, simulation.master.policy, missing)
            ended.findings = simulation.master.report()
            ended.state = "failed" if rows.bad_jobs else "succeeded"
            ended.note = "; ".join(rows.bad_jobs[:BAD_JOBS_SHOWN])
        except Stuck as error:
            ended.state, ended.note = "failed", str(error)
        except Exception as error:
            if not (choice.make or is_policy_file(choice.spec)):
                raise
            ended.state, ended.note = "failed", _where(error)  # most likely the user's policy's own fault
            line_of = getattr(None if simulation is None else simulation.master.policy, "line_of", None)
            if line_of is not None and not isinstance(error, PolicyFailed):
                ended.note += f", under the policy of {line_of('decide')}"
        finally:
            with no_interrupts():
                rows.flush()
                if simulation is not None:
                    ended.duration_s = simulation.now_s
                    with suppress(PolicyFailed):
                        ended.findings = ended.findings or simulation.master.report()
                    ended.ends = simulation.statistics.ends
                    solved = simulation.statistics.solved
                    if solved.cut_short:
                        ended.rates = solved._asdict()

    def _run(self, simulation: Simulation, show_counts: Show) -> None:
        """Run in the compiled loop if it can simulate this run, else with objects: the rows are the same."""

        def show(played: Simulation) -> None:
            show_counts(played.now_s, played.statistics.ends)

        tasks = sum(job.maps + job.reduces for job in simulation.jobs)
        if self._scenario.simulate.engine == "auto" and tasks >= COMPILED_TASKS:
            from schedbed.scheduler.simulate.compiled.run_compiled import run

            if run(simulation, show) is None:
                return
        simulation.run(show)


def _send_now_and_then(send: Send, last_s: list[float], now_s: float, ends: int) -> None:
    """Send a simulation's progress, a few times per second."""
    if time.monotonic() - last_s[0] > SHOW_S:
        last_s[0] = time.monotonic()
        send(("show", now_s, ends))
