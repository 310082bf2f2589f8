"""The simulation loop compiled by Numba gives the same rows as the loop over Python objects.

Most tests run the loop's functions as plain Python, since compiling takes half a minute. One test compiles
them.
"""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numba.core import config as numba_config

from schedbed.cluster.faults import PlannedFault
from schedbed.cluster.spec import BlockSettings, ClusterSpec, NodeSpec
from schedbed.cluster.virtual.latencies import NO_LATENCIES, Latencies
from schedbed.cluster.virtual.node_model import TaskCost
from schedbed.deploy.simulated import simulated_runs
from schedbed.deploy.simulated.simulated_runs import HistoryRows
from schedbed.scheduler import row_thread
from schedbed.scheduler.engines import fast_engine
from schedbed.scheduler.history import History, places_of, read_tables
from schedbed.scheduler.part_merge import merge
from schedbed.scheduler.registry.registry import build_policy
from schedbed.scheduler.simulate.row_frames import RowRanges, as_rows
from schedbed.scheduler.simulate.setup import Setup, Stragglers, Timing
from schedbed.scheduler.simulate.simulation import Simulation
from schedbed.scheduler.simulate.storage import place_inputs
from schedbed.tasks.chance import Coin, chance
from schedbed.tasks.specs import Demand, JobSpec, Priority, Split
from schedbed.tasks.workloads.planned import InputFile, PlannedJob
from tests.harness.compiled_run import compare_compiled
from tests.harness.simulation import MIB, NO_TIMING, Tape, simulate, with_room_for_gangs

CONFIG: Any = numba_config
CONFIG.DISABLE_JIT = "COMPILED" not in os.environ
from schedbed.scheduler.simulate import storage  # noqa: E402
from schedbed.scheduler.simulate.compiled import columns, input_tables, run_compiled, tables  # noqa: E402
from schedbed.scheduler.simulate.compiled.contended import flow_arrays  # noqa: E402
from schedbed.scheduler.simulate.compiled.contended.flow_arrays import grown as enlarged  # noqa: E402
from schedbed.scheduler.simulate.compiled.covers import why_not_policy  # noqa: E402
from schedbed.scheduler.simulate.compiled.offers import slot_answers  # noqa: E402
from schedbed.scheduler.simulate.compiled.run_compiled import run  # noqa: E402

QUEUES = {
    "q1": {"capacity": 50, "minimum_user_limit_percent": 60, "user_limit_factor": 3},
    "default": {"capacity": 40, "max_capacity": 50, "user_limit_factor": 0.5, "priorities": True},
}
POLICIES = (
    "fifo",
    "fair",
    "delay",
    "order=fifo,locality=delay",
    "delay:node_wait=1s",
    "order=fifo,locality=delay:node_wait=2s+rack_wait=0s",
    "order=fair,locality=delay:node_wait=0.3s+rack_wait=4s",
    "order=fair:inside=fifo,locality=greedy",
    {"fair": {"pools": {"ana": {"weight": 3, "min_share": 2}, "bo": {"min_share": 5, "inside": "fifo"}}}},
    {"fair": {"pool_by": "queue", "pools": {"q1": {"weight": 0.5}}}},
    {"fair": {"ties": "name", "pools": {"bo": {"inside": "fifo"}}}},
    {"capacity": {"minimum_user_limit_percent": 30, "user_limit_factor": 0.6}},
    {"capacity": {"queues": {"q1": {"capacity": 30, "max_capacity": 40, "priorities": False}}}},
    {
        "order": {"capacity": {"queues": QUEUES, "minimum_user_limit_percent": 20, "priorities": False}},
        "locality": {"delay": {"node_wait": "2s"}},
    },
)
EXAMPLES = Path(__file__).parents[3] / "examples" / "policies"
ASKED = (
    "delay:node_wait=1s,rack_wait=1s,clock=wall",
    "hadoop1-fair",
    "hod",
    "dp",
    "dtss",
    "lsps",
    "coshh",
    "pd",
    "aria",
    "balancedpool",
    "mrcp",
    "mimp",
    "easy",
    "easy:reserve=nodes,interval=5s,reservations=all",
    "ras",
    "fgcs",
    "csla",
    "lsap",
    "lsap-fair",
    "order=fair,admission=gang",
    "order=capacity,admission=containers",
    "order=pd,locality=delay:node_wait=1s",
    "order=hod,locality=delay:node_wait=2s+rack_wait=0s",
    f"{EXAMPLES}/earliest_deadline.py:EarliestDeadline",
    f"{EXAMPLES}/shortest_remaining.py:ShortestRemaining",
)
"""Policies without a compiled version, which the compiled loop asks."""


