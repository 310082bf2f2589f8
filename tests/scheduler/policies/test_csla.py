"""The policy CSLA in virtual time: load tags from counters and heartbeats, turns after a skip, and its order
Capacity.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schedbed.cluster.messages import AttemptReport, Heartbeat, Reply, Usage
from schedbed.scheduler.admission.load import LoadTags
from schedbed.scheduler.policies.csla import LoadAware
from schedbed.scheduler.registry.registry import build_policy
from schedbed.tasks.specs import Counters
from tests.harness.world import World, job, node
from tests.scheduler.core.test_properties import Story, few, run_story, stories

CPU_HEAVY = Counters(cpu_s=9.0)  # of the 10 s that tasks take
IO_HEAVY = Counters(cpu_s=1.0, read_local_bytes=300_000_000)  # 30 MB/s of a disk of 100 MB/s
LIGHT = Counters(cpu_s=1.0, read_local_bytes=1_000_000)


def measured(policy: Any, nodes: list[Any], counters: dict[str, Counters], load: dict[str, Usage]) -> World:
    """Return a world under `policy` whose reports contain measured values: `counters` is a dictionary from
    job to the counters of its attempts, `load` one from node to its usage.
    """
    world = World(build_policy(policy) if not hasattr(policy, "decide") else policy, nodes)
    kinds, serve = world.driver.kinds, world.core.heartbeat

    def heartbeat(now_s: float, heartbeat: Heartbeat) -> Reply:
        finished = tuple(
            AttemptReport(
                attempt=report.attempt,
                state=report.state,
                reason=report.reason,
                start_s=report.start_s,
                end_s=report.end_s,
                counters=counters.get(report.attempt.rsplit("_", 3)[0], LIGHT),
            )
            for report in heartbeat.finished
        )
        told = Heartbeat(
            node=heartbeat.node,
            incarnation=heartbeat.incarnation,
            sequence=heartbeat.sequence,
            running=heartbeat.running,
            finished=finished,
            fetch_failures=heartbeat.fetch_failures,
            usage=load.get(heartbeat.node, Usage()),
        )
        return serve(now_s, told)

    kinds["heartbeat"] = heartbeat
    return world


def rows(world: World, answer: str, after_s: float = 0.0) -> list[tuple[float, str, str, str]]:
    """Return time, node, job and reason of the decisions with this answer from `after_s` on."""
    return [
        (row.t, row.node, row.job, row.reason)
        for row in world.tape.decisions
        if row.answer == answer and row.t >= after_s
    ]


BUSY_CPU, BUSY_DISK = Usage(cpu_util=0.9), Usage(disk_util=0.9)


def test_unlike_jobs_and_nodes_find_each_other() -> None:
    """After three maps of each job have ended, the CPU-heavy job runs on the node with a busy disk and the
    I/O-heavy job on the node with a busy CPU.
    """
    world = measured(
        "csla",
        [node("n1", maps=3), node("n2", maps=3)],
        {"burn": CPU_HEAVY, "copy": IO_HEAVY},
        {"n1": BUSY_CPU, "n2": BUSY_DISK},
    )
    world.submit(job("burn", 40)).submit(job("copy", 40)).run(until_s=55)
    placed = {(name, where) for _, where, name, _ in rows(world, "launch", 25)}
    assert placed == {("burn", "n2"), ("copy", "n1")}
    why = {reason for _, _, _, reason in rows(world, "skip", 25)}
    assert why == {"job tag 2 (CPU) on node tag 2 (CPU)"}
    world.run()
    assert set(world.ended_jobs().values()) == {"succeeded"}


def test_a_job_that_nobody_else_can_replace_has_its_turn() -> None:
    """The only job conflicts with its node.

    Each time it is skipped once and starts a map at the next heartbeat.
    """
    world = measured("csla:sample_maps=1", [node("n1")], {"burn": CPU_HEAVY}, {"n1": BUSY_CPU})
    world.task_ms = 10_200  # so that no beat is due when a task ends
    world.submit(job("burn", 4)).run()
    launches, skips = rows(world, "launch"), rows(world, "skip")
    # The tag is known 3 ms after the first map's end (its output is committed then), so the second goes as before.
    assert len(launches) == 4 and len(skips) == 2
    assert all("its turn after a skip" in reason for _, _, _, reason in launches[2:])
    assert not any("its turn" in reason for _, _, _, reason in launches[:2])
    for (skipped_s, *_), (launched_s, *_) in zip(skips, launches[2:], strict=True):
        assert 0 < launched_s - skipped_s <= 0.5


def test_a_match_is_preferred_to_a_turn() -> None:
    """A job without conflict starts before a job that has its turn after a skip."""
    world = measured(
        "csla:sample_maps=1", [node("n1")], {"burn": CPU_HEAVY, "copy": IO_HEAVY}, {"n1": BUSY_CPU}
    )
    world.submit(job("burn", 3)).submit(job("copy", 6, submit_s=1)).run()
    # Untagged burn goes first twice; then copy, untagged or IO-heavy, fits; burn's last map comes when copy is done.
    order = [name for _, _, name, _ in rows(world, "launch")]
    assert order == ["burn", "burn"] + ["copy"] * 6 + ["burn"]


def test_jobs_that_need_little_go_anywhere() -> None:
    """A job with tag 0 needs little CPU and I/O and is never skipped."""
    world = measured("csla:sample_maps=1", [node("n1")], {"light": LIGHT}, {"n1": BUSY_CPU})
    world.submit(job("light", 4)).run()
    assert not rows(world, "skip")


def test_the_predictor_is_reported() -> None:
    """A constant load of 0.9 is predicted without error, and the report states the errors."""
    policy = build_policy("csla")
    assert isinstance(policy, LoadAware) and isinstance(policy.admission, LoadTags)
    world = measured(policy, [node("n1")], {}, {"n1": BUSY_CPU})
    world.submit(job("a", 3)).run()
    report = policy.report()["predictor"]
    assert report["cpu"]["mae"] == report["cpu"]["rmse"] == 0.0 and report["cpu"]["predictions"] > 20


def test_reasons_show_tags_and_queue() -> None:
    """The reason of each launch contains the queue and the tags of the job and the node."""
    policy = build_policy("csla")
    assert isinstance(policy, LoadAware)
    world = measured(policy, [node("n1")], {}, {"n1": BUSY_CPU})
    world.submit(job("a", 5)).run()
    first, last = rows(world, "launch")[0][3], rows(world, "launch")[-1][3]
    assert (
        first == "no preferred node; queue default holds 0 of 1, at most 1; job tag unknown, node tag 2 (CPU)"
    )
    assert last == "no preferred node; queue default holds 0 of 1, at most 1; job tag 0, node tag 2 (CPU)"


@pytest.mark.parametrize(
    ("local_data", "started"), [("true", ["near", "near", "far"]), ("false", ["far"] * 3)]
)
def test_a_job_is_passed_over_where_its_data_is_not(local_data: str, started: list[str]) -> None:
    """Algorithm 1 asks for a node with data of the job. Without such a job, each second offer starts the first job.

    The text of the paper does not ask for it.
    """
    world = measured(f"csla:local_data={local_data}", [node("n1"), node("n2", maps=0)], {}, {})
    world.submit(job("far", ["n2"] * 3)).submit(job("near", ["n1"] * 2)).run()
    assert [name for _, _, name, _ in rows(world, "launch")][: len(started)] == started
    why = {reason for _, _, _, reason in rows(world, "skip")}
    assert why == ({"its data is on other nodes"} if local_data == "true" else set())
    assert set(world.ended_jobs().values()) == {"succeeded"}


def test_a_job_without_input_starts_anywhere() -> None:
    """Maps without input have no node with their data, and are never passed over for it."""
    world = measured("csla", [node("n1")], {}, {})
    world.submit(job("burn", 4)).run()
    assert not rows(world, "skip")


@few
@given(story=stories(), room=st.sampled_from(["slots", "containers"]))
def test_with_all_tags_0_it_is_capacity(story: Story, room: str) -> None:
    """On idle nodes no tags conflict, so CSLA that asks for no data makes the same decisions as Capacity."""
    csla = run_story(f"csla:room={room},local_data=false", story)
    capacity = run_story(f"order=capacity,admission={room}", story)
    assert _without_notes(csla) == _without_notes(capacity)


def _without_notes(world: World) -> list[tuple[Any, ...]]:
    decisions = [(*row[:6], row.reason.split("; job tag")[0]) for row in world.tape.decisions]
    return [*decisions, *world.tape.attempts, *world.tape.jobs]


@pytest.mark.parametrize("policy", ["order=fair,admission=load", "order=fifo,locality=delay,admission=load"])
def test_other_orders_take_load_tags_too(policy: str) -> None:
    """Other orders than Capacity also run with the admission by load tags, although nobody published them."""
    world = measured(policy, [node("n1"), node("n2")], {"burn": CPU_HEAVY}, {"n1": BUSY_CPU})
    world.submit(job("burn", ["n1"] * 6, reduces=1)).submit(job("b", 4, user="bo")).run()
    assert set(world.ended_jobs().values()) == {"succeeded"}


@pytest.mark.parametrize(("host_disk", "busy"), [("true", ["n1", "n2"]), ("false", [])])
def test_a_node_is_as_busy_as_the_disk_that_it_shares_and_uses(host_disk: str, busy: list[str]) -> None:
    """Nodes n1 and n2 use 0.3 of their host's disk each.

    Node n3 shares this disk without using it, and n4 has a disk of its own. `busy` are the nodes whose disk
    counts as busy.
    """
    loads = {"n1": Usage(disk_util=0.3), "n2": Usage(disk_util=0.3), "n4": Usage(disk_util=0.3)}
    policy = build_policy(f"csla:host_disk={host_disk}")
    assert isinstance(policy, LoadAware) and isinstance(policy.admission, LoadTags)
    nodes = [node(name, shared_disk="host") for name in ("n1", "n2", "n3")]
    world = measured(policy, [*nodes, node("n4")], {"copy": IO_HEAVY}, loads)
    world.submit(job("copy", 40)).run()
    assert {where for _, where, _, reason in rows(world, "launch") if "node tag 1 (IO)" in reason} == set(
        busy
    )
