"""Small simulations for tests: whole clusters, and single attempts on modeled nodes."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from schedbed.cluster.faults import PlannedFault
from schedbed.cluster.messages import AttemptReport, FetchFailure, MapOutput, MapOutputs
from schedbed.cluster.spec import BlockSettings, ClusterSpec, NodeSpec
from schedbed.cluster.virtual.latencies import NO_LATENCIES
from schedbed.cluster.virtual.node_model import AttemptPlan, Emulation, Happening, TaskCost
from schedbed.scheduler.registry.registry import build_policy, is_rigid
from schedbed.scheduler.simulate.setup import Setup, Timing
from schedbed.scheduler.simulate.simulation import Simulation
from schedbed.tasks.chance import chance
from schedbed.tasks.specs import Cost, Demand, NodeId, TaskKind
from schedbed.tasks.workloads.planned import InputFile, PlannedJob
from tests.harness.declared_costs import SpecifiedCosts

MIB = 2**20
NO_TIMING = Timing(request_s=0.0, decision_s=0.0, reply_s=0.0, commit_s=0.0)


class Tape:
    """A sink that keeps all rows in `rows`, a dictionary from table to its rows."""

    def __init__(self) -> None:
        self.rows: dict[str, list[tuple[Any, ...]]] = {}
        for table in ("decision", "attempt", "job", "heartbeat", "block", "fault"):
            rows = self.rows[table] = []
            setattr(self, table, rows.append)

    def decision(self, row: Any) -> None: ...
    def attempt(self, row: Any) -> None: ...
    def job(self, row: Any) -> None: ...
    def heartbeat(self, row: Any) -> None: ...
    def block(self, row: Any) -> None: ...
    def fault(self, row: Any) -> None: ...

    def text(self, *tables: str) -> str:
        """Return the rows of the named tables, or of all, as text for comparison."""
        return "\n".join(repr(tuple(row)) for table in tables or tuple(self.rows) for row in self.rows[table])


def cluster(count: int, *, racks: int = 2, heartbeat_s: float = 0.5, **changes: Any) -> ClusterSpec:
    """Return a cluster spread over racks; each node has two cores, two map slots and one reduce slot."""
    fields: dict[str, Any] = {
        "cores": 2,
        "core_speed": 1.0,
        "memory_bytes": 4096 * MIB,
        "disk_bps": 100.0 * MIB,
        "network_bps": 100.0 * MIB,
        "map_slots": 2,
        "reduce_slots": 1,
        **changes,
    }
    nodes = tuple(NodeSpec(node=f"n{i + 1}", rack=f"r{i % racks + 1}", **fields) for i in range(count))
    blocks = BlockSettings(size_bytes=64 * MIB, replication=min(2, count))
    return ClusterSpec(nodes=nodes, heartbeat_s=heartbeat_s, blocks=blocks)


def job(
    name: str,
    durations: Sequence[float],
    *,
    reduces: Sequence[float] = (),
    user: str = "ana",
    input: str | None = None,
    read_bytes: int = 0,
    **changes: Any,
) -> PlannedJob:
    """Return a job whose attempts last the given seconds, plus the time to read remote data."""
    demand = Demand(memory_bytes=512 * MIB)
    return PlannedJob(
        job=name,
        name=name,
        app="synthetic",
        user=user,
        maps=len(durations),
        reduces=len(reduces),
        input=input,
        map_demand=demand,
        reduce_demand=demand,
        map_costs=tuple(Cost(duration_s=each, cpu_s=each, read_bytes=read_bytes) for each in durations),
        reduce_costs=tuple(Cost(duration_s=each, cpu_s=each) for each in reduces),
        **changes,
    )


def setup(jobs: Sequence[PlannedJob], count: int = 2, *, policy: Any = "fifo", **changes: Any) -> Setup:
    """Return a simulator setup without contention and without latencies."""
    fields: dict[str, Any] = {
        "cluster": cluster(count),
        "costs": SpecifiedCosts(),
        "contention": False,
        "latencies": NO_LATENCIES,
        "timing": NO_TIMING,
        **changes,
    }
    return with_room_for_gangs(Setup(jobs=jobs, policy=lambda: build_policy(policy), **fields), policy)


def with_room_for_gangs(setup: Setup, policy: Any) -> Setup:
    """Return the setup, with nodes that each have a map slot for each map of a job if the policy starts gangs.

    Otherwise a job larger than the cluster, or than what failed nodes leave of it, would never start.
    """
    if not is_rigid(policy):
        return setup
    most = max((job.maps for job in setup.jobs), default=0)
    nodes = tuple(replace(node, map_slots=max(most, node.map_slots)) for node in setup.cluster.nodes)
    return replace(setup, cluster=replace(setup.cluster, nodes=nodes))


def simulate(setup: Setup, check: Callable[[Simulation], None] | None = None) -> Tape:
    """Simulate to the end and return the rows.

    `check`, if given, is called with the simulation after each step.
    """
    tape = Tape()
    simulation = Simulation(setup, tape)
    while simulation.step():
        if check is not None:
            check(simulation)
    return tape


def random_jobs(seed: int, count: int = 8) -> tuple[list[PlannedJob], list[InputFile]]:
    """Return random jobs of three users, submitted within 40 seconds, and the input files that some read."""
    luck = chance(seed, "jobs")
    jobs: list[PlannedJob] = []
    files: list[InputFile] = []
    for number in range(count):
        maps = luck.randint(1, 12)
        durations = [round(luck.uniform(0.2, 12.0), luck.choice((0, 1, 3))) for _ in range(maps)]
        reduces = [round(luck.uniform(0.5, 9.0), 2) for _ in range(luck.choice((0, 0, 1, 3)))]
        path = f"/in/{number}" if luck.random() < 0.7 else None
        if path is not None:
            files.append(InputFile(path=path, source="filler", blocks=(8 * MIB,) * maps))
        jobs.append(
            job(
                f"job_{number + 1:04d}",
                durations,
                reduces=reduces,
                user=luck.choice(("ana", "bo", "cy")),
                input=path,
                read_bytes=8 * MIB if path else 0,
                submit_s=round(luck.uniform(0, 40), luck.choice((0, 2))),
            )
        )
    return jobs, files


def random_faults(seed: int, nodes: int, kinds: Sequence[str]) -> list[PlannedFault]:
    """Return one fault of each kind, at random times in the first 25 seconds."""
    luck = chance(seed, "faults")
    faults: list[PlannedFault] = []
    for kind in kinds:
        at_s = luck.uniform(1, 25)
        node = f"n{luck.randint(1, nodes)}"
        faults.append(
            PlannedFault(
                at_s=at_s,
                kind=kind,
                nodes=() if kind.startswith(("lose", "crash", "restart")) else (node,),
                until_s=at_s + luck.uniform(0.5, 12),
                cpu=0.3,
                share=0.2,
            )
        )
    return faults


MB = 1_000_000


def node(name: str, rack: str = "r0", **more: Any) -> NodeSpec:
    """Return a node with two cores of half a host core, a disk of 100 MB/s and a network of 50 MB/s."""
    known: dict[str, Any] = {
        "cores": 2,
        "core_speed": 0.5,
        "memory_bytes": 1000 * MB,
        "disk_bps": 100.0 * MB,
        "network_bps": 50.0 * MB,
        "map_slots": 2,
        "reduce_slots": 1,
    }
    return NodeSpec(node=name, rack=rack, **(known | more))


def map_plan(
    index: int = 0, blocks: Sequence[tuple[str, int]] = (), *, number: int = 0, **more: Any
) -> AttemptPlan:
    """Return the plan of a map attempt of job_1, which has two maps and a reduce.

    `blocks` are pairs of a block's id and length. `more` contains fields of the plan or of its cost.
    """
    return _plan(TaskKind.MAP, index, number, blocks=tuple(blocks), **more)


def reduce_plan(index: int = 0, *, number: int = 0, **more: Any) -> AttemptPlan:
    """Return the plan of a reduce attempt of job_1; `more` contains fields of the plan or of its cost."""
    return _plan(TaskKind.REDUCE, index, number, **more)


def _plan(kind: TaskKind, index: int, number: int, **more: Any) -> AttemptPlan:
    cost = {name: more.pop(name) for name in TaskCost.__dataclass_fields__ if name in more}
    task = f"job_1_{kind[0]}_{index}"
    known: dict[str, Any] = {"maps": 2, "reduces": 1, "memory_bytes": 100 * MB, "job": "job_1"}
    return AttemptPlan(
        attempt=f"{task}_{number}", task=task, kind=kind, index=index, cost=TaskCost(**cost), **(known | more)
    )


@dataclass
class Blocks:
    """A block store with fixed placement of inputs; output goes to the writer's node, then to `others`."""

    at: dict[str, list[NodeId]] = field(default_factory=dict)
    others: list[NodeId] = field(default_factory=list)
    full: bool = False
    files: dict[str, list[int]] = field(default_factory=dict)

    def holders(self, block: str) -> Sequence[NodeId]:
        return self.at.get(block, [])

    def allocate(self, now_s: float, node: NodeId, path: str, replication: int, length: int) -> list[NodeId]:
        chosen = [node, *(other for other in self.others if other != node)]
        return [] if self.full else chosen[:replication]

    def written(self, now_s: float, node: NodeId, path: str, lengths: Sequence[int]) -> None:
        self.files[path] = list(lengths)