class DrawnCosts:
    """Random costs that depend on the names of the job and the task.

    Whole numbers make many events occur at equal times.
    """

    def __init__(self, seed: int, *, known: bool = True) -> None:
        self._seed = seed
        self._whole = chance(seed, "whole").random() < 0.4
        self._writes = chance(seed, "writes").random() < 0.5
        self._timed = chance(seed, "timed").choice((0.0, 0.5, 1.0)) if known else 0.0

    def map_cost(self, job: JobSpec, index: int) -> TaskCost:
        split = job.splits[index]
        luck = chance(self._seed, job.job, "m", index)
        return self._draw(luck, split.length if luck.random() < 0.8 else 0, files=not job.reduces)

    def reduce_cost(self, job: JobSpec, index: int) -> TaskCost:
        luck = chance(self._seed, job.job, "r", index)
        return self._draw(luck, luck.randint(0, 200) * MIB, files=True)

    def _draw(self, luck: Coin, read_bytes: int, *, files: bool) -> TaskCost:
        seconds = float(luck.randint(0, 6)) if self._whole else luck.lognormvariate(1, 1)
        return TaskCost(
            cpu_s=seconds,
            sort_cpu_s=luck.choice((0.0, 1.5)),
            read_bytes=read_bytes,
            output_bytes=luck.randint(0, 90) * MIB if self._writes or not files else 0,
            spill_bytes=luck.choice((0, 70 * MIB)),
            memory_peak_bytes=luck.choice((0, 100 * MIB)),
            fetch_cpu_s=luck.choice((0.0, 0.05)),
            fetched_byte_cpu_s=luck.choice((0.0, 2e-8)),
            duration_s=seconds if luck.random() < self._timed else None,
        )


def story(seed: int, policy: Any) -> Setup:
    """Return the setup of a random small cluster with random jobs under `policy`."""
    luck = chance(seed, "story")
    count = luck.choice((1, 2, 3, 5, 9, 40, 70))
    same = luck.random() < 0.4
    nodes = tuple(
        NodeSpec(
            node=f"n{i}",
            rack=f"r{luck.randint(0, 3)}",
            cores=2,
            core_speed=1.0 if same else luck.choice((0.1, 0.5, 1.0)),
            memory_bytes=4096 * MIB,
            disk_bps=100.0 * MIB if same else luck.uniform(20, 200) * MIB,
            network_bps=100.0 * MIB if same else luck.uniform(20, 200) * MIB,
            map_slots=2 if same or not i else luck.randint(0, 4),
            reduce_slots=1 if same or not i else luck.randint(0, 2),
        )
        for i in range(count)
    )
    blocks = BlockSettings(size_bytes=64 * MIB, replication=min(luck.randint(1, 3), count))
    cluster = ClusterSpec(nodes=nodes, heartbeat_s=luck.choice((0.5, 1.0, 3.0)), blocks=blocks)
    jobs, files = drawn_jobs(luck, [node.node for node in nodes])
    still = luck.random() < 0.3
    setup = Setup(
        cluster=cluster,
        jobs=jobs,
        files=files,
        costs=DrawnCosts(seed),
        seed=seed,
        policy=lambda: build_policy(policy),
        contention=False,
        latencies=NO_LATENCIES if still else Latencies(),
        timing=NO_TIMING if still else Timing(begin_s=luck.choice((0.0, 0.1, 0.4))),
        heartbeat_rows=luck.random() < 0.9,
        skip_rows=luck.random() < 0.9,
        stragglers=Stragglers(share=luck.choice((0.0, 0.3)), factor=luck.choice((2.0, 7.5))),
    )
    return with_room_for_gangs(setup, policy)


