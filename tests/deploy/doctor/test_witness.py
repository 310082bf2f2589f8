"""Tests the instruments that read the kernel's counters of an attempt, and the rates computed from their
readings.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from schedbed.cluster.machines.machine import KernelTotals
from schedbed.deploy.doctor.hostile_measure import (
    CLOCKS,
    KERNEL_GROUP,
    PROCESS_IO,
    PSS,
    AttemptProcesses,
    Reading,
    highest_rate,
    highest_value,
    pids_limit,
    totals_of,
)
from schedbed.deploy.doctor.rate_fit import FittedRate

PATIENCE_S = 60.0


def test_the_instrument_that_counted_most_is_believed() -> None:
    """The instrument with the highest rate is used, since each of them misses some processes.

    The group's counter misses a process that left its group, and the process clocks miss a child that ended
    early.
    """
    readings = [
        Reading(0.5 * tick, {("cpu_s", KERNEL_GROUP): 0.1 * tick, ("cpu_s", CLOCKS): 0.3 * tick})
        for tick in range(10)
    ]
    rate, name = highest_rate(readings, "cpu_s") or (FittedRate(0.0), "")
    assert (rate.per_s, name) == (pytest.approx(0.6), CLOCKS)
    assert highest_rate(readings, "read_bytes") is None
    held = [Reading(0.0, {("memory_bytes", PSS): 7.0}), Reading(1.0, {("memory_bytes", KERNEL_GROUP): 9.0})]
    assert highest_value(held, "memory_bytes") == (9.0, KERNEL_GROUP)
    assert highest_value(held, "cpu_s") is None


def test_a_node_whose_counters_the_host_does_not_have_says_nothing() -> None:
    assert totals_of(KernelTotals()) == {}
    assert totals_of(KernelTotals(cpu_s=1.5)) == {("cpu_s", KERNEL_GROUP): 1.5}


def test_the_least_bound_on_processes_above_counts(tmp_path: Path) -> None:
    (proc := tmp_path / "proc" / "7").mkdir(parents=True)
    (proc / "cgroup").write_text("8:pids:/docker/abc\n1:cpu:/other\n")
    inside = tmp_path / "groups" / "pids" / "docker" / "abc"
    inside.mkdir(parents=True)
    (inside / "pids.max").write_text("max\n")
    assert pids_limit(7, tmp_path / "groups", tmp_path / "proc") is None
    (inside / "pids.max").write_text("512\n")
    (inside.parent / "pids.max").write_text("9000\n")
    assert pids_limit(7, tmp_path / "groups", tmp_path / "proc") == 512
    assert pids_limit(8, tmp_path / "groups", tmp_path / "proc") is None


@contextlib.contextmanager
def attempt(folder: Path, script: str) -> Iterator[subprocess.Popen[bytes]]:
    """Yield a process that runs `script` and writes to the log of attempt `a_1` in the folder."""
    log = folder / "attempts" / "a_1" / "log"
    log.parent.mkdir(parents=True)
    with log.open("wb") as out, subprocess.Popen([sys.executable, "-c", script], stdout=out) as process:
        try:
            yield process
        finally:
            process.kill()


def look_until(processes: AttemptProcesses, name: str, least: float) -> float:
    """Read the counter `name` until it reaches `least` or the patience is over; return its last value."""
    give_up_s, value = time.monotonic() + PATIENCE_S, 0.0
    while value < least and time.monotonic() < give_up_s:
        processes.search()
        processes.look()
        value = next((v for (each, _), v in processes.totals().items() if each == name), 0.0)
        time.sleep(0.05)
    return value


ORPHANS = """
import os, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        held = b"x" * (64 << 20)
        open(os.devnull, "rb").close()
        end = time.process_time() + 0.5
        while time.process_time() < end:
            pass
        time.sleep(600)
    os._exit(0)
os.wait()
time.sleep(600)
"""


def test_an_orphan_in_a_session_of_its_own_is_seen(tmp_path: Path) -> None:
    processes = AttemptProcesses(["a_1"], frozenset(("cpu_s", "memory_bytes", "sent_bytes")))
    stranger = AttemptProcesses(["a_2"], frozenset(("cpu_s",)))
    with attempt(tmp_path, ORPHANS) as main:
        try:
            assert look_until(processes, "cpu_s", 0.5) >= 0.5
            assert look_until(processes, "memory_bytes", 60 * 2**20) >= 60 * 2**20
            assert len(processes.alive) == 2 and main.pid in processes.alive
            stranger.search()
            stranger.look()
            assert stranger.totals() == {}
        finally:
            for pid in processes.alive - {main.pid}:
                os.kill(pid, 9)
    used = processes.totals()["cpu_s", CLOCKS]
    give_up_s = time.monotonic() + PATIENCE_S
    while processes.alive and time.monotonic() < give_up_s:
        processes.look()
    assert processes.totals()["cpu_s", CLOCKS] >= used  # what has ended keeps what it had
    assert processes.totals()["memory_bytes", PSS] == 0.0


def test_the_kernel_counts_what_a_process_writes(tmp_path: Path) -> None:
    script = (
        "import os, time\nf = os.open(os.devnull, os.O_WRONLY)\nos.write(f, bytes(1 << 20))\ntime.sleep(600)"
    )
    processes = AttemptProcesses(["a_1"], frozenset(("sent_bytes",)))
    with attempt(tmp_path, script):
        assert look_until(processes, "sent_bytes", 2**20) >= 2**20
    assert ("sent_bytes", PROCESS_IO) in processes.totals()
