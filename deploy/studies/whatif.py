"""`schedbed whatif`: replay a recorded run in the simulator, under other policies or on other nodes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from schedbed.cluster.spec import ClusterSpec, NodeSpec
from schedbed.cluster.virtual.latencies import Latencies
from schedbed.deploy.options import RunOptions
from schedbed.deploy.results import metrics, stats
from schedbed.deploy.results.fidelity import combine_hosts
from schedbed.deploy.results.in_progress import readable
from schedbed.deploy.results.measures.window import Window
from schedbed.deploy.results.metrics import RunTables, select
from schedbed.deploy.results.record_check import open_record
from schedbed.deploy.results.runfile import RunFile
from schedbed.deploy.results.summary import fidelity_of
from schedbed.deploy.scenario.policies import policies_of
from schedbed.deploy.scenario.resolved import ResolvedScenario
from schedbed.deploy.simulated.recorded_costs import RecordedAmounts, RecordedCosts, launch_s, launches_after
from schedbed.deploy.simulated.simulated_runs import SimRuns, setup_of
from schedbed.deploy.simulated.task_costs import ScenarioCosts, costs_of
from schedbed.deploy.whole_run import run_scenario
from schedbed.scheduler.core.rows import AttemptRow, NoSink
from schedbed.scheduler.history import frame, read_tables
from schedbed.scheduler.simulate.simulation import Simulation
from schedbed.tasks.errors import BadInput
from schedbed.tasks.workloads.planned import InputFile

FIT_ROUNDS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedRun:
    """A finished run under one policy. If it has several repeats, the first one is replayed."""

    run: RunFile
    policy: str
    scenario: ResolvedScenario
    tables: RunTables

    @property
    def makespan_s(self) -> float:
        return metrics.makespan(self.tables.jobs)["all"]


def load_record(folder: Path, policy: str | None = None) -> RecordedRun:
    """Read the run under `policy` (name or SPEC, by default the first). Raises BadInput if there is none."""
    with readable(folder) as place:
        run, tables = open_record(place), read_tables(place)
    known = [record.policy for record in run.runs if record.repeat == 0]
    matches = [spec for spec in known if policy in (None, spec, spec.partition(":")[0])]
    if not matches:
        raise BadInput(f"--from {policy}: not in this run, expected one of {', '.join(known) or 'none'}")
    window = Window.of(run.scenario.get("measure"))
    mine = select(tables, run.nodes, matches[0], 0, run.isolated_s, window)
    return RecordedRun(
        run=run, policy=matches[0], scenario=ResolvedScenario.from_json(run.scenario), tables=mine
    )


def whatif(
    folder: Path,
    policies: Sequence[Any],
    options: RunOptions,
    *,
    nodes: int | None = None,
    recorded: str | None = None,
    say: Callable[[str], None] = print,
) -> Path:
    """Replay the run recorded in `folder` in the simulator. Return the folder with the results.

    It is replayed under `policies` on `nodes` nodes, by default as recorded. `recorded` is the policy whose
    run is used. Task costs and launch times are as recorded; everything else is simulated. Raises BadInput if
    there is no such run, RunFailed if the replay fails.
    """
    record = load_record(folder, recorded)
    scenario = _changed(record, policies, nodes).without_learning()
    say(f"replaying the record of {record.policy}: makespan {record.makespan_s:.1f} s")
    for line in _left_out(record):
        say(f"note: {line}")
    latencies = _latencies(record)
    costs = _costs(record, latencies)
    made = run_scenario(
        scenario,
        replace(options, machines="sim"),
        lambda scenario, options: SimRuns(scenario, options, costs, latencies),
        lambda summary: with_record(record, summary),
    )
    if nodes in (None, len(record.scenario.cluster.nodes)):
        _compare(record, made, say)
    return made


def with_record(record: RecordedRun, summary: Mapping[str, Any]) -> dict[str, Any]:
    """Return a replay's summary with the recorded run in front, as a policy such as `record of fifo`."""
    measured = stats.tree([metrics.measure(record.tables)])
    one = record.run.run(record.policy, 0)
    judged = [] if one is None else [fidelity_of(record.run, one, record.tables)]
    column = measured | {"paired": {}, "fidelity": combine_hosts(judged)}
    policies = {f"record of {record.policy}": column} | dict(summary["policies"])
    return {**summary, "policies": policies}


def _changed(record: RecordedRun, policies: Sequence[Any], nodes: int | None) -> ResolvedScenario:
    scenario = record.scenario
    mine = [choice for choice in scenario.policies if choice.spec == record.policy]
    simulate = replace(scenario.simulate, straggler_share=0.0)  # Stragglers are part of the recorded costs.
    if record.run.machines != "sim":
        simulate = replace(simulate, costs="specification", contention=True)
    changed = replace(
        scenario,
        policies=policies_of(policies) if policies else tuple(mine),
        repeats=1,
        simulate=simulate,
    )
    return changed if nodes is None else resized(changed, nodes)


