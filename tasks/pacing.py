"""Software enforcement of a node's declared rates: token buckets (GCRA) in a mapped file, and pacing of CPU
time.

Each node's file has a bucket for CPU, disk and each direction of the network. Charges are served in order of
arrival, in small pieces, so that a rate is shared max-min fairly. A bucket with `seek` provides less in total
to several streams than to one; a cell for each active stream counts them.
"""

from __future__ import annotations

import contextlib
import fcntl
import mmap
import os
import resource
import signal
import struct
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

NAMES = ("cpu", "disk", "tx", "rx")
LINK_BUCKET = "tx"
"""The bucket in use in the file of a link or disk that several nodes share."""
CPU_BANK_S = 0.02  # Idle time that the CPU bucket saves, to compensate for late ends of sleeps.
# A stream stands still whenever its process has used its share of a core: a tick of CPU time is up to 8 ms, which at a
# twentieth of a core takes 160 ms. It may make up for that much at a time, else it never gets the declared rate.
CATCH_UP_S = 0.25
PIECE_S = 0.02  # Duration of the pieces that `take` charges, so that streams alternate.
PIECE_MIN = 4096.0  # Least number of bytes in a piece.
TICK_S = 0.005  # CPU time between two charges of a CpuPacer.
WITHHELD = "withheld"
"""The file in an attempt's folder with the seconds for which its agent has stopped it (a double). May be missing."""

_DECLARED, _RATE, _TAT, _USED, _SEEK, _FIELDS = 0, 1, 2, 3, 4, 5
_FIRST_PLACE = len(NAMES) * _FIELDS
PLACES = 64  # Most streams that are counted in a bucket with `seek`.
_SIZE_BYTES = (_FIRST_PLACE + PLACES) * 8
EXPIRES_S = 1.0  # A stream without progress for this time (such as of a killed process) is not counted.

SOCKET_S = 0.02
SOCKET_MIN_BYTES = 16 * 1024


def socket_bytes(rate_bps: float) -> int:
    """Return a socket's buffer size for an interface of this rate, or 0, the kernel's default, if unlimited.

    Otherwise the kernel would accept megabytes before the receiver's interface has let them in. The kernel
    doubles the size.
    """
    return max(SOCKET_MIN_BYTES, int(rate_bps * SOCKET_S)) if rate_bps else 0


def next_tat(tat: float, since: float, rate: float, amount: float) -> float:
    """Return when a new charge is paid (GCRA, with payment after use). `tat` is when the previous one is
    paid.

    `since` is the earliest time at which `amount` may have used the bucket. Capacity unused before it is
    lost.
    """
    return max(tat, since) + amount / rate


def stream_since(level: float, now: float, catch_up_s: float = CATCH_UP_S) -> float:
    """Return the earliest time at which a stream may have used its bucket for a charge at `now`.

    `level` is when the stream began or its last charge was paid. It catches up after delays by at most
    `catch_up_s`. Its first bytes are as slow as all others: an idle bucket saves no capacity.
    """
    return max(level, now - catch_up_s)


def own_cpu_s() -> float:
    """Return the CPU seconds of all threads, to the microsecond.

    Not `time.process_time`: while an ITIMER_PROF is active, Linux advances that clock in ticks of 4 ms.
    """
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def cpu_debt_s(used_s: float, core_speed: float, elapsed_s: float) -> float:
    """Return the seconds to wait to be as slow as on one emulated core of `core_speed` host cores."""
    return max(0.0, used_s / core_speed - elapsed_s)


