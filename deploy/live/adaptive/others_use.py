"""A meter of the CPU time that other programs use on this host.

That time is all busy time in /proc/stat minus the time of the processes of this command.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from schedbed.deploy.doctor.host_load import TICK_S, HostClock

PLAIN_NICE = 0
"""The niceness of attempts, if the host allows it (`cluster.priority`)."""


@dataclass(frozen=True, slots=True)
class Process:
    """The parent's id, niceness, start time and CPU times of a process, as read from /proc.

    `own` is the CPU time of the process itself. `children` is the CPU time of its children that have ended
    and whose end the process has waited for. All times are in clock ticks.
    """

    parent: int
    nice: int
    started: int
    own: int
    children: int


def parse_process(text: str) -> Process:
    """Return the process that `text`, the content of /proc/PID/stat, describes.

    Raises ValueError or IndexError if the text has another format.
    """
    fields = text.rpartition(")")[2].split()
    own, children = (sum(map(int, fields[at : at + 2])) for at in (11, 13))
    return Process(int(fields[1]), int(fields[16]), int(fields[19]), own, children)


def below(roots: Iterable[int], processes: Mapping[int, Process]) -> set[int]:
    """Return the ids of the processes `roots` and of all their descendants. `processes` maps ids to
    processes.
    """
    children: dict[int, list[int]] = {}
    for pid, process in processes.items():
        children.setdefault(process.parent, []).append(pid)
    found: set[int] = set()
    waiting = list(roots)
    while waiting:
        pid = waiting.pop()
        if pid not in found:
            found.add(pid)
            waiting += children.get(pid, ())
    return found


def read_processes(proc: Path = Path("/proc")) -> dict[int, Process]:
    """Return all processes that are visible in /proc, as a dictionary from process id to process."""
    found: dict[int, Process] = {}
    for folder in proc.iterdir():
        if folder.name.isdigit():
            with contextlib.suppress(OSError, ValueError, IndexError):  # The process has ended.
                text = (folder / "stat").read_text(encoding="utf-8", errors="replace")
                found[int(folder.name)] = parse_process(text)
    return found


def used_ticks(before: Mapping[int, Process], after: Mapping[int, Process], pids: Iterable[int]) -> int:
    """Return the CPU ticks that the processes `pids` and their ended children used between two readings.

    `before` and `after` map process ids to the processes at the first and the second reading. When a child
    ends, all of its CPU time is added to the total of its parent. The part that the child used before the
    first reading is therefore subtracted. The time of a child is missing if its parent did not wait for it.
    """
    same = {
        pid: process
        for pid, process in before.items()
        if pid in after and after[pid].started == process.started
    }
    ended: dict[int, int] = {}
    for pid, process in before.items():
        if pid not in same:
            ended[process.parent] = ended.get(process.parent, 0) + process.own + process.children
    ticks = 0
    for pid in pids:
        now, then = after[pid], same.get(pid)
        if then is None:
            ticks += now.own + now.children
        else:
            ticks += now.own - then.own + max(0, now.children - then.children - ended.get(pid, 0))
    return ticks


class OthersUse:
    """A meter of the number of host cores that other programs use.

    `roots` is a function that returns the ids of the run's processes. These processes and their descendants
    are excluded. Processes with a lower priority than the run's attempts are also excluded, since they yield
    the CPU to attempts.
    """

    def __init__(
        self, roots: Callable[[], Iterable[int]], clock: Callable[[], float], proc: Path = Path("/proc")
    ) -> None:
        self._roots = roots
        self._clock = clock
        self._proc = proc
        self._last: tuple[float, float, Mapping[int, Process]] | None = None

    def read(self) -> float:
        """Return the mean number of cores that other programs have used since the last call. The first call
        returns 0.
        """
        now_s = self._clock()
        busy_s = HostClock.read(self._proc / "stat").busy_s
        processes = read_processes(self._proc)
        last, self._last = self._last, (now_s, busy_s, processes)
        if last is None or now_s <= last[0]:
            return 0.0
        known_s = used_ticks(last[2], processes, self._left_out(processes)) * TICK_S
        return max(0.0, (busy_s - last[1] - known_s) / (now_s - last[0]))

    def _left_out(self, processes: Mapping[int, Process]) -> list[int]:
        """Return the ids of the processes that the meter excludes: those of the run, and those of lower
        priority.
        """
        ours = below(self._roots(), processes) & processes.keys()
        plain = max(PLAIN_NICE, min((processes[pid].nice for pid in ours), default=PLAIN_NICE))
        return [pid for pid, process in processes.items() if pid in ours or process.nice > plain]
