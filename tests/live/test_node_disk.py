"""A container node's disk on a real kernel: its rate limit, power cuts, and its removal with its holder."""

from __future__ import annotations

import asyncio
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from schedbed.cluster.machines.docker.engine import sweep_containers
from schedbed.cluster.machines.docker.node_disk import disk_why_not
from tests.harness.engine import left_of
from tests.live.test_docker_machine import NODE, Rig, Story, held, inside, inspect, sweep_groups, told

__all__ = ["told"]
pytestmark = [pytest.mark.live, pytest.mark.skipif(bool(disk_why_not()), reason=disk_why_not())]

RATE = float(NODE["disk_bps"])
LOADS_S = 4.0  # against which the half second of writes that may wait in memory is little


def hostile(rig: Rig, *arguments: str, name: str = "n1") -> float:
    """Run `dd` on the node's disk without asking for budget, as a hostile attempt could.

    Returns the duration in seconds.
    """
    pid = inspect(rig, name)["State"]["Pid"]
    began = time.monotonic()
    subprocess.run(
        ["nsenter", "-t", str(pid), "-m", "dd", *arguments], check=True, capture_output=True, timeout=120
    )
    return time.monotonic() - began


@pytest.mark.parametrize("how", ["buffered", "fsync", "direct", "read", "three at once"])
def test_the_kernel_holds_any_code_to_the_disks_rate(told: Callable[[Story], None], how: str) -> None:
    mib = int(RATE * LOADS_S / 2**20)

    async def story(rig: Rig) -> None:
        machine = rig.machine()
        assert (await machine.start()).limits["disk"] == "loop device"
        write = ["if=/dev/zero", "bs=1M", f"count={mib}"]
        more = {"fsync": ["conv=fsync"], "direct": ["oflag=direct"]}.get(how, [])
        if how == "read":
            hostile(rig, *write, "of=/data/x", "conv=fsync")
            work = [["if=/data/x", "of=/dev/null", "bs=1M", "iflag=direct"]]
        elif how == "three at once":
            ways = ([], ["conv=fsync"], ["oflag=direct"])
            work = [[*write, f"of=/data/{index}", *way] for index, way in enumerate(ways)]
        else:
            work = [[*write, "of=/data/x", *more]]
        before, began = machine.totals(), time.monotonic()
        await asyncio.gather(*(asyncio.to_thread(hostile, rig, *arguments) for arguments in work))
        elapsed_s, after = time.monotonic() - began, machine.totals()
        assert None not in (before.disk_read_bytes, after.disk_read_bytes)
        read = (after.disk_read_bytes or 0) - (before.disk_read_bytes or 0)
        written = (after.disk_write_bytes or 0) - (before.disk_write_bytes or 0)
        assert (read if how == "read" else written) > 0.8 * RATE * LOADS_S  # it did pass the disk
        assert max(read, written) / elapsed_s < 1.1 * RATE
        # What is not on the disk yet is little, so that nobody runs ahead of it.
        assert len(work) * mib * 2**20 / elapsed_s < 1.2 * RATE

    told(story)


def test_a_slow_disk_is_slow_for_any_code_until_the_fault_ends(told: Callable[[Story], None]) -> None:
    async def story(rig: Rig) -> None:
        machine = rig.machine()
        await machine.start()
        await machine.set_rates(cpu=1.0, disk=0.2, network=1.0)
        written = 2**20 * (mib := 16)
        slow_s = hostile(rig, "if=/dev/zero", "of=/data/x", "bs=1M", f"count={mib}", "oflag=direct")
        assert written / slow_s < 1.2 * 0.2 * RATE
        await machine.set_rates(cpu=1.0, disk=1.0, network=1.0)
        assert (
            hostile(rig, "if=/dev/zero", "of=/data/x", "bs=1M", f"count={mib}", "oflag=direct") < slow_s / 2
        )

    told(story)


def test_the_disk_is_its_own_and_can_be_full(
    told: Callable[[Story], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("schedbed.cluster.machines.docker.node_disk.SIZE_BYTES", 64 * 2**20)

    async def story(rig: Rig) -> None:
        await rig.machine().start()
        assert "No space left on device" in inside(
            rig, "dd", "if=/dev/zero", "of=/data/x", "bs=1M", "count=80"
        )
        assert "/dev/loop" in inside(rig, "df", "/data")

    told(story)


def test_the_disk_outlives_a_power_cut_on_another_device(told: Callable[[Story], None]) -> None:
    async def story(rig: Rig) -> None:
        first = rig.machine()
        await first.start()
        inside(rig, "sh", "-c", "echo kept > /data/here")
        await first.kill()
        assert not loops_of(rig)
        again = rig.machine()
        await again.start()
        assert inside(rig, "cat", "/data/here") == "kept\n"
        assert len(loops_of(rig)) == 1

    told(story)


def loops_of(rig: Rig) -> list[Path]:
    """Return the loop devices whose image files belong to this rig."""
    backing = Path("/sys/block").glob("loop*/loop/backing_file")
    return [path.parents[1] for path in backing if path.read_text().startswith(str(rig.root))]


def test_nothing_of_a_disk_is_left_when_its_holder_is_killed(told: Callable[[Story], None]) -> None:
    async def story(rig: Rig) -> None:
        async with held(rig) as holder:
            (loop,) = loops_of(rig)
            number = (loop / "dev").read_text().strip()
            holder.kill()
        async with asyncio.timeout(30):
            while loops_of(rig):  # the container goes by itself, and the kernel unbinds the device
                await asyncio.sleep(0.1)
        while sweep_containers():
            await asyncio.sleep(0.1)
        assert left_of(rig.run_id) == []
        rules = Path("/sys/fs/cgroup/blkio/blkio.throttle.write_bps_device")
        assert not rules.exists() or number not in rules.read_text().split()
        sweep_groups(rig)

    told(story)
