"""All simulated runs of one command: each policy in each repeat, with rows written to Parquet files."""

from __future__ import annotations

import gc
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from schedbed.cluster.virtual.latencies import Latencies
from schedbed.deploy.display.progress import make_progress
from schedbed.deploy.options import RunOptions, no_interrupts, run_order
from schedbed.deploy.results.runfile import RunFile
from schedbed.deploy.scenario.resolved import PolicyChoice, ResolvedScenario
from schedbed.deploy.side_by_side import SideWork, all_cores, side_by_side
from schedbed.deploy.simulated.confined_policies import confined_setup
from schedbed.deploy.simulated.engine_choice import choose_engine, effort_of
from schedbed.deploy.simulated.one_run import HistoryRows, OneRun, RowTarget, SentRows, SimulationEnd
from schedbed.deploy.simulated.recorded_costs import SharedInputs
from schedbed.deploy.simulated.task_costs import costs_of
from schedbed.deploy.worker_fork import Send
from schedbed.scheduler.core.snapshots import no_collections
from schedbed.scheduler.engines import OBJECTS, Chosen, Effort, fast_engine
from schedbed.scheduler.guard.read_only import check_untouched
from schedbed.scheduler.policy import HostedPolicy, PolicyFailed
from schedbed.scheduler.simulate.setup import CostModel, CpuFactors, Setup, Stragglers, Stuck, Timing
from schedbed.scheduler.simulate.simulation import Simulation
from schedbed.scheduler.simulate.storage import PlacedInputs, place_inputs
from schedbed.scheduler.sizes import make_sizes
from schedbed.tasks.chance import chance
from schedbed.tasks.errors import BadInput

if TYPE_CHECKING:
    from schedbed.deploy.simulated.recorded_costs import RecordedCosts
    from schedbed.deploy.simulated.task_costs import ScenarioCosts

BAD_JOBS_SHOWN = 20
LIVE_TIMING = Timing(begin_s=0.012)
"""The timing measured in live runs: first heartbeats are answered about 16 ms after the clock starts."""
COLLECTED_TASKS = 10_000
"""The least number of tasks for which what earlier simulations have left is removed first, in 0.1 s."""
NEEDS_BYTES, NEEDS_A_TASK_BYTES = 150 << 20, 3 << 10
"""The expected memory of a simulation (fixed, and per task) until one has been measured."""
Show = Callable[[float, int], None]
"""Takes the virtual time and the number of attempts that have ended."""


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
    """Return the setup with which a policy is simulated in a repeat.

    Repeats differ in block placement and in all other random choices; with `as_live`, only in the times of
    heartbeats, like live repeats. `cpu_factors` are factors on CPU times.
    """
    again = repeat > 0 and not as_live
    seed = chance(scenario.seed, "repeat", repeat).getrandbits(62) if again else scenario.seed
    simulate = scenario.simulate
    return Setup(
        cluster=scenario.cluster.with_seek(simulate.seek),
        jobs=scenario.jobs,
        files=scenario.inputs,
        policy=lambda: scenario.new_policy(choice),
        costs=costs,
        seed=seed,
        repeat=repeat if as_live else 0,
        faults=scenario.faults,
        changes=scenario.changes,
        contention=simulate.contention,
        latencies=latencies,
        timing=LIVE_TIMING if simulate.contention else Timing(),
        sizes=make_sizes(scenario.sizes),
        framework=scenario.framework,
        stragglers=Stragglers(share=simulate.straggler_share, factor=simulate.straggler_factor),
        cpu_factors=cpu_factors or {},
    )


def _where(error: Exception) -> str:
    """Return an error and its place as one line, such as `ValueError: no such pool (mine.py, line 7)`."""
    if isinstance(error, PolicyFailed):
        return str(error)
    place = traceback.extract_tb(error.__traceback__)[-1]
    text = " ".join(f"{type(error).__name__}: {error}".split())
    return f"{text} ({Path(place.filename).name}, line {place.lineno})"


def _with_tables(placed: PlacedInputs, setups: Sequence[Setup]) -> PlacedInputs:
    """Add the fast engine's tables if it may run several setups, which differ in policy and heartbeats only."""
    fast = fast_engine()
    if [fast.why_not(setup, setup.policy()) for setup in setups].count(None) < 2:
        return placed
    return placed._replace(tables=fast.shared_tables(setups[0], placed.storage, placed.jobs))


