"""MapReduce's ApplicationMasters on YARN, with times and numbers computed by hand."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from schedbed.cluster.faults import PlannedFault
from schedbed.cluster.messages import AttemptReport, AttemptStatus, Heartbeat, Launch
from schedbed.deploy.scenario.resolve import resolve
from schedbed.scheduler.app_masters import MapReduceMaster
from schedbed.scheduler.core.core import Core
from schedbed.scheduler.core.rows import NoSink
from schedbed.scheduler.core.settings import CoreConfig
from schedbed.scheduler.framework import YARN, Framework
from schedbed.scheduler.models.amounts import Amount
from schedbed.scheduler.registry.registry import build_policy
from schedbed.scheduler.simulate.simulation import Simulation
from schedbed.tasks.errors import BadInput
from schedbed.tasks.specs import Demand, JobSpec, TaskKind
from tests.harness.simulation import MIB, Tape, cluster, job, random_faults, random_jobs, setup, simulate
from tests.harness.world import job as spec
from tests.harness.world import node

AM = replace(
    YARN,
    init_s=0.0,
    setup_s=3.0,
    cleanup_s=0.0,
    localize_s=0.0,
    jvm_s=0.0,
    fetch_poll_s=0.0,
    am_memory_bytes=512 * MIB,
    am_linger_s=5.0,
)
"""An AM of one container of 512 MiB, which registers 3 s after the grant and leaves 5 s after its job."""
SHARE = Demand(memory_bytes=512 * MIB)


def simulated(
    *jobs: Any,
    slots: int = 4,
    count: int = 1,
    framework: Framework = AM,
    check: Callable[[Simulation], None] | None = None,
    **changes: Any,
) -> Tape:
    """Simulate the jobs on nodes with room for a number of containers, under fifo."""
    nodes = cluster(count, cores=slots, memory_bytes=slots * 512 * MIB)
    return simulate(setup(list(jobs), framework=framework, cluster=nodes, **changes), check)


def attempts(tape: Tape, kind: str = "") -> list[Any]:
    """Return the rows of attempts by their start, those of one kind or all."""
    rows: list[Any] = list(tape.rows["attempt"])
    return sorted((row for row in rows if kind in row.kind), key=lambda row: (row.assigned, row.attempt))


def masters(tape: Tape) -> list[tuple[str, float]]:
    """Return job and time of each grant of an AM's container."""
    rows: list[Any] = list(tape.rows["decision"])
    return [(row.job, row.t) for row in rows if row.kind == "am" and row.answer == "launch"]


def test_a_master_is_granted_registers_asks_and_learns() -> None:
    """Granted at t, an AM registers at t + 3 s, asks at t + 4 s, and learns of containers at t + 5 s."""
    tape = simulated(job("job_0001", [10.0, 10.0]))
    [(_, granted_s)] = masters(tape)
    assert 0.0 < granted_s <= 0.5  # The first heartbeat of the node.
    for row in attempts(tape):
        assert granted_s + 4.0 <= row.assigned <= granted_s + 4.5
        assert row.start == pytest.approx(granted_s + 5.0)
    [done] = tape.rows["job"]
    assert done.finish == pytest.approx(granted_s + 15.0)  # type: ignore[attr-defined]


def test_a_master_holds_its_room_until_after_its_job() -> None:
    """With room for two containers, an AM and one map, the second job's AM comes first when a map ends."""
    jobs = [job("job_0001", [10.0, 10.0]), job("job_0002", [1.0], submit_s=20.0)]
    tape = simulated(*jobs, slots=2)
    first, second = (row for row in tape.rows["job"])
    (_, _), (name, granted_s) = masters(tape)
    assert name == "job_0002" and granted_s == pytest.approx(first.finish, abs=0.01)  # type: ignore[attr-defined]
    [only] = [row for row in attempts(tape) if row.job == "job_0002"]
    assert only.assigned >= first.finish + 5.0  # type: ignore[attr-defined]
    assert second.finish == pytest.approx(only.end)  # type: ignore[attr-defined]


def test_typed_slots_do_not_count() -> None:
    """Three maps and a reduce's room are one pool: four maps run beside the AM on a node of five containers."""
    tape = simulated(job("job_0001", [10.0] * 4), slots=5)
    assert len({row.assigned for row in attempts(tape)}) == 1


