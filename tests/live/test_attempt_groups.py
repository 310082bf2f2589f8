"""Control groups of attempts in containers on a real kernel: they limit any code that runs inside."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from schedbed.cluster.agent.cgroups import CgroupError, find_hierarchies, group_name, node_folders
from schedbed.deploy.doctor.loads import LoadedNode, Loads
from schedbed.deploy.doctor.verdicts import attempt_memory
from schedbed.tasks.specs import Cost
from tests.live.test_docker_machine import NODE, Rig, Story, inside, told

__all__ = ["told"]


def _why_not() -> str:
    if os.geteuid() != 0:
        return "groups for containers need root"
    try:
        find_hierarchies()
    except CgroupError as error:
        return str(error)
    return ""


pytestmark = [pytest.mark.live, pytest.mark.skipif(bool(_why_not()), reason=_why_not())]

SPIN = "while True: pass"
SHARE = """
import mmap, time
held = mmap.mmap(-1, {size})
for at in range(0, {size}, 4096):
    held[at] = 1
time.sleep(60)
"""
# As an attempt in the container could: trace the agent, read what it has open, or write to a group.
BREAK_OUT = r"""
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
agents = []
for pid in filter(str.isdigit, os.listdir("/proc")):
    try:
        said = open(f"/proc/{pid}/cmdline", "rb").read()
    except OSError:
        continue
    in_slot = "/slot-" in open(f"/proc/{pid}/cgroup").read()
    if b"-m\0schedbed.cluster.agent." in said and not in_slot:  # no attempt, nor a fork that waits for one
        agents.append(pid)
        if libc.ptrace(16, int(pid), 0, 0) == 0:
            print("traced", pid, said)
        try:
            print("saw", os.listdir(f"/proc/{pid}/fd"))
        except PermissionError:
            pass
for folder, _, names in os.walk("/sys/fs/cgroup"):
    for name in names:
        if os.access(os.path.join(folder, name), os.W_OK):
            print("could write", folder, name)
try:
    import socket
    socket.socket(socket.AF_UNIX).connect("/groups")
    print("connected")
except OSError:
    pass
print("tried", len(agents))
"""


def folders(name: str = "n1", *, rig: Rig) -> dict[str, Path]:
    """Return the control groups of a node, a dictionary from controller to folder."""
    return dict(node_folders(rig.run_id, group_name(name, os.getpid()))[1])


async def running(loads: Loads, node: LoadedNode, rig: Rig) -> str:
    """Launch an attempt that uses the CPU; return the name of its slot's group once the CPU limit is set."""
    await loads.launch([(node, Cost(cpu_s=1e6), None)])
    cpu = folders(rig=rig)["cpu"]
    name = "cpu.cfs_quota_us" if (cpu / "cpu.cfs_quota_us").exists() else "cpu.max"
    async with asyncio.timeout(30):
        while True:
            for slot in cpu.glob("slot-*"):
                if not (slot / name).read_text().startswith(("-1", "max")):
                    return slot.name
            await asyncio.sleep(0.05)


def join(rig: Rig, slot: str, code: str, count: int = 1) -> list[subprocess.Popen[bytes]]:
    """Start `count` processes that run `code` in the slot's group, as children of its attempt would."""
    groups = [folder / slot / "cgroup.procs" for folder in folders(rig=rig).values()]

    def enter() -> None:
        for group in groups:
            group.write_text("0")

    return [subprocess.Popen([sys.executable, "-c", code], preexec_fn=enter) for _ in range(count)]


def test_children_of_an_attempt_share_its_core(told: Callable[[Story], None]) -> None:
    async def story(rig: Rig) -> None:
        machine = rig.machine()
        async with rig.loads(machine) as loads:
            slot = await running(loads, loads.nodes[0], rig)
            children = await asyncio.to_thread(join, rig, slot, SPIN, 2)
            try:
                await asyncio.sleep(0.5)
                before, began = machine.totals().cpu_s, time.monotonic()
                await asyncio.sleep(3.0)
                after, elapsed_s = machine.totals().cpu_s, time.monotonic() - began
                assert before is not None and after is not None
                core = float(NODE["core_speed"])
                assert (after - before) / elapsed_s < 1.05 * core
                assert (after - before) / elapsed_s > 0.5 * core  # they did run there
                assert loads.nodes[0].machine.is_alive()
            finally:
                for child in children:
                    child.kill()
                    child.wait()

    told(story)


def test_shared_memory_counts_and_only_its_attempt_dies(told: Callable[[Story], None]) -> None:
    async def story(rig: Rig) -> None:
        async with rig.loads(rig.machine()) as loads:
            (node,) = loads.nodes
            slot = await running(loads, node, rig)
            size = attempt_memory(node.spec) + 64 * 2**20
            (child,) = await asyncio.to_thread(join, rig, slot, SHARE.format(size=size))
            try:
                async with asyncio.timeout(60):
                    report = await node.reports.get()
                assert report["state"] == "failed" and "over its memory limit" in report["reason"]
                assert node.machine.is_alive()
                assert (await loads.core(loads.nodes))["n1"].per_s > 0.2
            finally:
                child.kill()
                child.wait()

    told(story)


def test_nothing_inside_reaches_the_groups_or_the_agent(told: Callable[[Story], None]) -> None:
    async def story(rig: Rig) -> None:
        async with rig.loads(rig.machine()) as loads:
            await running(loads, loads.nodes[0], rig)
            said = await asyncio.to_thread(inside, rig, "python3", "-c", BREAK_OUT)
            assert said.split() == ["tried", "2"]  # the agent, which is process 1, and its warm process

    told(story)


def test_the_groups_go_with_the_node(told: Callable[[Story], None]) -> None:
    async def story(rig: Rig) -> None:
        machine = rig.machine()
        await machine.start()
        assert machine.totals().cpu_s is not None and machine.totals().memory_bytes is not None
        made = folders(rig=rig)
        assert made
        await machine.kill()
        assert not any(folder.exists() for folder in made.values())
        assert machine.totals().cpu_s is None

    told(story)