class SimRuns:
    """All simulated runs of a command. With one cost model, all policies run the same tasks.

    Raises BadInput if a policy cannot be sent to the Ray cluster that the options ask for.
    """

    SUBMITS: ClassVar[bool] = False

    def __init__(
        self,
        scenario: ResolvedScenario,
        options: RunOptions,
        costs: ScenarioCosts | RecordedCosts | None = None,
        latencies: Latencies | None = None,
        *,
        cpu_factors: CpuFactors | None = None,
        as_live: bool = False,
    ) -> None:
        if options.address is not None:
            _check_sendable(scenario)
        self._options = options
        self._replays = costs is not None or bool(cpu_factors)
        self._inputs = SharedInputs(
            scenario=scenario,
            costs=costs or costs_of(scenario),
            latencies=latencies or Latencies(),
            cpu_factors=cpu_factors or {},
            as_live=as_live,
        )
        self._chosen = Chosen()
        self._placed: PlacedInputs | None = None  # If several processes, which are forked later, need it.

    def run_all(self, folder: Path, record: RunFile, watch: object = None) -> None:
        """Simulate every policy in every repeat. A run that fails does not stop the others.

        If several runs go on at a time, or the policy is a user's file, a run has a separate process; with
        the option `address`, on the hosts of that Ray cluster. The files written are the same in all cases.
        `watch` is ignored, since only live runs are on the live page. Raises BadInput if the cluster cannot
        be joined.
        """
        scenario, record.replays = self._inputs.scenario, self._replays
        order = run_order(len(scenario.policies), scenario.repeats)
        tasks = scenario.task_count
        at_once = min(self._options.jobs or 1, len(order))
        with make_progress(tasks, live=self._options.live) as progress:
            runs = [
                OneRun(
                    choice=scenario.policies[index],
                    repeat=repeat,
                    label=f"{_label(scenario, index, repeat)} ({number + 1} of {len(order)})",
                    place=(folder, record, progress),
                )
                for number, (repeat, index) in enumerate(order)
            ]
            if at_once == 1 and self._options.address is None:
                self._run_in_turn(runs)
                return
            efforts = {choice.spec: effort_of(choice, scenario) for choice in scenario.policies}
            long_first = sorted(runs, key=lambda run: -efforts[run.choice.spec])
            try:
                self._run_at_once(long_first, efforts, at_once, NEEDS_BYTES + NEEDS_A_TASK_BYTES * tasks)
            finally:
                _sort_records(record, runs)

    def run_one(self, run: OneRun, at_once: int) -> None:
        """Simulate one run in a separate process. `at_once` of the command's runs go on at a time, on all
        hosts.

        If other runs would be slow too, the fast engine is prepared first.
        """
        self._chosen = choose_engine(self._inputs.scenario, at_once)
        self._run_apart([run], 1)

    def _run_in_turn(self, runs: Sequence[OneRun]) -> None:
        self._chosen = choose_engine(self._inputs.scenario, 1)
        for run in runs:
            if run.is_of_file:
                self._run_apart([run], 1)
            else:
                self._simulate_here(run)
        self._chosen.end()

    def _run_at_once(
        self, runs: Sequence[OneRun], efforts: Mapping[str, Effort], at_once: int, needs_bytes: int
    ) -> None:
        """Simulate the runs, each in a separate process, here (`at_once` at a time) or on the Ray cluster's hosts."""
        options = self._options
        if options.address is not None:
            from schedbed.deploy.simulated.ray_tasks import simulate_on_hosts

            simulate_on_hosts(options.address, runs, self._inputs, options.jobs, needs_bytes)
            return
        import fastparquet  # noqa: F401  # once, here, instead of in each process

        self._chosen = choose_engine(self._inputs.scenario, at_once)
        self._place_once(runs, efforts)
        self._run_apart(runs, at_once, needs_bytes)
        self._placed = None
        self._chosen.end()

    def _place_once(self, runs: Sequence[OneRun], efforts: Mapping[str, Effort]) -> None:
        """Place the input files before processes are forked, if all runs have the same seed.

        If several runs may use the fast engine, also make its tables. If either fails, each run does it and
        reports the error.
        """
        setups = [self._setup_of(run) for run in runs]
        if any(setup.seed != setups[0].seed for setup in setups):
            return
        with no_collections(), suppress(Exception):
            self._placed = place_inputs(setups[0])
            if self._chosen.engines:
                known = zip(runs, setups, strict=True)
                short = [setup for run, setup in known if efforts[run.choice.spec] < Effort.LONG]
                self._placed = _with_tables(self._placed, short)

    def _setup_of(self, run: OneRun) -> Setup:
        inputs = self._inputs
        return setup_of(
            inputs.scenario,
            run.choice,
            run.repeat,
            inputs.costs,
            inputs.latencies,
            cpu_factors=inputs.cpu_factors,
            as_live=inputs.as_live,
        )

    def _simulate_here(self, run: OneRun) -> None:
        run.begin()
        try:
            self._simulate(run, run.history, run.show, run.ended, all_cores())
        except BaseException as error:
            run.ended.note = type(error).__name__
            raise
        finally:
            run.close()

    def _run_apart(self, runs: Sequence[OneRun], at_once: int, needs_bytes: int = 0) -> None:
        """Simulate each run in a separate process. If the last has all cores, it uses them to write its rows."""
        works = [self._work(run, needs_bytes) for run in runs]
        if len(runs) % at_once == 1:
            works[-1] = self._work(runs[-1], needs_bytes, all_cores())
        side_by_side(works, at_once)

    def _work(self, run: OneRun, needs_bytes: int, at_once: int = 1) -> SideWork:
        """Return the work of simulating a run in a separate process.

        Rows of a user's policy file are sent to this process, to keep them if the other crashes. Otherwise
        that process writes them, `at_once` at a time as in `HistoryRows`.
        """

        def simulate(send: Send) -> None:
            found, sent = SimulationEnd(), SentRows(send)
            target, cores = (sent, 1) if run.is_of_file else (run.history, at_once)
            try:
                self._simulate(run, target, sent.show, found, cores)
            finally:
                with no_interrupts():
                    run.history.close()
                    send(("ended", asdict(found)))

        return SideWork(
            do=simulate,
            begin=run.begin,
            take=run.take,
            ended=run.end,
            file=run.choice.spec.rpartition(":")[0] if run.is_of_file else None,
            needs_bytes=needs_bytes,
        )

    def _simulate(
        self, run: OneRun, target: RowTarget, show: Show, ended: SimulationEnd, at_once: int = 1
    ) -> None:
        """Simulate the run. `at_once` is as in `HistoryRows`."""
        isolated = self._options.isolated and run.is_of_file
        setup, choice = self._setup_of(run), run.choice
        held = confined_setup(setup, choice, self._inputs.scenario) if isolated else nullcontext(setup)
        with held as setup:
            self._simulate_setup(run, setup, target, show, ended, at_once)

    def _simulate_setup(
        self, run: OneRun, setup: Setup, target: RowTarget, show: Show, ended: SimulationEnd, at_once: int
    ) -> None:
        choice, rows = run.choice, HistoryRows(target, run, at_once)
        simulation: Simulation | None = None
        try:
            if self._inputs.scenario.task_count >= COLLECTED_TASKS:
                gc.collect()
            with no_collections():
                simulation = Simulation(setup, rows, self._placed)
                self._run(simulation, show)
            missing = len(simulation.jobs) - simulation.statistics.jobs
            check_untouched(simulation.core, simulation.master.policy, missing)
            ended.findings = simulation.master.report()
            ended.state = "failed" if rows.bad_jobs else "succeeded"
            ended.note = "; ".join(rows.bad_jobs[:BAD_JOBS_SHOWN])
        except Stuck as error:
            ended.state, ended.note = "failed", str(error)
        except Exception as error:
            if not choice.is_own:
                raise
            ended.state, ended.note = "failed", _where(error)  # most likely an error in the user's policy
            policy = None if simulation is None else simulation.master.policy
            if isinstance(policy, HostedPolicy) and not isinstance(error, PolicyFailed):
                ended.note += f", under the policy of {policy.line_of('decide')}"
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
        """Run the fast engine if the run is large and supported, else Python objects, with the same rows."""

        def show(current: Simulation) -> None:
            show_counts(current.now_s, current.statistics.ends)

        (OBJECTS if simulation.master.relays else self._chosen).run(simulation, show)


def _sort_records(record: RunFile, runs: Sequence[OneRun]) -> None:
    """Sort the records as if the runs had begun in this order."""
    place = {(run.choice.spec, run.repeat): place for place, run in enumerate(runs)}
    record.runs.sort(key=lambda each: place[each.policy, each.repeat])


def _check_sendable(scenario: ResolvedScenario) -> None:
    """Raise BadInput for a class or an object as policy, which other hosts cannot load."""
    for choice in scenario.policies:
        if choice.make is not None:
            why = "a class or object cannot be sent to other hosts, expected path/to/file.py:ClassName"
            raise BadInput(f"--address: policy {choice.spec}: {why}")


def _label(scenario: ResolvedScenario, index: int, repeat: int) -> str:
    return scenario.policies[index].spec + (f", repeat {repeat + 1}" if scenario.repeats > 1 else "")
