"""Tests of the memory limit of a control group, and of the peak memory that is reported for its attempt."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping

import pytest

from schedbed.cluster.agent.limits import COOPERATING
from schedbed.cluster.agent.node_groups import SLACK_BYTES, MemoryPeaks, NodeGroups
from tests.harness.agents import Rig, Story, attempt_spec

MIB = 2**20
LIMIT, SWAP = "memory.limit_in_bytes", "memory.memsw.limit_in_bytes"


class MemoryFiles:
    """The control files of one group, with the kernel's rule for limits.

    The limit of memory plus swap is never less than the limit of memory.
    """

    controllers = frozenset({"cpu", "memory"})

    def __init__(self, version: int, *, swap: bool = True) -> None:
        self.version = version
        self.content: dict[str, str] = {LIMIT: "-1", SWAP: "-1"} if swap else {LIMIT: "-1"}
        self.cache = 0
        self.held = self.peak = 0

    def hold(self, held: int) -> None:
        self.held = held
        self.peak = max(self.peak, held + self.cache)

    def write(self, group: str, name: str, text: str) -> None:
        if name == "memory.max_usage_in_bytes":
            self.peak = self.held + self.cache
            return
        if name == SWAP and SWAP not in self.content:
            raise FileNotFoundError(name)
        after: Mapping[str, str] = {**self.content, name: text}
        values = {each: int(value) if value.lstrip("-").isdigit() else -1 for each, value in after.items()}
        if 0 <= values.get(SWAP, -1) < values[LIMIT] or values[LIMIT] < 0 <= values.get(SWAP, -1):
            raise OSError(22, "Invalid argument")
        self.content[name] = text

    def read(self, group: str, name: str) -> str:
        if name == "memory.stat":
            return f"cache {self.cache}\nactive_file 0\ninactive_file {self.cache}\ntotal_active_file 9"
        if name in ("memory.usage_in_bytes", "memory.current"):
            return str(self.held + self.cache)
        if name in ("memory.max_usage_in_bytes", "memory.peak"):
            return str(self.peak)
        return self.content[name]

    def handle(self, group: str, name: str) -> int:
        raise AssertionError("nobody else writes here")

    def move(self, group: str, pid: int) -> None:
        raise AssertionError("nothing is moved here")


def limited(files: MemoryFiles, *sizes: int) -> dict[str, str]:
    groups = NodeGroups(files, ["slot-0"], cores=1, core_speed=0.1)
    for size in sizes:
        groups.limit_memory("slot-0", size)
    return files.content


def test_swap_is_no_way_round_a_memory_limit_that_grows_and_shrinks() -> None:
    for sizes in ((64 * MIB,), (64 * MIB, 128 * MIB), (128 * MIB, 64 * MIB)):
        wanted = str(sizes[-1] + SLACK_BYTES)
        assert limited(MemoryFiles(1), *sizes) == {LIMIT: wanted, SWAP: wanted}
    assert limited(MemoryFiles(2), 64 * MIB)["memory.swap.max"] == "0"
    assert limited(MemoryFiles(1, swap=False), 64 * MIB) == {LIMIT: str(64 * MIB + SLACK_BYTES)}


@pytest.mark.parametrize("version", [1, 2])
def test_a_peak_is_of_one_attempt_and_has_no_page_cache(version: int) -> None:
    files = MemoryFiles(version)
    peaks = MemoryPeaks(files)
    assert peaks.end("slot-0") is None
    files.hold(300 * MIB)  # of the attempt before
    files.hold(2 * MIB)
    peaks.begin("slot-0")
    files.hold(50 * MIB)
    peaks.look("slot-0")
    files.cache = 100 * MIB
    files.hold(10 * MIB)
    assert peaks.end("slot-0") == 50 * MIB
    peaks.begin("slot-0")
    files.hold(400 * MIB)  # between two looks
    files.hold(0)
    assert peaks.end("slot-0") == 400 * MIB


@pytest.mark.live
def test_a_child_that_came_and_went_is_in_the_peak_of_its_attempt(live: Callable[[Story], None]) -> None:
    async def story(rig: Rig) -> None:
        talk = await rig.start(limits="auto")
        if talk.hello.limits["memory"].startswith("software"):
            pytest.skip("no control groups for memory here")
        big = await talk.run(attempt_spec(do="shared_memory", bytes=40 * MIB))
        small = await talk.run(attempt_spec("job_0001_m_000001_0"))
        assert 40 * MIB <= big["counters"]["memory_peak_bytes"] <= 64 * MIB
        assert 0 < small["counters"]["memory_peak_bytes"] < 30 * MIB

    live(story)


@pytest.mark.live
def test_no_later_attempt_can_change_what_a_map_has_published(live: Callable[[Story], None]) -> None:
    async def story(rig: Rig) -> None:
        talk = await rig.start(limits="auto")
        if COOPERATING in talk.hello.limits["cpu"]:
            pytest.skip("attempts are no users of their own here")
        await talk.run(attempt_spec(do="map_output", partitions=["a", "b"]))
        folder = rig.root / "n1" / "mapout" / "job_0001_m_000000_0"
        for path in (folder, *folder.iterdir()):
            assert path.stat().st_uid == os.geteuid() and not path.stat().st_mode & 0o022
        assert (await talk.get("/shuffle/job_0001_m_000000_0/1"))[1] == b"b"

    live(story)