@pytest.mark.parametrize(("slowstart", "done"), [(0.05, 5), (0.5, 5), (0.8, 8), (1.0, 10)])
def test_reduces_wait_for_a_share_of_the_maps(slowstart: float, done: int) -> None:
    """A pool of three containers. With a slow start of 0.05, a reduce is asked for after five of the maps."""
    works = job("job_0001", [10.0] * 10, reduces=[1.0], running_map_limit=1)
    tape = simulated(works, slots=3, framework=replace(AM, slowstart=slowstart))
    maps, [reduce] = attempts(tape, "map"), attempts(tape, "reduce")
    ends = sorted(row.end for row in maps)
    assert ends[done - 1] <= reduce.assigned <= ends[done - 1] + 3.0


def test_reduces_have_half_of_the_room_while_maps_wait() -> None:
    """In ten containers besides the AM, reduces hold at most the share of finished maps, and never more than five."""
    most: list[tuple[int, float]] = []

    def check(simulation: Simulation) -> None:
        for each in simulation.core.ledger.jobs.values():
            held = [
                a for a in each.attempts.values() if a.task.kind is TaskKind.REDUCE and not a.task.is_empty
            ]
            if each.maps.unstarted + each.maps.hidden:
                most.append((len(held), min(each.maps.done / each.maps.total, 0.5) * 10))

    tape = simulated(job("job_0001", [10.0] * 40, reduces=[1.0] * 10), slots=11, check=check)
    assert all(held <= allowed for held, allowed in most)
    assert max(held for held, _ in most) >= 4
    assert len([row for row in attempts(tape, "reduce") if row.state == "succeeded"]) == 10


def test_no_more_maps_run_than_the_job_allows() -> None:
    tape = simulated(job("job_0001", [3.0] * 12, running_map_limit=2), slots=8)
    rows = attempts(tape)
    assert len(rows) == 12
    assert max(sum(other.assigned <= row.assigned < other.end for other in rows) for row in rows) == 2


def test_an_uber_job_runs_inside_its_master() -> None:
    """The tasks run one by one on the AM's node and need no containers: a pool of one container is enough."""
    tape = simulated(job("job_0001", [4.0, 4.0, 4.0], reduces=[3.0], uber=True), slots=1)
    [(_, granted_s)] = masters(tape)
    maps, [reduce] = attempts(tape, "map"), attempts(tape, "reduce")
    assert [row.start - granted_s for row in maps] == pytest.approx([3.0, 7.0, 11.0])
    assert reduce.end - granted_s == pytest.approx(18.0)


def test_another_master_follows_one_whose_node_is_lost() -> None:
    """The attempts elsewhere are stopped, and the tasks that are not done start again."""
    fault = PlannedFault(kind="kill", at_s=10.0, nodes=("n1",))
    works = job("job_0001", [20.0] * 6)
    tapes = (simulated(works, slots=4, count=2, faults=[fault], seed=seed) for seed in range(9))
    tape = next(each for each in tapes if len(masters(each)) == 2)
    (_, first_s), (_, second_s) = masters(tape)
    assert first_s < 10.0 < second_s
    stopped = [row.reason for row in attempts(tape) if row.state == "killed" and row.node == "n2"]
    assert stopped and set(stopped) == {"its ApplicationMaster was lost"}
    assert sorted(row.task for row in attempts(tape) if row.state == "succeeded") == [
        f"job_0001_m_{index:06d}" for index in range(6)
    ]


@pytest.mark.parametrize("policy", ["fifo", "yarn-fair", "order=fair,locality=delay,admission=containers"])
@pytest.mark.parametrize("seed", range(6))
def test_random_jobs_end_on_failing_nodes_with_consistent_tables(seed: int, policy: str) -> None:
    """AMs take memory only, so that they cannot hold all vcores of a small cluster. Equal runs have equal rows."""
    jobs, files = random_jobs(seed)
    made = setup(
        [replace(each, uber=number == 3, running_map_limit=number % 2) for number, each in enumerate(jobs)],
        4,
        policy=policy,
        files=files,
        faults=random_faults(seed, 4, ("kill", "freeze", "slow", "lose_requests", "lose_replies")),
        framework=replace(AM, am_memory_bytes=MIB, am_vcores=0, am_heartbeat_s=0.4),
        seed=seed,
    )
    tape = simulate(made, lambda simulation: simulation.core.check_tables())
    assert {row.state for row in tape.rows["job"]} <= {"succeeded", "failed"}  # type: ignore[attr-defined]
    assert len(tape.rows["job"]) == len(jobs)
    assert simulate(made).text() == tape.text()