def contended(seed: int, policy: Any) -> Setup:
    """Return the setup of `story` with attempts that share the resources of their nodes and the links of
    racks.
    """
    setup, luck = story(seed, policy), chance(seed, "contended")
    at_once = dataclasses.replace(NO_LATENCIES, launch_s=0.25)
    return dataclasses.replace(
        setup,
        contention=True,
        costs=DrawnCosts(seed, known=False),
        latencies=at_once if luck.random() < 0.4 else Latencies(),
        cluster=dataclasses.replace(
            setup.cluster,
            uplink_bps=luck.choice((None, 50.0 * MIB)),
            downlink_bps=luck.choice((None, 40.0 * MIB)),
            core_switch_bps=luck.choice((None, 90.0 * MIB)),
        ),
    )


def suffering(seed: int, policy: Any) -> Setup:
    """Return the setup of `contended` with disks that seek and that nodes share, and with nodes whose tasks
    declare more memory than the node has.
    """
    setup, luck = contended(seed, policy), chance(seed, "suffering")
    rate = luck.uniform(20, 200) * MIB
    seek, hosts = luck.choice((0.1, 0.5)), luck.choice((1, 2, 3))
    nodes = tuple(
        dataclasses.replace(
            node,
            memory_bytes=512 * MIB,
            paging=luck.choice((0.0, 0.3, 2.0)),
            seek=seek,
            disk_bps=rate,
            shared_disk=luck.choice(("", *(f"h{number}" for number in range(hosts)))),
        )
        for node in setup.cluster.nodes
    )
    return dataclasses.replace(setup, cluster=dataclasses.replace(setup.cluster, nodes=nodes))


def drawn_jobs(luck: Coin, nodes: list[str]) -> tuple[list[Any], list[InputFile]]:
    """Return random jobs and input files: some jobs read a file, some have splits with given hosts, some have
    no input.
    """
    jobs: list[Any] = []
    files: list[InputFile] = []
    for number in range(luck.randint(1, 14)):
        maps = luck.choice((0, 1, 2, 5, 20, 60))
        common: dict[str, Any] = {
            "job": f"job_{number:04d}",
            "name": "drawn",
            "app": "synthetic",
            "user": luck.choice(("ana", "bo", "cy")),
            "queue": luck.choice(("default", "q1")),
            "priority": luck.choice(list(Priority)),
            "submit_s": luck.choice((0.0, 2.0, round(luck.uniform(0, 30), 1), luck.uniform(0, 30))),
            "reduces": luck.choice((0, 0, 1, 3, 9)),
            "map_demand": Demand(memory_bytes=512 * MIB),
            "reduce_demand": Demand(memory_bytes=512 * MIB),
        }
        match luck.choice(("placed", "given", "none")):
            case "placed" if maps:
                files.append(InputFile(path=f"/in/{number}", source="filler", blocks=(8 * MIB,) * maps))
                jobs.append(PlannedJob(maps=maps, input=f"/in/{number}", **common))
            case "given":
                hosts = nodes
                splits = tuple(
                    Split(
                        index=index,
                        block=f"given_{number}_{index}" if luck.random() < 0.8 else None,
                        length=luck.randint(0, 64) * MIB,
                        hosts=(luck.choice(nodes), *luck.sample(hosts, luck.randint(0, min(2, len(hosts))))),
                    )
                    if luck.random() < 0.9
                    else Split(index=index, length=MIB)
                    for index in range(maps)
                )
                jobs.append(JobSpec(splits=splits, **common))
            case _:
                jobs.append(PlannedJob(maps=maps, **common))
    return jobs, files


