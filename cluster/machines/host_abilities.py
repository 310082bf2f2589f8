"""Probes of this host's resources and kernel features, for the command `doctor` and checks of scenarios."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from schedbed.cluster.agent.cgroups import (
    CgroupError,
    Hierarchies,
    PathFiles,
    find_hierarchies,
    memory_group,
    slot_groups,
)
from schedbed.cluster.agent.node_groups import NodeGroups

TRIAL_BYTES = 64 * 2**20
TRIAL_S = 2.0
DOCKER_SOCKET = "/var/run/docker.sock"
ASK_S = 2.0
MEMORY_FILES = {
    1: ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
    2: ("memory.max", "memory.current", "inactive_file"),
}
"""By version of control groups: files with the limit and the use, and the line of memory.stat with cache to give up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HostProbe:
    """Resources and features of a host. A field `*_why` is the reason why a feature does not work, or empty."""

    cores: float  # Usable by this process: CPU affinity, and CPU quota if any.
    memory_bytes: int
    memory_free_bytes: int
    disk_free_bytes: int
    disk_write_bps: float | None  # Rate of a short flushed write; None if not measured.
    cgroup_version: int | None  # The version that can limit a node's CPU; None if none can.
    cgroup_memory: bool
    cgroup_why: str
    docker_why: str
    tc_why: str


def probe_host(folder: Path, *, measure_disk: bool = True) -> HostProbe:
    """Probe this host. `folder` is where nodes would store their files. Nothing is left behind."""
    where, cgroup_why = _try_cgroup()
    memory_bytes, free_bytes = _memory()
    return HostProbe(
        cores=usable_cores(),
        memory_bytes=memory_bytes,
        memory_free_bytes=free_bytes,
        disk_free_bytes=shutil.disk_usage(folder).free,
        disk_write_bps=_disk_write_bps(folder) if measure_disk else None,
        cgroup_version=where.version if where else None,
        cgroup_memory=where is not None and "memory" in where.folders,
        cgroup_why=cgroup_why,
        docker_why=docker_why(),
        tc_why=_tc_why(),
    )


def usable_cores(proc_self: Path = Path("/proc/self")) -> float:
    """Return the cores that this process may use, a fraction under a CPU quota."""
    cores = float(len(os.sched_getaffinity(0)))
    with contextlib.suppress(CgroupError, OSError, ValueError):
        where = find_hierarchies(proc_self)
        if where.version == 1:
            quota, period = (
                (where.cpu / f"cpu.cfs_{name}_us").read_text().strip() for name in ("quota", "period")
            )
        else:
            quota, period = (where.cpu / "cpu.max").read_text().split()
        if quota not in ("-1", "max"):
            cores = min(cores, int(quota) / int(period))
    return cores


def _try_cgroup() -> tuple[Hierarchies | None, str]:
    """Try to create a limited group, and remove it. Return (hierarchies or None, error or "")."""
    try:
        where = find_hierarchies()
        files, names = PathFiles(where, f"probe-{os.getpid()}", "probe", os.getpid()), slot_groups(1)
        files.create(names)
        try:
            groups = NodeGroups(files, names, cores=1, core_speed=0.5)
            groups.open()
            groups.limit_memory(names[0], 64 * 2**20)
        finally:
            files.remove()
    except (CgroupError, OSError) as error:
        return None, str(error)
    return where, ""


def _memory() -> tuple[int, int]:
    """Return the host's total and available bytes."""
    lines = (line.split() for line in Path("/proc/meminfo").read_text().splitlines())
    found = {fields[0]: int(fields[1]) * 1024 for fields in lines}
    return found["MemTotal:"], found.get("MemAvailable:", found["MemFree:"])


def _disk_write_bps(folder: Path) -> float | None:
    """Return the bytes per second of flushed writes, 64 MiB or 2 s of them, or None on failure."""
    piece = os.urandom(2**20)
    try:
        with tempfile.TemporaryFile(dir=folder, buffering=0) as file:
            began, written = time.monotonic(), 0
            while written < TRIAL_BYTES and time.monotonic() - began < TRIAL_S:
                written += file.write(piece)
                os.fdatasync(file.fileno())
            return written / (time.monotonic() - began)
    except OSError:
        return None


def memory_left_bytes(proc_self: Path = Path("/proc/self")) -> int:
    """Return the bytes that this process and children can allocate, by the host and its groups' limits."""
    left = _memory()[1]
    with contextlib.suppress(CgroupError):
        version, own, top = memory_group(proc_self)
        *files, cache = MEMORY_FILES[version]
        for folder in (own, *own.parents):
            with contextlib.suppress(
                OSError, ValueError, KeyError
            ):  # Without a limit, the value is `max` or the file is missing.
                most, used = (int((folder / name).read_text()) for name in files)
                lines = (folder / "memory.stat").read_text().splitlines()
                left = min(left, most - used + int(dict(map(str.split, lines))[cache]))
            if folder == top:
                break
    return left


def docker_why() -> str:
    """Return the reason why this user cannot use a Docker engine, or an empty string if an engine answers."""
    path = os.environ.get("DOCKER_HOST", f"unix://{DOCKER_SOCKET}").removeprefix("unix://")
    if "://" in path:
        return f"DOCKER_HOST is {path}, only a Unix socket is tried"
    try:
        with socket.socket(socket.AF_UNIX) as line:
            line.settimeout(ASK_S)
            line.connect(path)
            line.sendall(b"GET /_ping HTTP/1.0\r\nHost: docker\r\n\r\n")
            answer = line.recv(4096).split(b"\r\n")[0].decode(errors="replace")
    except OSError as error:
        return f"{path}: {error.strerror or error}"
    return "" if " 200 " in f"{answer} " else f"{path}: {answer}"


def _tc_why() -> str:
    tc = shutil.which("tc") or shutil.which("tc", path="/sbin:/usr/sbin")
    if tc is None:
        return "tc (iproute2) is not installed"
    try:
        done = subprocess.run(
            [tc, "qdisc", "show", "dev", "lo"], capture_output=True, text=True, timeout=ASK_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"{tc}: {error}"
    return "" if done.returncode == 0 else f"{tc}: {done.stderr.strip()}"
