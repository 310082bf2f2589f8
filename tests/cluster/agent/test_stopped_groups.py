"""Limits without control groups for attempts that do not pace themselves: children and shared memory."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from schedbed.cluster.agent.attempts import process_cpu_s
from schedbed.cluster.agent.stopped_groups import ProcessTree, Seen, StoppedGroups
from tests.harness.agents import PATIENCE_S, Rig, Story, Talk, alive, attempt_spec, below, node_spec

MIB = 2**20
CORE = 0.2  # of a host core: unlimited they would take as much as the host has, five times that and more
FORKS = """
import os, subprocess, sys, time
subprocess.Popen([sys.executable, "-c", "while True: pass"], start_new_session=True)
if os.fork() == 0:
    while time.process_time() < 0.3: pass
    os._exit(0)
os.wait()
print(flush=True)
time.sleep(60)
"""


@pytest.fixture
def tree() -> Iterator[ProcessTree]:
    """Yield the processes of a parent with a running child in another session and a child that has ended."""
    process = subprocess.Popen([sys.executable, "-c", FORKS], stdout=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.readline()
    tree = ProcessTree(process.pid)
    try:
        yield tree
    finally:
        tree.signal(signal.SIGKILL)
        process.stdout.close()
        process.wait()


def test_a_tree_counts_children_in_other_sessions_and_those_waited_for(tree: ProcessTree) -> None:
    assert tree.look()
    first_s = tree.used_s
    assert first_s >= 0.28  # the one that was waited for, to a tick of the kernel's each
    (spinning,) = below(tree.root)
    before_s = process_cpu_s(spinning)
    while process_cpu_s(spinning) < before_s + 0.2:
        time.sleep(0.01)
    tree.look()
    assert tree.used_s - first_s >= 0.2


def test_a_child_that_goes_between_two_readings_of_one_look_counts_once(
    tree: ProcessTree, monkeypatch: pytest.MonkeyPatch
) -> None:
    """CPU time of a child is counted once if the child ends while the processes are being read.

    The parent is read before it has waited for the child, and the child is searched afterwards.
    """
    root, child = Seen(0.0, 0.0, 0, 1, 1), Seen(0.05, 0.0, 0, 1, 2)
    looks = [
        {1: root, 2: child},
        {1: root},
        {1: root._replace(waited_s=0.06)},
        {1: root._replace(waited_s=0.06)},
    ]
    monkeypatch.setattr(tree, "_find", lambda: looks.pop(0))
    seen_s: list[float] = []
    for _ in range(4):
        before_s = tree.used_s
        tree.look()
        seen_s.append(tree.used_s - before_s)
    assert seen_s == pytest.approx([0.05, 0.0, 0.01, 0.0])


def test_a_stopped_tree_uses_nothing_and_a_killed_one_is_gone(tree: ProcessTree) -> None:
    (spinning,) = below(tree.root)
    tree.signal(signal.SIGSTOP)
    while not stopped(tree.root, spinning):
        time.sleep(0.001)
    tree.look()
    used_s = tree.used_s
    time.sleep(0.1)
    tree.look()
    assert tree.used_s == used_s
    tree.signal(signal.SIGKILL)
    os.waitpid(tree.root, 0)
    assert not tree.look() and tree.used_s == used_s
    while alive(spinning):
        time.sleep(0.001)


def stopped(*pids: int) -> bool:
    return all(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "T" for pid in pids)


def test_a_process_that_is_woken_while_its_attempt_is_stopped_is_stopped_again(
    tree: ProcessTree, tmp_path: Path
) -> None:
    async def story() -> None:
        (spinning,) = below(tree.root)
        groups = StoppedGroups(["slot-0"], cores=1, core_speed=0.001)  # a debt that is paid in many seconds
        groups.join("slot-0", tree.root)
        groups.prepare("slot-0", 2**30, tmp_path / "withheld")
        groups.hold("slot-0")
        for _ in range(3):
            while not stopped(tree.root, spinning):
                await asyncio.sleep(0.001)
            os.kill(spinning, signal.SIGCONT)
        while not stopped(tree.root, spinning):
            await asyncio.sleep(0.001)
        groups.free("slot-0")

    asyncio.run(asyncio.wait_for(story(), PATIENCE_S))


async def begun(talk: Talk) -> None:
    while not any(status["started_s"] for status in (await talk.hear("beat"))["running"]):
        pass


def work_s(talk: Talk) -> float:
    """Return the CPU time in seconds of all processes that the agent has started."""
    return sum(map(process_cpu_s, below(talk.hello.pid)))


@pytest.mark.live
def test_children_of_an_attempt_are_held_to_its_core(live: Callable[[Story], None]) -> None:
    async def story(rig: Rig) -> None:
        talk = await rig.start(node_spec(core_speed=CORE))
        assert talk.hello.limits["cpu"].startswith("software")
        await talk.launch(attempt_spec(do="children_spin", memory_bytes=256 * MIB))
        await begun(talk)
        before_s, began = work_s(talk), time.monotonic()
        await asyncio.sleep(5)
        share = (work_s(talk) - before_s) / (time.monotonic() - began) / CORE
        assert 0.3 < share < 1.2, share
        await talk.send("kill", attempt="job_0001_m_000000_0", reason="enough")
        report = await talk.hear("ended")
        assert report["state"] == "killed"
        assert report["counters"]["cpu_s"] >= 0.5 * (work_s(talk) - before_s)

    live(story)


@pytest.mark.live
def test_shared_memory_of_children_over_the_limit_ends_an_attempt(live: Callable[[Story], None]) -> None:
    async def story(rig: Rig) -> None:
        talk = await rig.start()
        report = await talk.run(attempt_spec(do="children_share", bytes=160 * MIB, memory_bytes=64 * MIB))
        assert (report["state"], report["reason"]) == ("failed", "over its memory limit of 64 MiB")
        assert (await talk.run(attempt_spec("job_0001_m_000001_0")))["state"] == "succeeded"

    live(story)