# Compiled, a story takes a hundredth of what it takes as plain Python: so many are played there, and few here, where
# Python sees an index that is out of bounds. Fewer still are enough while working.
SEEDS, LONG_SEEDS = range(2), range(2, 3)
CONTENDED = {0: 0, 2: 2, 4: 1, 6: 0, 8: 2, 10: 1, 12: 1}
"""By the number of a policy: the seed of a contended story that does not take long."""
COMPILED_SEEDS = range(8)
LONG = pytest.mark.long


@pytest.mark.parametrize("seed", [*SEEDS, *(pytest.param(seed, marks=LONG) for seed in LONG_SEEDS)])
@pytest.mark.parametrize("number", range(len(POLICIES)))
def test_the_compiled_loop_makes_the_rows_of_the_objects(number: int, seed: int) -> None:
    assert compare(story(100 * number + seed, POLICIES[number]))


@pytest.mark.parametrize("seed", [3, pytest.param(11, marks=LONG)])
@pytest.mark.parametrize("policy", ASKED, ids=lambda policy: policy.rpartition("/")[2])
def test_a_policy_in_python_makes_them_too(policy: str, seed: int) -> None:
    assert compare(story(seed, policy))


@pytest.mark.parametrize("policy", ["aria", pytest.param("easy", marks=LONG), ASKED[-1]])
def test_it_does_so_where_attempts_contend(policy: str) -> None:
    assert compare(contended(2, policy))


@pytest.mark.long  # seconds
# Sharing does not look at the policy: every second one has a contended story here, two of them while working.
@pytest.mark.parametrize(
    ("number", "seed"),
    [pytest.param(*each, marks=LONG if each[0] not in (0, 4) else ()) for each in CONTENDED.items()],
)
def test_it_does_so_for_attempts_that_contend(number: int, seed: int) -> None:
    assert compare(contended(100 * number + seed, POLICIES[number]))


@pytest.mark.parametrize("seed, policy", [(3, "fair"), (13, "fifo"), pytest.param(16, "delay", marks=LONG)])
def test_it_does_so_on_hardware_that_suffers(seed: int, policy: str) -> None:
    assert compare(suffering(seed, policy))


def test_splits_made_when_they_are_needed_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(storage, "MANY_BLOCKS", 0)
    monkeypatch.setattr(input_tables, "REPLICAS_AT_ONCE", 5)
    assert [compare(story(seed, policy)) for seed, policy in ((2, "fifo"), (205, "delay"), (603, "delay"))]


def test_inputs_that_compiled_code_places_are_on_the_same_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    setup = story(9, "fifo")
    known, used = simulate(setup).text(), list[bool]()
    place_many = storage.PlainFiles.place_many
    monkeypatch.setattr(storage, "COMPILED_BLOCKS", 1)
    monkeypatch.setattr(storage, "ready_engine", fast_engine)
    monkeypatch.setattr(
        storage.PlainFiles, "place_many", lambda files, engine: used.append(not place_many(files, engine))
    )
    assert simulate(setup).text() == known and used


def test_arrays_that_are_full_grow(monkeypatch: pytest.MonkeyPatch) -> None:
    setup = contended(31, "fair")
    slots = [node.map_slots + node.reduce_slots for node in setup.cluster.nodes]
    monkeypatch.setattr(flow_arrays, "MORE_ITEMS", max(slots) + 17 - 2 * sum(slots))
    monkeypatch.setattr(flow_arrays, "MORE_REPLIES", 1 - 4 * len(slots))
    in_use: list[int] = []

    def grown(state: Any) -> Any:
        in_use.append(len(state.flows) - int(state.num.free_items))
        return enlarged(state)

    monkeypatch.setattr("schedbed.scheduler.simulate.compiled.run_compiled.grown", grown)
    assert compare(setup)
    assert any(in_use)


@pytest.mark.long  # numba compiles for half a minute
@pytest.mark.timeout(1200)
def test_what_is_compiled_makes_them_too() -> None:
    compare_compiled(__file__)


