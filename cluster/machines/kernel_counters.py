"""The kernel's counters of a node's use: control groups, disk device and network interface.

They include child processes and shells, unlike an attempt's report. None means unreadable: gone, or not in
this kernel.
"""

from __future__ import annotations

import os
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

SECTOR_BYTES = 512  # The unit of /sys/block/*/stat for every device.
RECLAIMABLE = ("inactive_file", "active_file")
"""Lines of memory.stat: page cache, which the kernel can reclaim at any time."""
READ_BYTES = 1 << 14
"""More than the size of any control group file that is read here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupCounters:
    """A group's counters. The folders `cpu` (of cpuacct in version 1) and `memory` are None if not in use."""

    version: int
    cpu: Path | None
    memory: Path | None

    def cpu_s(self) -> float | None:
        """Return the CPU time used by the control group so far, in core-seconds of the host."""
        if self.cpu is None:
            return None
        if self.version == 1:
            used_ns = _number(self.cpu / "cpuacct.usage")
            return None if used_ns is None else used_ns / 1e9
        used_us = _fields(self.cpu / "cpu.stat", ["usage_usec"]).get("usage_usec")
        return None if used_us is None else used_us / 1e6

    def memory_bytes(self) -> int | None:
        """Return the bytes of memory in use by the control group, without the cache of file contents."""
        if self.memory is None:
            return None
        held = _number(self.memory / ("memory.usage_in_bytes" if self.version == 1 else "memory.current"))
        prefix = "total_" if self.version == 1 else ""
        cached = _fields(self.memory / "memory.stat", [prefix + name for name in RECLAIMABLE])
        return None if held is None else max(0, held - sum(cached.values()))


def block_bytes(device: str, sys_dev: Path = Path("/sys/dev/block")) -> tuple[int, int] | None:
    """Return the bytes read from and written to a block device, given as `major:minor`, such as `7:3`."""
    try:
        fields = (sys_dev / device / "stat").read_text().split()
        return int(fields[2]) * SECTOR_BYTES, int(fields[6]) * SECTOR_BYTES
    except (OSError, IndexError, ValueError):
        return None


def interface_bytes(pid: int, name: str = "eth0", proc: Path = Path("/proc")) -> tuple[int, int] | None:
    """Return the bytes (sent, received) with headers, in the network namespace of `pid`."""
    try:
        lines = (proc / str(pid) / "net" / "dev").read_text().splitlines()
    except OSError:
        return None
    for line in lines:
        interface, _, counts = line.partition(":")
        if interface.strip() == name:
            fields = counts.split()
            return int(fields[8]), int(fields[0])
    return None


def _read(path: Path) -> str:
    """Return the text of a small file. Faster than `Path.read_text`, because files are read at each heartbeat."""
    file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.read(file, READ_BYTES).decode()
    finally:
        os.close(file)


def _number(path: Path) -> int | None:
    try:
        return int(_read(path))
    except (OSError, ValueError):
        return None


def _fields(path: Path, names: Collection[str]) -> dict[str, int]:
    """Return the given names' numbers from lines `name number`, none if the file is missing."""
    try:
        lines = [line.partition(" ") for line in _read(path).splitlines()]
    except OSError:
        return {}
    return {name: int(number) for name, _, number in lines if name in names and number.isdigit()}