def outputs(*made: tuple[int, NodeId], done: bool = True, number: int = 0, lost: bool = False) -> MapOutputs:
    """Return a message about finished maps of job_1, given as pairs of map index and node."""
    told = [
        MapOutput(index=index, attempt=f"job_1_m_{index}_{number}", node=where, lost=lost)
        for index, where in made
    ]
    return MapOutputs(job="job_1", outputs=tuple(told), all_done=done)


def run(emulation: Emulation, until_s: float = math.inf) -> list[tuple[float, Happening]]:
    """Advance an emulation to a time, by default to its end; return all events with their times."""
    seen: list[tuple[float, Happening]] = []
    while (at_s := emulation.next_s()) <= until_s and at_s < math.inf:
        seen += [(at_s, happening) for happening in emulation.advance(at_s)]
    return seen


def reports(seen: Sequence[tuple[float, Happening]]) -> dict[str, AttemptReport]:
    """Return the attempts' reports in a list of events, a dictionary from attempt to report.

    Checks that each report comes once and at the end time of its attempt.
    """
    found: dict[str, AttemptReport] = {}
    for at_s, (_, said) in seen:
        if isinstance(said, AttemptReport):
            assert said.attempt not in found
            assert math.isclose(said.end_s, at_s)
            found[said.attempt] = said
    return found


def failures(seen: Sequence[tuple[float, Happening]]) -> list[tuple[float, FetchFailure]]:
    """Return the fetch failures in a list of events, with their times."""
    return [(at_s, said) for at_s, (_, said) in seen if isinstance(said, FetchFailure)]