@pytest.mark.parametrize(
    "changes, why",
    [
        ({"contention": True}, "durations are known"),
        ({"faults": [PlannedFault(at_s=1.0, kind="kill", nodes=("n0",))]}, "faults"),
        ({"process_all_heartbeats": True}, "process_all_heartbeats"),
        ({"latencies": Latencies(launch_later_s=(0.0, 0.1))}, "launches take"),
        ({"policy": lambda: build_policy("pd:remaining=progress")}, "the progress"),
        ({"policy": lambda: build_policy("dtss"), "contention": True}, "splits tasks"),
        ({"policy": lambda: build_policy("ras"), "contention": True}, "count slots"),
    ],
)
def test_what_is_not_plain_is_left_to_the_objects(changes: dict[str, Any], why: str) -> None:
    tape = Tape()
    setup = dataclasses.replace(story(1, "fifo"), **changes)
    simulation = Simulation(setup, tape)
    assert why in (run(simulation) or "")
    assert not tape.text()
    simulation.run()
    assert tape.text() == simulate(setup).text()


@given(st.lists(st.floats(0, 1e6) | st.integers(0, 2000).map(lambda number: number / 20)))
def test_waits_that_are_written_alike_are_one_text(values: list[float]) -> None:
    tenths = columns._tenths(np.array(values))
    assert [f"{value:.1f}" for value in tenths] == [f"{value:.1f}" for value in values]


@given(st.integers(0, 30_000), st.integers(0, 30_000) | st.integers(0, 10**9))
def test_amounts_that_are_written_alike_are_one_amount(amount: int, other: int) -> None:
    one, two = slot_answers.as_printed(amount), slot_answers.as_printed(other)
    assert f"{one:.3g}" == f"{amount:.3g}" and (one == two) is (f"{amount:.3g}" == f"{other:.3g}")


def test_a_task_that_exceeds_its_memory_is_left_to_the_objects() -> None:
    class Greedy(DrawnCosts):
        def map_cost(self, job: JobSpec, index: int) -> TaskCost:
            return dataclasses.replace(super().map_cost(job, index), memory_peak_bytes=2**40)

    setup = dataclasses.replace(story(3, "fifo"), costs=Greedy(3))
    assert "memory" in (run(Simulation(setup, Tape())) or "")


def test_columns_make_the_same_tables_as_rows(tmp_path: Path) -> None:
    setup = story(5, "delay")
    for name in ("columns", "rows"):
        history = History(tmp_path / name, "delay", 0, part_rows=100)
        rows = HistoryRows(history)
        simulation = Simulation(setup, rows)
        if name == "rows":
            simulation.run()
        else:
            assert run(simulation) is None
        rows.flush()
        history.close()
        assert not merge(tmp_path / name)
    one, other = read_tables(tmp_path / "columns"), read_tables(tmp_path / "rows")
    for table, frame in one.items():
        pd.testing.assert_frame_equal(frame, other[table])
    assert len(one["attempts"]) > 10


@pytest.mark.parametrize("number", (0, 2, 7))
def test_tables_made_for_several_policies_beforehand_change_nothing(number: int) -> None:
    setups = [story(100 * number + 6, policy) for policy in ("fair", POLICIES[number])]
    placed = simulated_runs._with_tables(place_inputs(setups[0]), setups)
    assert placed.tables is not None
    known, tape = Tape(), Tape()
    assert run(Simulation(setups[1], known)) is run(Simulation(setups[1], tape, placed)) is None
    assert tape.text() == known.text() and len(tape.rows["attempt"]) > 10


@pytest.mark.parametrize(
    "policies, changes",
    [
        (("fifo",), {}),
        (("fifo", "pd:remaining=progress"), {}),
        (("fifo", "fair"), {"faults": [PlannedFault(at_s=1.0, kind="kill", nodes=("n0",))]}),
    ],
)
def test_tables_that_fewer_than_two_runs_would_use_are_not_made(
    policies: tuple[str, ...], changes: dict[str, Any]
) -> None:
    setups = [dataclasses.replace(story(6, policy), **changes) for policy in policies]
    assert simulated_runs._with_tables(place_inputs(setups[0]), setups).tables is None