def resized(scenario: ResolvedScenario, count: int) -> ResolvedScenario:
    """Return the scenario with `count` nodes: the first ones, then copies of them.

    Blocks and faults of removed nodes move to the others in turn. Raises BadInput below the number of
    replicas.
    """
    cluster = scenario.cluster
    if count < cluster.blocks.replication:
        raise BadInput(
            f"--nodes {count}: {cluster.blocks.replication} replicas of a block need as many nodes"
        )
    names = {node.node: f"n{index % count + 1}" for index, node in enumerate(cluster.nodes)}
    return replace(
        scenario,
        cluster=_nodes(cluster, count),
        inputs=tuple(_moved(file, names, count) for file in scenario.inputs),
        faults=tuple(
            replace(fault, nodes=tuple(dict.fromkeys(names[node] for node in fault.nodes)))
            for fault in scenario.faults
        ),
    )


def _nodes(cluster: ClusterSpec, count: int) -> ClusterSpec:
    have = cluster.nodes
    nodes: list[NodeSpec] = [replace(have[index % len(have)], node=f"n{index + 1}") for index in range(count)]
    return replace(cluster, nodes=tuple(nodes))


def _moved(file: InputFile, names: dict[str, str], count: int) -> InputFile:
    """Return an input file with renamed nodes, of which `count` are left.

    If two replicas of a block would share a node, one moves to the next node without the block.
    """
    if file.preferred is None:
        return file
    made: list[tuple[str, ...]] = []
    for nodes in file.preferred:
        taken: list[str] = []
        for node in nodes:
            place = int(names[node][1:])
            while f"n{place}" in taken:
                place = place % count + 1
            taken.append(f"n{place}")
        made.append(tuple(taken))
    return replace(file, preferred=tuple(made))


def _costs(record: RecordedRun, latencies: Latencies) -> ScenarioCosts | RecordedCosts:
    """Return the costs of the recorded tasks, for a replay with these latencies.

    They are the durations of a trace if the run was simulated with these. Those of a live run are corrected
    in a few trial simulations, until tasks take about as long as recorded.
    """
    scenario = record.scenario
    if record.run.machines == "sim" and scenario.simulate.costs == "trace":
        return costs_of(scenario)
    costs = RecordedCosts(RecordedAmounts.of(record.tables))
    if record.run.machines != "sim":
        same = _changed(record, (), None)
        for _ in range(FIT_ROUNDS):
            rows = _Attempts()
            Simulation(setup_of(same, same.policies[0], 0, costs, latencies), rows).run()
            costs.fit(frame("attempts", rows.rows))
    return costs


class _Attempts(NoSink):
    """Collects the rows of attempts that a simulation produces, and ignores all other rows."""

    def __init__(self) -> None:
        self.rows: list[AttemptRow] = []

    def attempt(self, row: AttemptRow) -> None:
        self.rows.append(row)

    def heartbeat(self, row: tuple[object, ...]) -> None:
        """Implement `Sink`: ignore the row of a heartbeat."""

    def block(self, row: tuple[object, ...]) -> None:
        """Implement `Sink`: ignore the row of a block."""

    def fault(self, row: tuple[object, ...]) -> None:
        """Implement `Sink`: ignore the row of a fault."""


def _latencies(record: RecordedRun) -> Latencies:
    """Return the launch latencies of a live run, or the defaults if it was simulated or had a framework's waits."""
    if record.run.machines == "sim" or not record.scenario.framework.is_none:
        return Latencies()
    return launches_after(launch_s(record.tables))


def _left_out(record: RecordedRun) -> list[str]:
    states = record.tables.attempts["state"].value_counts()
    bad = int(sum(count for state, count in states.items() if state != "succeeded"))
    return [f"{bad} attempts did not succeed in the record; their costs are not replayed"] if bad else []


def _compare(record: RecordedRun, made: Path, say: Callable[[str], None]) -> None:
    """Print both makespans and the relative error, if the recorded policy was replayed."""
    run = open_record(made)
    if record.policy not in run.policies:
        return
    tables = select(read_tables(made), run.nodes, record.policy, 0)
    replayed_s = metrics.makespan(tables.jobs)["all"]
    error = replayed_s / record.makespan_s - 1
    say(f"{record.policy}: recorded {record.makespan_s:.2f} s, replayed {replayed_s:.2f} s ({error:+.1%})")