class Budget:
    """The rate limits of a node's CPU, disk and network, in a file that its processes share.

    Times are CLOCK_MONOTONIC, the same for all processes of a host. fcntl locks end with their process, so a
    killed attempt leaves no bucket locked.
    """

    def __init__(
        self,
        path: Path,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._file = path.open("r+b")
        self._map = mmap.mmap(self._file.fileno(), _SIZE_BYTES)
        self._cells = memoryview(self._map).cast("d")
        self._clock = clock
        self._sleep = sleep
        # Reentrant, since a CpuPacer's handler may run just after its own thread took this lock.
        self._lock = threading.RLock()
        self.busy = False  # True while this process may hold a lock: then a signal handler must not sleep.

    @classmethod
    def create(
        cls, path: Path, rates: Mapping[str, float | None], seek: Mapping[str, float] | None = None
    ) -> Budget:
        """Create a file with rates in units per second; None or 0 is unlimited.

        A bucket with `seek` (at most one of a file) gives n active streams rate / (1 + seek x (n - 1)).
        """
        unknown = sorted(set(rates) - set(NAMES))
        if unknown:
            raise ValueError(f"unknown budget {unknown[0]!r}, expected one of {', '.join(NAMES)}")
        path.write_bytes(bytes(_SIZE_BYTES))
        budget = cls(path)
        for name in NAMES:
            budget._cells[_cell(name, _DECLARED)] = rates.get(name) or 0.0
            budget.set_rate(name, rates.get(name))
            budget._cells[_cell(name, _SEEK)] = (seek or {}).get(name, 0.0)
        return budget

    @classmethod
    def open(cls, path: Path) -> Budget:
        return cls(path)

    def close(self) -> None:
        """Unmap and close the file. The buckets remain for other processes."""
        self._cells.release()
        self._map.close()
        self._file.close()

    def reserve(
        self, name: str, amount: float, since: float | None = None, place: StreamCell | None = None
    ) -> float:
        """Charge a bucket, and return when the charge is paid. `place` identifies the stream.

        `since` is the earliest time at which the amount may have used the bucket (default: now). More than
        `PIECE_S` seconds of the rate delays other streams, so callers charge in pieces (`Stream.take`).
        """
        with self._locked(name):
            cells = self._cells
            cells[_cell(name, _USED)] += amount
            rate = cells[_cell(name, _RATE)]
            now = self._clock()
            if rate <= 0:
                return now
            seek = cells[_cell(name, _SEEK)]
            if seek and place is not None:
                rate /= 1 + seek * (self._streams(place, now) - 1)
            paid_at = next_tat(cells[_cell(name, _TAT)], now if since is None else since, rate, amount)
            cells[_cell(name, _TAT)] = paid_at
            if seek and place is not None and place.cell >= 0:
                cells[place.cell] = place.until = paid_at + EXPIRES_S
            return paid_at

    def _streams(self, place: StreamCell, now: float) -> int:
        """Return the number of active streams with that of `place`, which gets a free cell if it has none."""
        cells = self._cells
        if place.cell >= 0 and cells[place.cell] != place.until:
            place.cell = -1  # The stream paused for long, and another stream has the cell.
        count, free = int(place.cell < 0), -1
        for cell in range(_FIRST_PLACE, _FIRST_PLACE + PLACES):
            if cell == place.cell or cells[cell] > now:
                count += 1
            elif free < 0:
                free = cell
        if place.cell < 0:
            place.cell = free
        return count

    def leave(self, place: StreamCell) -> None:
        """Stop counting the stream of `place`. No lock is used, since any code may delete a stream object."""
        with contextlib.suppress(ValueError):  # The file may be closed already.
            if place.cell >= 0 and self._cells[place.cell] == place.until:
                self._cells[place.cell] = 0.0
        place.cell = -1

    def stream(self, name: str, beyond: Stream | None = None) -> Stream:
        """Return a new stream for one file or transfer, also charged to `beyond`, such as a shared disk's."""
        return Stream(self, name, self._clock, self._sleep, beyond)

    def used(self, name: str) -> float:
        """Return the charges so far, including those not yet paid."""
        return self._cells[_cell(name, _USED)]

    def paid(self, name: str) -> float:
        """Return the part of the charges that the rate has allowed by now."""
        owed_s = max(0.0, self._cells[_cell(name, _TAT)] - self._clock())
        return max(0.0, self.used(name) - owed_s * self.rate(name))

    def rate(self, name: str) -> float:
        return self._cells[_cell(name, _RATE)]

    def factor(self, name: str) -> float:
        """Return the current rate divided by the declared rate. It is below 1 while a fault slows the node."""
        declared = self._cells[_cell(name, _DECLARED)]
        return self.rate(name) / declared if declared and self.rate(name) else 1.0

    def set_rate(self, name: str, rate: float | None) -> None:
        """Set a rate in units per second. None or 0 means unlimited."""
        self._cells[_cell(name, _RATE)] = rate or 0.0

    @contextmanager
    def _locked(self, name: str) -> Iterator[None]:
        # Each bucket has its own range: CpuPacer's handler locks only `cpu`, and only if not `busy`.
        with self._lock:
            self.busy = True
            fcntl.lockf(self._file, fcntl.LOCK_EX, 1, NAMES.index(name), os.SEEK_SET)
            try:
                yield
            finally:
                fcntl.lockf(self._file, fcntl.LOCK_UN, 1, NAMES.index(name), os.SEEK_SET)
                self.busy = False


def _cell(name: str, field: int) -> int:
    return NAMES.index(name) * _FIELDS + field


class StreamCell:
    """The cell that marks a stream as active, or -1. If it is not `until`, another stream owns it."""

    __slots__ = ("cell", "until")

    def __init__(self) -> None:
        self.cell = -1
        self.until = 0.0


class Stream:
    """A file or transfer charged to a bucket, active until this object is deleted.

    Computation between two pieces overlaps with the transfer, as with reading ahead and writing behind.
    """

    def __init__(
        self,
        budget: Budget,
        name: str,
        clock: Callable[[], float],
        sleep: Callable[[float], None],
        beyond: Stream | None = None,
    ) -> None:
        self._place = StreamCell()
        self._beyond = beyond
        self._budget = budget
        self._name = name
        self._clock = clock
        self._sleep = sleep
        self._level = clock()

    def reserve(self, amount: float) -> float:
        """Charge `amount` now. Return the seconds after which it is paid at the bucket's rate."""
        since = stream_since(self._level, self._clock())
        self._level = self._budget.reserve(self._name, amount, since, self._place)
        if self._beyond is not None:
            self._beyond.reserve(amount)
        return self._owed_s()

    def _owed_s(self) -> float:
        owed_s = max(0.0, self._level - self._clock())
        return owed_s if self._beyond is None else max(owed_s, self._beyond._owed_s())

    def __del__(self) -> None:
        self._budget.leave(self._place)

    def take(self, amount: float, meanwhile: Callable[[], None] | None = None) -> None:
        """Charge `amount` in pieces and sleep as the rate requires. `meanwhile` is called before each sleep."""
        left = float(amount)
        while left > 0:
            rate = self._budget.rate(self._name)
            piece = min(left, max(rate * PIECE_S, PIECE_MIN)) if rate else left
            delay_s = self.reserve(piece)
            if meanwhile is not None:
                meanwhile()
                delay_s = self._owed_s()
            if delay_s > 0:
                self._sleep(delay_s)
            left -= piece


class CpuPacer:
    """Limits this process to one emulated core by sleeping in the handler of SIGPROF.

    Each charge is exact, so the mean rate is exact even if a long numpy call delays the handler. `withheld`
    returns the seconds for which others have stopped this process, which shorten the sleep.
    """

    def __init__(
        self,
        budget: Budget,
        core_speed: float,
        cpu_clock: Callable[[], float] = own_cpu_s,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
        withheld: Callable[[], float] = float,
    ) -> None:
        self._budget = budget
        self._withheld = withheld
        self._credited_s = 0.0
        self._core_speed = core_speed
        self._cpu_clock = cpu_clock
        self._clock = clock
        self._sleep = sleep
        self._charged_s = cpu_clock()
        self._tat = clock()
        self._sleeping = False

    def start(self) -> None:
        """Start the timer. Must be called from the main thread."""
        signal.signal(signal.SIGPROF, lambda _signal, _frame: self.settle())
        signal.setitimer(signal.ITIMER_PROF, TICK_S, TICK_S)

    def stop(self) -> None:
        """Stop the timer, and sleep as long as the rates of the core and the node require."""
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, signal.SIG_IGN)
        self.settle()

    def settle(self) -> None:
        """Charge the CPU time since the last call, and sleep as long as the rates of the core and the node require."""
        if self._sleeping or self._budget.busy:
            return  # The next tick charges the time.
        self._sleeping = True
        try:
            delay_s = self._charge()
            if delay_s > 0:
                self._sleep(delay_s)
        finally:
            self._sleeping = False

    def _charge(self) -> float:
        cpu_s = self._cpu_clock()
        used_s, self._charged_s = cpu_s - self._charged_s, cpu_s
        now = self._clock()
        speed = self._core_speed * self._budget.factor("cpu")
        withheld_s = self._withheld()
        spent_s, self._credited_s = used_s + withheld_s - self._credited_s, withheld_s
        since = now - CPU_BANK_S - spent_s
        self._tat = next_tat(self._tat, since, speed, used_s)
        return max(self._tat, self._budget.reserve("cpu", used_s, since)) - now


def withheld_reader(path: Path) -> Callable[[], float]:
    """Return a function that reads for how long the agent has stopped this attempt; 0 without the file."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return float

    def read() -> float:
        (seconds,) = struct.unpack("=d", os.pread(descriptor, 8, 0))
        return seconds

    return read