class SharedTape(Tape):
    """A sink that makes rows in two ranges, the second one first, as if in two processes."""

    def __init__(self) -> None:
        super().__init__()
        self.in_ranges: dict[str, int] = {}

    def shares(self, count: int) -> bool:
        return count > 1

    def ranges(self, table: str, rows: RowRanges) -> None:
        middle, count = len(rows) // 2, len(rows)
        later, first = (
            [row for data in rows.between(low, high) for row in as_rows(table, data)]
            for low, high in ((middle, count), (0, middle))
        )
        self.in_ranges[table] = count
        self.rows[table[:-1]] += first + later


@pytest.mark.parametrize("is_idle", [False, True])
def test_rows_of_attempts_made_in_ranges_are_the_same(
    monkeypatch: pytest.MonkeyPatch, *, is_idle: bool
) -> None:
    """The thread writes some rows of attempts if it has time, and the ranges have the others."""
    monkeypatch.setattr(columns, "ROW_GROUP_ROWS", 4)
    for module in (tables, run_compiled):
        monkeypatch.setattr(module, "ROWS", 8)
    monkeypatch.setattr(row_thread.RowThread, "is_idle", is_idle)
    known, tape = Tape(), SharedTape()
    assert run(Simulation(story(5, "delay"), known)) is run(Simulation(story(5, "delay"), tape)) is None
    assert list(tape.in_ranges) == ["attempts", "blocks"]
    assert tape.text() == known.text()
    assert (tape.in_ranges["attempts"] < len(tape.rows["attempt"])) == is_idle


def test_an_interrupted_run_keeps_the_rows_until_then(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (tables, run_compiled):
        monkeypatch.setattr(module, "ROWS", 8)
    pauses: list[float] = []

    def interrupt(simulation: Simulation) -> None:
        pauses.append(simulation.now_s)
        if len(pauses) == 6:
            raise KeyboardInterrupt

    known, tape = Tape(), SharedTape()
    run(Simulation(story(5, "delay"), known))
    with pytest.raises(KeyboardInterrupt):
        run(Simulation(story(5, "delay"), tape), interrupt)
    assert tape.in_ranges == {}
    for table in ("attempt", "decision", "heartbeat"):
        kept, whole = tape.rows[table], known.rows[table]
        assert kept == whole[: len(kept)] and 0 < len(kept) < len(whole), table
    [end] = places_of("attempts", "end")
    assert tape.rows["attempt"][-1][end] <= pauses[-1]


def compare_all() -> None:
    """Compare both loops on random setups under every policy."""
    for number, policy in enumerate(POLICIES):
        for seed in COMPILED_SEEDS:
            compare(story(100 * number + seed, policy))
            compare(contended(100 * number + seed, policy))
            compare(suffering(100 * number + seed, policy))
    for policy in ASKED:
        for seed in (5, 8, 11):
            compare(story(seed, policy))
            if why_not_policy(build_policy(policy), contention=True) is None:
                compare(contended(seed, policy), gives_up=policy == "dp")  # It stops attempts.


def compare(setup: Setup, *, gives_up: bool = False) -> int:
    """Simulate `setup` with both loops, assert equal rows and return the number of rows.

    `gives_up`: the compiled loop may give up, and objects then take over.
    """
    tape = Tape()
    simulation = Simulation(setup, tape)
    assert run(simulation) is None or gives_up
    simulation.run()  # Does nothing after the end.
    known = Tape()
    objects = Simulation(setup, known)
    objects.run()
    for table, rows in known.rows.items():
        mine = [tuple(row) for row in tape.rows[table]]
        assert len(mine) == len(rows), (table, len(mine), len(rows), _first(mine, rows))
        assert repr(mine) == repr([tuple(row) for row in rows]), (table, _first(mine, rows))
    assert simulation.statistics.solved == objects.statistics.solved
    return sum(map(len, known.rows.values()))


def _first(mine: list[Any], rows: list[Any]) -> Any:
    for number, (one, other) in enumerate(zip(mine, rows, strict=False)):
        if repr(one) != repr(tuple(other)):
            return number, one, tuple(other)
    return "no row differs"
