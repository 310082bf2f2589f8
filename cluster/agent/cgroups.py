"""Control groups of a node, version 1 or 2: a CPU quota for all its attempts, a quota and memory for each slot.

Groups are made below the caller's own present group and nowhere else, and each limit is read back after it was
written. Disk and NIC are not limited here: the kernel's block throttle does not hold for buffered writes (they
are charged to the flusher in v1, and delayed in v2), so both stay software budgets (`tasks.pacing`).
"""

from __future__ import annotations

import contextlib
import math
import os
import signal
import time
from pathlib import Path

from schedbed.cluster.agent.cgroup_find import CgroupError, Hierarchies, find_hierarchies, hand_on

PREFIX = "schedbed-"
# Measured at core_speed 0.1 on two host cores: with 20 ms periods the share is off by 0.5-1%, with 100 ms by 2%;
# quotas below 1 ms are refused by the kernel.
PERIOD_US = 20_000
QUOTA_MIN_US = 1_000
PERIOD_MAX_US = 1_000_000
CpuGate = tuple[str, str, str]
"""A file with what to write into it for the quota to hold, and for it to be open."""
SLACK_BYTES = 16 * 2**20  # a fork's own copies of shared pages and a little page cache, beside its limit
REMOVE_S = 3.0


def start_ticks(pid: int) -> int | None:
    """When a process started, in clock ticks since boot; None when there is none. Tells apart reused pids."""
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19])
    except (OSError, IndexError, ValueError):
        return None


def owner_mark(pid: int | None = None) -> str:
    """`4711.998877`: a process (this one unless told) and when it started."""
    pid = pid or os.getpid()
    return f"{pid}.{start_ticks(pid)}"


def owner_lives(mark: str) -> bool:
    """Whether the process of that mark runs; also true of what is no mark of ours, so that it is left alone."""
    pid, _, ticks = mark.partition(".")
    return not pid.isdigit() or str(start_ticks(int(pid))) == ticks


def group_name(node: str, pid: int) -> str:
    """`n3.4711.998877`: a node's group names its owner, the agent, so that a sweep can see whether it lives."""
    return f"{node}.{owner_mark(pid)}"


class NodeCgroups:
    """The groups `schedbed-<run_id>/<node>.<owner>/slot-<i>` of one node in every hierarchy used."""

    def __init__(
        self, where: Hierarchies, run_id: str, node: str, *, cores: int, core_speed: float, owner_pid: int
    ) -> None:
        self.where = where
        self._inside = Path(PREFIX + run_id) / group_name(node, owner_pid)
        self._cores = cores
        self._core_speed = core_speed
        self._factor = 1.0
        self._slots = 0
        self._crowded = True  # the node's own quota is in force

    def create(self, slots: int = 0) -> None:
        """Makes and limits the node's group and that many slots. Raises CgroupError, having removed what it made."""
        if self._core_speed * PERIOD_MAX_US < QUOTA_MIN_US:
            raise CgroupError(f"a core_speed of {self._core_speed} is below the kernel's least quota")
        try:
            for base in self.where.bases:
                _make(base / self._inside)
                if self.where.version == 2:
                    hand_on((base / self._inside).parent, ("cpu", "memory"))
                    hand_on(base / self._inside, ("cpu", "memory"))
            self._limit_cpu(self.where.cpu / self._inside, self._cores)
            for index in range(slots):
                self.slot(index)
        except (OSError, CgroupError) as error:
            self.remove()
            raise CgroupError(f"cgroup v{self.where.version}: {error}") from error

    def slot(self, index: int) -> tuple[str, ...]:
        """The `cgroup.procs` files to join for slot `index`, made at the first use. Raises CgroupError, OSError."""
        folders = [base / self._inside / f"slot-{index}" for base in self.where.bases]
        while self._slots <= index:
            for base in self.where.bases:
                _make(base / self._inside / f"slot-{self._slots}")
            self._limit_cpu(self.where.cpu / self._inside / f"slot-{self._slots}", 1)
            self._slots += 1
        return tuple(str(folder / "cgroup.procs") for folder in folders)

    def crowd(self, attempts: int) -> None:
        """Says how many attempts run. Up to one a core, the slots' quotas hold the node too, and its own is left
        open: a quota of few ms a period would make one attempt's start wait for another's work. Raises CgroupError.
        """
        crowded = attempts > self._cores
        if crowded is not self._crowded:
            self._crowded = crowded
            self._limit_node()

    def cpu_gate(self, index: int) -> CpuGate:
        """How an attempt takes its slot's quota upon itself and lays it down. Raises OSError when it cannot be open."""
        folder = self.where.cpu / self._inside / f"slot-{index}"
        self._release_cpu(folder)
        quota, period = self._quota(1)
        if self.where.version == 1:
            return str(folder / "cpu.cfs_quota_us"), str(quota), "-1"
        return str(folder / "cpu.max"), f"{quota} {period}", "max"

    def limit_memory(self, index: int, limit_bytes: int) -> None:
        """Caps what the slot's processes may hold, beside `SLACK_BYTES`. Raises CgroupError."""
        if self.where.memory is None:
            return
        name = "memory.limit_in_bytes" if self.where.version == 1 else "memory.max"
        wanted = limit_bytes + SLACK_BYTES
        path = self.where.memory / self._inside / f"slot-{index}" / name
        try:
            path.write_text(str(wanted))
            taken = path.read_text().strip()
        except OSError as error:
            raise CgroupError(f"{path}: {error.strerror}") from error
        if not taken.isdigit() or abs(int(taken) - wanted) >= os.sysconf("SC_PAGE_SIZE"):
            raise CgroupError(f"{path} is {taken} after {wanted} was written")

    def oom_kills(self, index: int) -> int:
        """How often the kernel has killed in this slot for want of memory."""
        if self.where.memory is None:
            return 0
        name = "memory.oom_control" if self.where.version == 1 else "memory.events"
        with contextlib.suppress(OSError):
            for line in (self.where.memory / self._inside / f"slot-{index}" / name).read_text().splitlines():
                if line.startswith("oom_kill "):
                    return int(line.split()[1])
        return 0

    def set_cpu_factor(self, factor: float) -> None:
        """Multiplies the declared quotas from now on. Raises CgroupError."""
        self._factor = factor
        slots = [self.where.cpu / self._inside / f"slot-{index}" for index in range(self._slots)]
        for slot in slots:  # v1 refuses a child above its parent: let go of the children first
            self._release_cpu(slot)
        self._limit_node()
        for slot in slots:
            self._limit_cpu(slot, 1)

    def _limit_node(self) -> None:
        folder = self.where.cpu / self._inside
        try:
            if self._crowded:
                self._limit_cpu(folder, self._cores)
            else:
                self._release_cpu(folder)
        except OSError as error:
            raise CgroupError(f"{folder}: {error.strerror}") from error

    def remove(self) -> None:
        """Kills what is left inside and removes the groups, and the run's when this was its last node."""
        for base in self.where.bases:
            _remove_tree(base / self._inside)
            with contextlib.suppress(OSError):
                (base / self._inside).parent.rmdir()

    def _release_cpu(self, folder: Path) -> None:
        if self.where.version == 1:
            (folder / "cpu.cfs_quota_us").write_text("-1")
        else:
            (folder / "cpu.max").write_text("max")

    def _quota(self, cores: int) -> tuple[int, int]:
        """Quota and period in us of `cores` emulated cores."""
        share = self._core_speed * self._factor
        period = min(PERIOD_MAX_US, max(PERIOD_US, math.ceil(QUOTA_MIN_US / share)))
        return max(QUOTA_MIN_US, round(period * share * cores)), period

    def _limit_cpu(self, folder: Path, cores: int) -> None:
        """Writes the quota of `cores` emulated cores and reads it back."""
        quota, period = self._quota(cores)
        self._release_cpu(folder)
        if self.where.version == 1:
            (folder / "cpu.cfs_period_us").write_text(str(period))
            (folder / "cpu.cfs_quota_us").write_text(str(quota))
            names = ("cpu.cfs_quota_us", "cpu.cfs_period_us")
            taken = " ".join((folder / name).read_text().strip() for name in names)
        else:
            (folder / "cpu.max").write_text(f"{quota} {period}")
            taken = (folder / "cpu.max").read_text().strip()
        if taken != f"{quota} {period}":
            raise CgroupError(f"{folder}: quota and period are {taken} after {quota} {period} was written")