# The AM's numbers, with the core and without a clock.


class Cluster:
    """A core with one node of a number of containers, a job, and the job's AM, which has registered."""

    def __init__(self, works: JobSpec, slots: int, **numbers: Any) -> None:
        self.core = Core(CoreConfig(master=SHARE), build_policy("fifo"), NoSink())
        self.ledger = self.core.ledger
        self.core.register(0.0, node("n1", memory_bytes=slots * 512 * MIB, cores=slots), 1)
        self.core.submit(0.0, works)
        self.sequence, self.now_s = 0, 0.0
        self.beat()
        self.job = self.ledger.jobs[works.job]
        talks: Any = self
        framework = replace(AM, **numbers)
        self.am = MapReduceMaster(works, f"{works.job}_a_000000_0", talks, framework, lambda *_: None)

    def do(self, now_s: float, kind: str, *arguments: Any) -> None:
        """Pass an event of the AM on to the core."""
        getattr(self.core, kind)(now_s, *arguments)

    def beat(self, *ended: str, state: str = "succeeded") -> list[str]:
        """Send the node's heartbeat, in which attempts have ended. Return the tasks that the reply starts."""
        self.sequence += 1
        self.now_s += 0.5
        reports = tuple(AttemptReport(each, state, start_s=0.0, end_s=self.now_s) for each in ended)
        running = tuple(
            AttemptStatus(each, started_s=0.0, progress=0.0, phase="map")
            for node in self.ledger.nodes.values()
            for each, attempt in node.attempts.items()
            if each not in ended and not attempt.task.is_empty
        )
        beat = Heartbeat("n1", 1, self.sequence, running=running, finished=reports)
        reply = self.core.heartbeat(self.now_s, beat)
        return [each.attempt[9:] for each in reply.actions if isinstance(each, Launch)]

    def allocate(self) -> tuple[int, int]:
        """Let the AM send its heartbeat. Return the numbers of maps and reduces that the job asks for."""
        self.am.heartbeat(self.now_s)
        return self.job.maps.unstarted, self.job.reduces.unstarted


def works(maps: int, reduces: int = 0, **changes: Any) -> JobSpec:
    return spec("job_0001", maps, reduces=reduces, memory=512 * MIB, **changes)


def test_numbers_are_sent_one_heartbeat_late() -> None:
    """Granted two of three maps, the AM still sends nothing, then the one that was left when it learned of the two."""
    held = Cluster(works(3), slots=3)
    assert held.allocate() == (3, 0)
    assert held.beat() == ["m_000000_0", "m_000001_0"]
    assert held.allocate() == (1, 0)  # It learns of two, and sends nothing new.
    assert held.beat("job_0001_m_000000_0") == ["m_000002_0"]
    assert held.allocate() == (1, 0)  # The number after the two grants, for which no map is left.
    assert held.beat("job_0001_m_000001_0") == []  # An empty container: the node is not told.
    assert [each.task.is_empty for each in held.job.attempts.values()] == [True, False, True]
    assert held.allocate() == (0, 0)  # It learns of the empty one,
    held.allocate()  # and releases it.
    assert len(held.job.attempts) == 2


def test_reduces_come_before_maps_and_failed_maps_before_reduces() -> None:
    held = Cluster(works(8, 3), slots=5)
    held.allocate()
    assert len(held.beat()) == 4
    held.allocate()
    held.core.ask(held.now_s, "job_0001", TaskKind.REDUCE, 1)
    assert [stage.label for stage in held.job.asks()] == ["reduce", "map"]
    assert held.beat("job_0001_m_000000_0") == ["r_000000_0"]
    held.core.ask(held.now_s, "job_0001", TaskKind.REDUCE, 1)
    assert held.beat("job_0001_m_000001_0", state="failed") == ["m_000001_1"]
    held.core.ask(held.now_s, "job_0001", TaskKind.MAP, 0)
    assert held.beat("job_0001_m_000002_0", state="failed") == ["r_000001_0"]
    held.core.ask(held.now_s, "job_0001", TaskKind.REDUCE, 1)
    held.core.ask(held.now_s, "job_0001", TaskKind.MAP, 5)
    assert [stage.label for stage in held.job.asks()] == ["map", "reduce"]
    assert held.beat("job_0001_m_000003_0") == ["m_000002_1"]


