"""The stretch of a run (real seconds per emulated second), which may change during the run.

The changes are in a file that all processes of the run map. One process appends changes. Each change takes
effect shortly after it is written, so that all processes know it by then.
"""

from __future__ import annotations

import bisect
import mmap
import time
from collections.abc import Sequence
from pathlib import Path

CHANGES_MAX = 50_000
"""Most changes in a file; the unused part of the file takes no disk space."""

_FIELDS = 2  # A change has a time of day from which it applies, and a stretch.
_CELL_BYTES = 8
_SIZE_BYTES = (1 + CHANGES_MAX * _FIELDS) * _CELL_BYTES

Change = tuple[float, float]
"""A time of day, and the number of real seconds per emulated second from that time on."""


class EmulatedTime:
    """The conversion between real and emulated time, given the changes of the stretch.

    Emulated seconds are counted from the first change. The first stretch also applies to earlier times.
    """

    def __init__(self, changes: Sequence[Change]) -> None:
        self.changes = tuple(changes)
        self._real = [real_s for real_s, _ in self.changes]
        self._stretch = [stretch for _, stretch in self.changes]
        self._emulated = [0.0]
        for index, (real_s, stretch) in enumerate(self.changes[:-1]):
            lasted_s = (self._real[index + 1] - real_s) / stretch
            self._emulated.append(self._emulated[-1] + lasted_s)

    def emulated_s(self, real_s: float) -> float:
        """Return the emulated time in seconds at the real time `real_s`."""
        index = max(0, bisect.bisect_right(self._real, real_s) - 1)
        return self._emulated[index] + (real_s - self._real[index]) / self._stretch[index]

    def real_s(self, emulated_s: float) -> float:
        """Return the real time at the emulated time `emulated_s`, assuming that the stretch does not
        change again.
        """
        index = max(0, bisect.bisect_right(self._emulated, emulated_s) - 1)
        return self._real[index] + (emulated_s - self._emulated[index]) * self._stretch[index]

    def stretch_at(self, real_s: float) -> float:
        """Return the number of real seconds per emulated second at the real time `real_s`."""
        return self._stretch[max(0, bisect.bisect_right(self._real, real_s) - 1)]


class StretchFile:
    """The memory-mapped file with the changes of a run's stretch.

    Each access to `time` includes new changes. No lock is needed: entries are only appended, and incomplete
    entries are ignored.
    """

    def __init__(self, path: Path, *, write: bool = False) -> None:
        with path.open("r+b" if write else "rb") as file:
            access = mmap.ACCESS_WRITE if write else mmap.ACCESS_READ
            self._map = mmap.mmap(file.fileno(), _SIZE_BYTES, access=access)
        self._cells = memoryview(self._map).cast("d")
        self._time = self._read()

    @staticmethod
    def create(path: Path, real_s: float, stretch: float) -> None:
        """Create the file at `path` with an initial stretch that applies from the real time `real_s` on."""
        with path.open("wb") as file:
            file.truncate(_SIZE_BYTES)
        path.chmod(0o644)
        made = StretchFile(path, write=True)
        made.append(real_s, stretch)
        made.close()

    @property
    def time(self) -> EmulatedTime:
        """Return the conversion between real and emulated time, according to all changes written so far."""
        if int(self._cells[0]) != len(self._time.changes):
            self._time = self._read()
        return self._time

    @property
    def is_full(self) -> bool:
        """Return whether the file has no space for another change."""
        return len(self.time.changes) >= CHANGES_MAX

    def append(self, real_s: float, stretch: float) -> None:
        """Append a change: from the real time `real_s` on, the stretch is `stretch`.

        Raises ValueError if the file is full, the time is before the previous change, or the stretch is below
        1.
        """
        changes = self.time.changes if self._cells[0] else ()
        if not stretch >= 1 or len(changes) >= CHANGES_MAX or (changes and real_s < changes[-1][0]):
            raise ValueError(f"stretch {stretch} from {real_s} on, after {len(changes)} changes")
        at = 1 + len(changes) * _FIELDS
        self._cells[at], self._cells[at + 1] = real_s, stretch
        self._cells[0] = len(changes) + 1

    def close(self) -> None:
        """Unmap the file. The file itself remains for other processes."""
        self._cells.release()
        self._map.close()

    def _read(self) -> EmulatedTime:
        count = int(self._cells[0])
        cells = self._cells[1 : 1 + count * _FIELDS].tolist()
        return EmulatedTime(list(zip(cells[::_FIELDS], cells[1::_FIELDS], strict=True)))


class SteadyTime:
    """A clock on which a node's rates stay constant, although the stretch (real seconds per emulated second)
    changes.

    Its seconds are real seconds, multiplied by the first stretch of the run and divided by the current one.
    The rates are declared for the first stretch.
    """

    def __init__(self, first: float, changes: StretchFile | None) -> None:
        self._first = first
        self._changes = changes

    def now_s(self) -> float:
        """Return the seconds since an arbitrary start, counted so that a node's rates stay constant."""
        if self._changes is None:
            return time.monotonic()
        return self._changes.time.emulated_s(time.time()) * self._first

    def sleep(self, for_s: float) -> None:
        """Sleep for `for_s` seconds of this clock, at the current stretch."""
        slower = 1.0 if self._changes is None else self._changes.time.stretch_at(time.time()) / self._first
        time.sleep(for_s * slower)
