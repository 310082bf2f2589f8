"""The JobTracker around the scheduler core: the journal, recovery, commits, and the inputs of attempts."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from schedbed.cluster.clock import RunClock
from schedbed.cluster.masters import MasterGone, NameNodeDoor, make_stub
from schedbed.cluster.messages import AttemptReport, AttemptStatus, Heartbeat, Launch
from schedbed.cluster.spec import ClusterSpec, NodeSpec
from schedbed.scheduler import journal
from schedbed.scheduler.driver import Plan
from schedbed.scheduler.guard.call_record import LAST_WORDS
from schedbed.scheduler.guard.time_bound import TIME_BOUND, no_tick
from schedbed.scheduler.jobtracker import JobTracker
from schedbed.scheduler.registry.registry import build_policy
from schedbed.tasks.specs import BlockRange, Cost, Demand, JobSpec, Split

NODE = NodeSpec(
    node="n1",
    rack="r1",
    cores=2,
    core_speed=0.1,
    memory_bytes=2**30,
    disk_bps=1e6,
    network_bps=1e6,
    map_slots=2,
    reduce_slots=1,
)
CLUSTER = ClusterSpec(nodes=(NODE,), heartbeat_s=0.05)
DEMAND = Demand(memory_bytes=2**20)
BLOCKS = tuple(BlockRange(block=f"b{i}", offset=i * 10, length=10, nodes=("n1",)) for i in range(4))


def map_only(maps: int = 2) -> JobSpec:
    splits = tuple(
        Split(index=i, file="/in/a", offset=i * 10, length=10, block=f"b{i}", hosts=("n1",))
        for i in range(maps)
    )
    return JobSpec(
        job="job_0001", name="j", app="grep", user="u", splits=splits, map_demand=DEMAND, reduce_demand=DEMAND
    )


class FakeNameNode:
    """A NameNode that records the calls to `door`. Its first `failures` calls fail."""

    def __init__(self, failures: int = 0) -> None:
        self.calls: list[tuple[Any, ...]] = []
        self._failures = failures
        self.door = make_stub(NameNodeDoor, self._hear)

    async def _hear(self, method: str, args: Sequence[Any], named: Mapping[str, Any]) -> Any:
        if method == "take_replica_changes":
            return []
        if self._failures:
            self._failures -= 1
            raise MasterGone("restarting")
        self.calls.append((method, *args, *named.values()))
        return None


def job_tracker(folder: Path, names: FakeNameNode, policy: str = "fifo") -> JobTracker:
    return JobTracker(
        CLUSTER,
        lambda: build_policy(policy),
        names.door,
        epoch_s=RunClock.start().epoch_s,
        seed=1,
        journal=folder / "journal.sqlite",
    )


async def begun(folder: Path, names: FakeNameNode) -> JobTracker:
    tracker = job_tracker(folder, names)
    await tracker.start(Plan(jobs=(map_only(),), files={"/in/a": BLOCKS}))
    await tracker.register(NODE, 1)
    return tracker


def heartbeat(sequence: int, running: tuple[str, ...] = (), ended: tuple[str, ...] = ()) -> Heartbeat:
    return Heartbeat(
        node="n1",
        incarnation=1,
        sequence=sequence,
        running=tuple(AttemptStatus(attempt=a, progress=0.5, phase="map", started_s=0.0) for a in running),
        finished=tuple(AttemptReport(attempt=a, state="succeeded", start_s=0.0, end_s=0.1) for a in ended),
    )


async def settle() -> None:
    """Yield to the event loop until background tasks have run."""
    for _ in range(10):
        await asyncio.sleep(0)


def launched(answer: Any) -> list[str]:
    return [action.attempt for action in answer.reply.actions if isinstance(action, Launch)]


def test_an_attempt_is_told_its_split_with_the_blocks_around_it(tmp_path: Path) -> None:
    async def story() -> None:
        tracker = await begun(tmp_path, FakeNameNode())
        answer = await tracker.heartbeat(heartbeat(1))
        assert launched(answer) == ["job_0001_m_000000_0", "job_0001_m_000001_0"]
        spec = answer.specs["job_0001_m_000001_0"]
        assert (spec["offset"], spec["length"], spec["file_length"]) == (10, 10, 40)
        assert [block["block"] for block in spec["blocks"]] == ["b0", "b1", "b2"]
        assert spec["output"] == "/out/job_0001/_temporary/job_0001_m_000001_0"
        await tracker.stop()

    asyncio.run(story())


def test_a_stopped_jobtracker_no_longer_watches_the_files(tmp_path: Path) -> None:
    async def story() -> None:
        for name in "123":
            (tmp_path / name).mkdir()
        first = await begun(tmp_path / "1", FakeNameNode())
        assert TIME_BOUND.on_tick != no_tick
        await first.stop()
        assert TIME_BOUND.on_tick == no_tick
        stopped, running = [await begun(tmp_path / name, FakeNameNode()) for name in "23"]
        await stopped.stop()  # the callback is the other JobTracker's by now
        assert TIME_BOUND.on_tick != no_tick
        await running.stop()
        assert TIME_BOUND.on_tick == no_tick

    asyncio.run(story())


def test_parts_are_told_their_bytes_and_costs_also_by_a_new_jobtracker(tmp_path: Path) -> None:
    """A map of 10 bytes and 2 s is split at 0.4, and its launch contains the bytes and costs of the part.

    A restarted JobTracker answers the repeated heartbeat in the same way.
    """
    costs = (Cost(cpu_s=2.0, read_bytes=10),)
    split = Split(index=0, file="/in/a", offset=20, length=10, block="b2", hosts=("n9",))
    job = replace(map_only(), splits=(split,), reduces=1, map_costs=costs)

    policy = "dtss:p=0.4,node_wait=0,rack_wait=50ms"

    async def story() -> None:
        first = job_tracker(tmp_path, FakeNameNode(), policy)
        await first.start(Plan(jobs=(job,), files={"/in/a": BLOCKS}))
        await first.register(NODE, 1)
        told = await first.heartbeat(heartbeat(1))
        await first.stop()
        second = job_tracker(tmp_path, FakeNameNode(), policy)
        await second.start()
        again = await second.heartbeat(heartbeat(1))
        assert again.specs == told.specs and launched(again) == launched(told)
        specs = list(told.specs.values())
        for sequence in range(2, 200):
            ended = tuple(launched(told)) if sequence == 2 else ()
            answer = await second.heartbeat(heartbeat(sequence, ended=ended))
            specs += [spec for spec in answer.specs.values() if spec["kind"] == "map"]
            if len(specs) == 2:
                break
            await asyncio.sleep(0.02)
        seen = [(s["task"][-1], s["offset"], s["length"], s["cost"]["read_bytes"]) for s in specs]
        assert seen == [("0", 20, 4, 4), ("1", 24, 6, 6)]
        assert [block["block"] for block in told.specs["job_0001_m_000000_0"]["blocks"]] == ["b1", "b2", "b3"]
        await second.stop()

    asyncio.run(story())


def test_outputs_are_renamed_into_place_and_then_the_job_ends(tmp_path: Path) -> None:
    async def story() -> None:
        names = FakeNameNode()
        tracker = await begun(tmp_path, names)
        both = tuple(launched(await tracker.heartbeat(heartbeat(1))))
        await tracker.heartbeat(heartbeat(2, ended=both))
        await settle()
        assert names.calls[-1] == ("delete", "/out/job_0001/_temporary", True, True)
        assert sorted(names.calls[:-1]) == [
            ("rename", f"/out/job_0001/_temporary/{attempt}", f"/out/job_0001/part-0000{index}")
            for index, attempt in enumerate(both)
        ]
        state = await tracker.poll({})
        assert state["ended"] and state["failure"] is None
        assert [row[0] for row in state["rows"]["jobs"]] == ["job_0001"]
        assert len(state["rows"]["attempts"]) == 2
        await tracker.stop()

    asyncio.run(story())


def test_a_new_jobtracker_goes_on_where_the_dead_one_stopped(tmp_path: Path) -> None:
    async def story() -> None:
        first = await begun(tmp_path, FakeNameNode(failures=10**9))
        answer = await first.heartbeat(heartbeat(1))
        both = tuple(launched(answer))
        await first.heartbeat(heartbeat(2, ended=both))
        before = await first.poll({})
        await first.stop()  # its commits were never done

        names = FakeNameNode()
        second = job_tracker(tmp_path, names)
        await second.start()
        assert (await second.heartbeat(heartbeat(2, ended=both))).reply.actions == (), (
            "a repeat is answered alike"
        )
        await settle()
        renamed = [call[1].rpartition("/")[2] for call in names.calls if call[0] == "rename"]
        assert sorted(renamed) == sorted(both), "the unfinished commits are done"
        after = await second.poll({})
        assert after["ended"]
        kept = len(before["rows"]["decisions"])
        assert after["rows"]["decisions"][:kept] == before["rows"]["decisions"], "rows keep their numbers"
        await second.stop()

    asyncio.run(story())


def test_a_new_jobtracker_goes_on_from_a_snapshot_without_the_events_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal, "SNAPSHOT_BYTES", 4 * journal.EVENT_BYTES)

    async def story() -> None:
        first = await begun(tmp_path, FakeNameNode(failures=10**9))
        both = tuple(launched(await first.heartbeat(heartbeat(1))))
        for sequence in range(2, 50):
            await first.heartbeat(heartbeat(sequence, running=both))
        rows = (await first.poll({}))["rows"]
        assert all(len(list(events)) < 40 for _, events in first._journal.beginnings())
        cursors = {table: len(known) for table, known in rows.items()}
        await first.poll(cursors)
        for sequence in range(50, 80):
            await first.heartbeat(heartbeat(sequence, running=both))
        await first.heartbeat(heartbeat(80, ended=both))
        before = await first.poll(cursors)
        assert len(before["rows"]["heartbeats"]) == 31
        await first.stop()

        names = FakeNameNode()
        second = job_tracker(tmp_path, names)
        assert len(second._recorder.fetch({})["heartbeats"]) < 80
        await second.start()
        await settle()
        after = await second.poll(cursors)
        assert after["ended"]
        for table in ("decisions", "heartbeats"):
            assert [row[:5] for row in after["rows"][table]] == [row[:5] for row in before["rows"][table]]
        assert len(after["rows"]["attempts"]) == 2
        assert sorted(call[0] for call in names.calls) == ["delete", "rename", "rename"]
        await second.stop()

    asyncio.run(story())


def test_a_launch_that_is_told_again_after_its_job_has_ended_is_left_out(tmp_path: Path) -> None:
    async def story() -> None:
        tracker = await begun(tmp_path, FakeNameNode())
        assert len(launched(await tracker.heartbeat(heartbeat(1)))) == 2
        await tracker.kill(["job_0001"], "not wanted")
        again = await tracker.heartbeat(heartbeat(1))
        assert launched(again) == [] and again.specs == {}
        assert (await tracker.heartbeat(heartbeat(2))).reply.actions != ()
        await tracker.stop()

    asyncio.run(story())


def test_a_new_jobtracker_does_not_give_up_a_node_that_has_come_back(tmp_path: Path) -> None:
    async def story() -> None:
        first_names, names = FakeNameNode(), FakeNameNode()
        first = await begun(tmp_path, first_names)
        first._do("node_lost", "n1")
        await settle()
        assert ("node_lost", "n1") in first_names.calls
        await first.register(NODE, 2)
        await first.stop()
        second = job_tracker(tmp_path, names)
        await second.start()
        await settle()
        assert ("node_lost", "n1") not in names.calls
        await second.stop()

    asyncio.run(story())


def test_rows_that_were_fetched_are_not_given_again(tmp_path: Path) -> None:
    async def story() -> None:
        tracker = await begun(tmp_path, FakeNameNode())
        await tracker.heartbeat(heartbeat(1))
        first = (await tracker.poll({}))["rows"]
        cursors = {table: len(rows) for table, rows in first.items()}
        assert cursors["decisions"] >= 2
        assert all(not rows for rows in (await tracker.poll(cursors))["rows"].values())
        await tracker.stop()

    asyncio.run(story())


def test_a_policy_that_breaks_the_rules_stops_the_run_and_says_why(tmp_path: Path) -> None:
    class Broken:
        def decide(self, view: Any, node: Any, kind: Any) -> Any:
            raise RuntimeError("no idea")

    async def story() -> None:
        tracker = JobTracker(
            CLUSTER,
            Broken,
            FakeNameNode().door,
            epoch_s=RunClock.start().epoch_s,
            seed=1,
            journal=tmp_path / "j",
        )
        await tracker.start(Plan(jobs=(map_only(),), files={"/in/a": BLOCKS}))
        await tracker.register(NODE, 1)
        try:
            await tracker.heartbeat(heartbeat(1))
        except MasterGone:
            pass
        assert (await tracker.poll({}))["failure"] == "RuntimeError: no idea"
        await tracker.stop()

    asyncio.run(story())


def test_a_policy_reports_once_all_jobs_have_ended(tmp_path: Path) -> None:
    async def story() -> None:
        tracker = job_tracker(tmp_path, FakeNameNode(), "aria:profiles=none")
        await tracker.start(Plan(jobs=(map_only(),), files={"/in/a": BLOCKS}))
        await tracker.register(NODE, 1)
        attempts = launched(await tracker.heartbeat(heartbeat(1)))
        assert (await tracker.poll({}))["report"] == {}
        await tracker.heartbeat(heartbeat(2, ended=tuple(attempts)))
        await settle()
        answer = await tracker.poll({})
        assert answer["ended"] and list(answer["report"]["profiles"]["aria"]) == ["u/j"]
        await tracker.stop()

    asyncio.run(story())


def later(job: str, submit_s: float = 0.0) -> JobSpec:
    return replace(map_only(), job=job, submit_s=submit_s, deadline_s=submit_s + 60.0)


def test_jobs_that_come_later_count_from_then_and_outlive_the_jobtracker(tmp_path: Path) -> None:
    async def story() -> None:
        names = FakeNameNode()
        first = job_tracker(tmp_path, names)
        await first.start(Plan(jobs=(), files={}))
        await first.register(NODE, 1)
        assert (await first.poll({}))["ended"]
        await asyncio.sleep(0.02)
        plan = Plan(jobs=(later("job_0001"), later("job_0002", 50.0)), files={"/in/a": BLOCKS})
        times = await first.submit(plan)
        assert times["job_0001"] >= 0.02 and times["job_0002"] == times["job_0001"] + 50.0
        assert await first.submit(plan) == times, "a repeat changes nothing"
        known = (await first.poll({}))["status"]["jobs"]
        assert [(job["job"], job["deadline_s"] - job["submit_s"]) for job in known] == [("job_0001", 60.0)]
        answer = await first.heartbeat(heartbeat(1))
        await first.stop()

        second = job_tracker(tmp_path, names)
        await second.start()
        assert (await second.heartbeat(heartbeat(1))).specs == answer.specs
        assert await second.submit(plan) == times
        assert [job["submit_s"] for job in (await second.poll({}))["status"]["jobs"]] == [times["job_0001"]]
        assert not (await second.poll({}))["ended"], "the second job still waits for its time"
        await second.stop()

    asyncio.run(story())


def test_killing_all_jobs_ends_those_that_wait_for_their_time_too(tmp_path: Path) -> None:
    async def story() -> None:
        tracker = await begun(tmp_path, FakeNameNode())
        await tracker.submit(Plan(jobs=(later("job_0002", 50.0), later("job_0003")), files={}))
        running = launched(await tracker.heartbeat(heartbeat(1)))
        await tracker.kill(["job_0003", "job_9999"], "not wanted")
        states = [(job["job"], job["state"]) for job in (await tracker.poll({}))["status"]["jobs"]]
        assert ("job_0003", "killed") in states and ("job_0001", "running") in states
        await tracker.kill(None, "the cluster goes down")
        assert {job["state"] for job in (await tracker.poll({}))["status"]["jobs"]} == {"killed"}
        killed = AttemptReport(attempt="", state="killed", start_s=0.0, end_s=0.1)
        ends = replace(heartbeat(2), finished=tuple(replace(killed, attempt=attempt) for attempt in running))
        await tracker.heartbeat(ends)
        state = await tracker.poll({})
        assert state["ended"] and len(state["rows"]["jobs"]) == 3
        await tracker.stop()

    asyncio.run(story())


@pytest.mark.parametrize(
    ("reach", "wrong"),
    [("node._Proxy__raw.free_maps = 50", "AssertionError"), ("view._Proxy__raw.ended.clear()", "")],
)
def test_tables_that_a_policy_has_changed_past_its_view_end_the_run(
    reach: str, wrong: str, tmp_path: Path
) -> None:
    """A policy that bypasses its view and changes the core's tables ends the run with an error.

    Removing only ended jobs is no error.
    """
    (tmp_path / "mine.py").write_text(
        "from schedbed.policy import Proposal\n\nclass Mine:\n    def decide(self, view, node, kind):\n"
        f"        {reach}\n"
        "        task = next((job.any_map() for job in view.jobs.values()), None)\n"
        "        return task and Proposal(task, 'first')\n"
    )

    async def story() -> None:
        tracker = job_tracker(tmp_path, FakeNameNode(), f"{tmp_path / 'mine.py'}:Mine")
        await tracker.start(Plan(jobs=(map_only(),), files={"/in/a": BLOCKS}))
        await tracker.register(NODE, 1)
        attempts = launched(await tracker.heartbeat(heartbeat(1)))
        await tracker.heartbeat(heartbeat(2, ended=tuple(attempts)))
        await settle()
        answer = await tracker.poll({})
        assert answer["ended"]
        if wrong:
            found = rf"the core's books are wrong \({wrong}.*\), as if .* its view \(mine.py, line 4\)"
            assert re.match(found, answer["failure"]), answer["failure"]
        else:
            assert answer["failure"] is None
        await tracker.stop()

    asyncio.run(story())


def test_a_jobtracker_that_has_failed_does_not_ask_the_policy_for_its_report(tmp_path: Path) -> None:
    """A JobTracker restarted after a failure does not call the policy's `report`.

    If the report ended the process, every later JobTracker would end as well.
    """
    (tmp_path / "mine.py").write_text(
        "class Mine:\n    def decide(self, view, node, kind):\n        return None\n"
        "    def report(self):\n        raise SystemExit\n"
    )
    (tmp_path / LAST_WORDS).write_text("the policy hangs")

    async def story() -> None:
        tracker = job_tracker(tmp_path, FakeNameNode(), f"{tmp_path / 'mine.py'}:Mine")
        answer = await tracker.poll({})
        assert (answer["ended"], answer["report"], answer["failure"]) == (True, {}, "the policy hangs")
        await tracker.stop()

    asyncio.run(story())
