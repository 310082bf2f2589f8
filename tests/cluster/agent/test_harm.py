"""Faults on live agents: full disks, corrupt replicas, crashed attempts, and late or lost messages."""

from __future__ import annotations

import asyncio
import errno
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from schedbed.cluster.faulty_link import FaultyLink
from schedbed.cluster.masters import MasterGone
from schedbed.tasks.context import FULL_DISK, NodeContext
from schedbed.tasks.node_client.node import HttpNode
from schedbed.tasks.spill import LocalFile
from tests.harness.agents import Rig, Story, attempt_spec, node_spec

DATA = bytes(range(256)) * 1200


@pytest.mark.live
def test_on_a_full_disk_nothing_is_stored_until_it_has_room_again(live: Callable[[Story], None]) -> None:
    async def story(rig: Rig) -> None:
        talk = await rig.start()
        assert (await talk.put("/blocks/blk_1", DATA))[0] == 200
        await talk.send("disk", full=True)
        await talk.send("report_blocks")
        await talk.hear("blocks")
        assert await talk.put("/blocks/blk_2", DATA) == (507, "n1: No space left on device")
        assert await talk.get("/blocks/blk_1") == (200, DATA)
        await talk.send("disk", full=False)
        await talk.send("report_blocks")
        assert [each["block"] for each in (await talk.hear("blocks"))["blocks"]] == ["blk_1"]
        assert (await talk.put("/blocks/blk_2", DATA))[0] == 200

    live(story)


@pytest.mark.live
def test_a_corrupt_replica_is_found_by_its_next_reader(live: Callable[[Story], None]) -> None:
    async def story(rig: Rig) -> None:
        talk = await rig.start()
        await talk.put("/blocks/blk_1", DATA)
        await talk.send("corrupt_block", block="blk_1")
        await talk.send("corrupt_block", block="blk_9")
        await talk.send("report_blocks")
        assert [each["block"] for each in (await talk.hear("blocks"))["blocks"]] == ["blk_1"]
        assert (await talk.get("/blocks/blk_1", Range="bytes=150000-160000"))[0] == 410
        assert (await talk.hear("block", event="corrupt"))["block"] == "blk_1"

    live(story)


@pytest.mark.live
def test_a_struck_attempt_has_failed_and_was_not_killed_by_anybody(live: Callable[[Story], None]) -> None:
    async def story(rig: Rig) -> None:
        talk = await rig.start()
        spec = attempt_spec(do="sleep", seconds=60)
        await talk.launch(spec)
        while not (await talk.hear("beat"))["running"]:
            continue
        await talk.send("kill_attempt", attempt=spec.attempt)
        await talk.send("kill_attempt", attempt="job_0009_m_000000_0")
        report = await talk.hear("ended")
        assert (report["state"], report["reason"]) == ("failed", "killed by signal 9 (SIGKILL)")

    live(story)


@pytest.mark.live
def test_connections_are_late_or_lost_between_nodes_only(live: Callable[[Story], None]) -> None:
    async def story(rig: Rig) -> None:
        talk = await rig.start(node_spec("n1"))
        await talk.put("/blocks/blk_1", DATA)
        await talk.send("network", delays={"n2": 0.3, "n1": 0.2}, losses={"n3": 1.0})
        await talk.send("report_blocks")
        await talk.hear("blocks")

        async def seconds(sender: str | None) -> tuple[int, float]:
            began_s = time.monotonic()
            headers = {"X-Node": sender} if sender else {}
            status, _ = await talk.get("/blocks/blk_1", **headers)
            return status, time.monotonic() - began_s

        status, took_s = await seconds("n2")
        assert status == 200 and took_s >= 0.5
        assert (await seconds("n3"))[0] == 503
        assert (await seconds(None))[0] == (await seconds("n1"))[0] == 200

    live(story)


def test_an_attempt_cannot_write_on_a_full_disk_and_says_so(tmp_path: Path) -> None:
    context = NodeContext(
        node="n1",
        rack="r1",
        agent_url="",
        token="",
        root=tmp_path,
        peers={},
        racks={},
        epoch_s=0.0,
        core_speed=1.0,
    )
    file = LocalFile(tmp_path / "spill", HttpNode(attempt_spec(), context))
    file.write(b"before")
    (tmp_path / FULL_DISK).touch()
    with pytest.raises(OSError) as caught:
        file.write(b"after")
    assert caught.value.errno == errno.ENOSPC
    (tmp_path / FULL_DISK).unlink()
    file.write(b"again")
    file.close()


def test_messages_to_the_masters_are_cut_late_or_lost() -> None:
    calls: list[float] = []

    async def call() -> str:
        calls.append(time.monotonic())
        return "answer"

    async def story() -> None:
        link = FaultyLink("n1", seed=1)
        calm: dict[str, Any] = {"cut_off": False, "delay_s": 0.0, "lose_requests": 0.0, "lose_replies": 0.0}
        assert await link.carry(call) == "answer"
        link.set(**{**calm, "cut_off": True})
        with pytest.raises(MasterGone):
            await link.carry(call)
        assert len(calls) == 1
        link.set(**{**calm, "delay_s": 0.05})
        slower = FaultyLink("n2", seed=1, real_s=lambda emulated_s: 4 * emulated_s)
        slower.set(**{**calm, "delay_s": 0.02})
        began_s = time.monotonic()
        await slower.carry(call)
        assert calls.pop() - began_s >= 0.08
        began_s = time.monotonic()
        await link.carry(call)
        assert calls[-1] - began_s >= 0.05 and time.monotonic() - calls[-1] >= 0.05
        link.set(**{**calm, "lose_replies": 1.0})
        with pytest.raises(MasterGone):
            await link.carry(call, may_be_lost=True)
        assert len(calls) == 3
        assert await link.carry(call) == "answer"
        link.set(**{**calm, "lose_requests": 0.5})
        lost = 0
        for _ in range(100):
            try:
                await link.carry(call, may_be_lost=True)
            except MasterGone:
                lost += 1
        assert 30 < lost < 70 and len(calls) == 104 - lost

    asyncio.run(story())