def remove_node(run_id: str, node: str, owner_pid_and_start: str) -> None:
    """Removes the groups of a node whose agent could not do so itself; `n.<pid>.<ticks>` as `group_name` gives."""
    for base in _bases_or_none():
        inside = base / f"{PREFIX}{run_id}" / owner_pid_and_start
        if inside.name.startswith(f"{node}."):
            _remove_tree(inside)
        with contextlib.suppress(OSError):
            inside.parent.rmdir()


def sweep_leftovers() -> list[str]:
    """Removes groups (and kills what runs in them) whose owner has died; returns their names."""
    swept: list[str] = []
    for base in _bases_or_none():
        for run in sorted(base.glob(f"{PREFIX}*")):
            for group in sorted(path for path in run.iterdir() if path.is_dir()):
                if not owner_lives(group.name.partition(".")[2]):
                    _remove_tree(group)
                    swept.append(f"{run.name}/{group.name}")
            with contextlib.suppress(OSError):
                run.rmdir()
    return list(dict.fromkeys(swept))


def _bases_or_none() -> tuple[Path, ...]:
    try:
        return find_hierarchies().bases
    except CgroupError:
        return ()


def _make(folder: Path) -> None:
    """Makes a group and the one above it; another node that ends may be removing the latter just now."""
    for _ in range(20):
        try:
            folder.mkdir(parents=True, exist_ok=True)
            return
        except FileNotFoundError:
            time.sleep(0.005)
    raise CgroupError(f"{folder} cannot be made")


def _remove_tree(folder: Path) -> None:
    """Removes a group with its children; processes take a moment to die, so try again for a while."""
    give_up = time.monotonic() + REMOVE_S
    while folder.exists():
        for group in [*(path for path in folder.iterdir() if path.is_dir()), folder]:
            with contextlib.suppress(OSError, ValueError):
                pids = [int(pid) for pid in (group / "cgroup.procs").read_text().split()]
                for pid in (pid for pid in pids if pid > 0):  # 0: of another pid namespace
                    os.kill(pid, signal.SIGKILL)
            with contextlib.suppress(OSError):
                group.rmdir()
        if time.monotonic() > give_up:
            return
        if folder.exists():
            time.sleep(0.01)