def test_reduces_stop_when_they_hold_the_room_that_maps_need() -> None:
    """Of three containers besides the AM, three reduces hold all, and one map waits: the youngest reduce is stopped."""
    held = Cluster(works(4, 3), slots=4)
    held.allocate()
    first = held.beat()
    assert held.beat(*[f"job_0001_{each}" for each in first]) == ["m_000003_0"]
    held.core.ask(held.now_s, "job_0001", TaskKind.REDUCE, 3)
    held.core.ask(held.now_s, "job_0001", TaskKind.MAP, 0)
    assert len(held.beat()) == 2
    assert held.beat("job_0001_m_000003_0", state="failed") == ["r_000002_0"]
    held.allocate()
    assert [each.state for each in held.job.attempts.values()][1:] == ["running", "running", "killing"]
    held.allocate()
    assert held.job.reduces.killing == 1  # Room that is about to be free counts.


def test_a_reduce_waits_for_its_ask_in_a_container_that_came_too_late() -> None:
    """The core starts empty tasks beyond the number that is meant, although the job has more reduces."""
    held = Cluster(works(1, 4), slots=6)
    held.allocate()
    held.beat()
    held.core.ask(held.now_s, "job_0001", TaskKind.REDUCE, 3, 1)
    assert held.beat() == ["r_000000_0"]
    assert held.job.reduces.running == 3 and held.job.reduces.excess == 0
    held.core.check_tables()


def test_room_is_counted_in_containers() -> None:
    room = Amount(2048.0 * MIB, 3.0)
    assert room.holds(SHARE) == 3  # By vcores.
    assert Amount(1023.0 * MIB, 3.0).holds(SHARE) == 1
    assert Amount(-513.0 * MIB, 3.0).holds(SHARE) == -1  # As Java divides.
    assert Amount(513.0 * MIB, 1.0).takes(SHARE) == 2


# Scenarios that are refused, and defaults.


def scenario(framework: Any, policy: str = "fifo", memory: str = "2GiB", **keys: Any) -> dict[str, Any]:
    works = {"name": "j", "app": "synthetic", "maps": 2, "map": {"duration": "1s"}, **keys}
    return {
        "name": "tiny",
        "cluster": {"nodes": 1, "node": {"cores": 2, "memory": memory, "map_slots": 3, "reduce_slots": 1}},
        "framework": framework,
        "workload": {"jobs": [works]},
        "policies": [policy],
    }


def test_a_master_takes_at_most_the_memory_of_a_slot_by_default() -> None:
    assert resolve(scenario("yarn")).framework.am_memory_bytes == 512 * MIB
    assert resolve(scenario("yarn", memory="16GiB")).framework.am_memory_bytes == 1024 * MIB
    assert resolve(scenario({"yarn": {"am_memory": "2GiB"}})).framework.am_memory_bytes == 2048 * MIB


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            scenario({"yarn": {"am_memory": "3GiB"}}),
            "an ApplicationMaster of 3.0 GiB and 1 vcores fits no node",
        ),
        (scenario({"hadoop1": {"am_memory": "1GiB"}}), "am_memory needs ApplicationMasters: am_heartbeat"),
        (scenario("none", uber=True), "uber needs ApplicationMasters, expected framework: yarn"),
        (scenario("yarn-bare", running_map_limit=1), "running_map_limit needs ApplicationMasters"),
    ],
)
def test_what_needs_masters_is_refused_without(given: dict[str, Any], message: str) -> None:
    with pytest.raises(BadInput, match=message):
        resolve(given)


def test_a_policy_that_decides_by_slots_is_refused() -> None:
    with pytest.raises(BadInput, match="framework yarn: Easy decides by slots"):
        simulated(job("job_0001", [1.0]), policy="easy")
