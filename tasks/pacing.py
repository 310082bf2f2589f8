"""How a node holds its declared rates in software: GCRA buckets in a mapped file, and the pacing of CPU.

One file a node, mapped by its agent and its attempts, holds a bucket for CPU, disk and each direction of the
network. Charges are first come first served, in small pieces, which shares a rate max-min fairly.
"""

from __future__ import annotations

import fcntl
import mmap
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

NAMES = ("cpu", "disk", "tx", "rx")
BURST_S = 0.02  # idle time that a bucket may bank
# A stream stands still whenever its process has used its share of a core, for some 80 ms at a tenth of a core (a tick
# of CPU time takes up to 8 ms), and so do both ends of a transfer: their other buckets bank that much, else streams
# never get the declared rate. Measured at a tenth of a core, six nodes busy: 0.79 of it with 20 ms, 0.95 with 200 ms.
DATA_BURST_S = 0.2
PIECE_S = 0.02  # `take` pays in pieces of about this long, so that streams alternate
PIECE_MIN = 4096.0  # but not less than this many bytes a piece
TICK_S = 0.005  # of own CPU time between two charges of a CpuPacer

_DECLARED, _RATE, _TAT, _USED, _FIELDS = 0, 1, 2, 3, 4
_SIZE_BYTES = len(NAMES) * _FIELDS * 8

SOCKET_S = 0.02
SOCKET_MIN_BYTES = 16 * 1024


def socket_bytes(rate_bps: float) -> int:
    """What a socket's buffer may hold at a NIC of this rate, 0 for any. The kernel would take megabytes from a sender
    before the receiver's NIC has let them in, so that a transfer were not bound at both ends; it also doubles this.
    """
    return max(SOCKET_MIN_BYTES, int(rate_bps * SOCKET_S)) if rate_bps else 0


def next_tat(
    tat: float, now: float, rate: float, amount: float, spent_s: float = 0.0, burst_s: float = BURST_S
) -> float:
    """When a bucket of `rate` is level again after `amount` is charged at `now` (GCRA, paid afterwards).

    `tat` is the same value after the charge before; `spent_s` is how long the amount was already being used,
    `burst_s` how long the bucket may have stood idle without losing anything.
    """
    return max(tat, now - burst_s - spent_s) + amount / rate


class Budget:
    """The buckets of one node, shared by all processes that open the same file.

    Times are CLOCK_MONOTONIC, which all processes of a host share. fcntl locks end with the process that
    holds them, so that a killed attempt never leaves a bucket locked.
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
        # Reentrant: a CpuPacer's handler may fire just after its own thread took this lock.
        self._lock = threading.RLock()
        self.busy = False  # True while this process may hold a lock: a signal handler must not sleep then

    @classmethod
    def create(cls, path: Path, rates: Mapping[str, float | None]) -> Budget:
        """Make the file with these rates (units a second; None or 0 is unlimited) and open it."""
        unknown = sorted(set(rates) - set(NAMES))
        if unknown:
            raise ValueError(f"unknown budget {unknown[0]!r}, expected one of {', '.join(NAMES)}")
        path.write_bytes(bytes(_SIZE_BYTES))
        budget = cls(path)
        for name in NAMES:
            budget._cells[_cell(name, _DECLARED)] = rates.get(name) or 0.0
            budget.set_rate(name, rates.get(name))
        return budget

    @classmethod
    def open(cls, path: Path) -> Budget:
        """Map the file that `create` made."""
        return cls(path)

    def close(self) -> None:
        """Unmap and close; the buckets stay for the others."""
        self._cells.release()
        self._map.close()
        self._file.close()

    def reserve(self, name: str, amount: float, spent_s: float = 0.0) -> float:
        """Charge `amount` now and return the seconds to wait until it is paid, 0 when it is already.

        Charges beyond `PIECE_S` of the rate keep others waiting: pieces are the caller's matter (see `take`).
        """
        with self._locked(name):
            return self._charge(name, amount, spent_s)

    def take(self, name: str, amount: float) -> None:
        """Charge `amount` piece by piece and sleep until it is paid."""
        left = float(amount)
        while left > 0:
            rate = self.rate(name)
            piece = min(left, max(rate * PIECE_S, PIECE_MIN)) if rate else left
            delay_s = self.reserve(name, piece)
            if delay_s > 0:
                self._sleep(delay_s)
            left -= piece

    def used(self, name: str) -> float:
        """All that was ever charged."""
        return self._cells[_cell(name, _USED)]

    def rate(self, name: str) -> float:
        """The rate in force, 0 when unlimited."""
        return self._cells[_cell(name, _RATE)]

    def factor(self, name: str) -> float:
        """The rate in force over the declared one: below 1 while a fault slows the node."""
        declared = self._cells[_cell(name, _DECLARED)]
        return self.rate(name) / declared if declared and self.rate(name) else 1.0

    def set_rate(self, name: str, rate: float | None) -> None:
        """Change the rate in force from now on; None or 0 is unlimited."""
        self._cells[_cell(name, _RATE)] = rate or 0.0

    def _charge(self, name: str, amount: float, spent_s: float) -> float:
        cells = self._cells
        cells[_cell(name, _USED)] += amount
        rate = cells[_cell(name, _RATE)]
        if rate <= 0:
            return 0.0
        now = self._clock()
        burst_s = BURST_S if name == "cpu" else DATA_BURST_S
        tat = next_tat(cells[_cell(name, _TAT)], now, rate, amount, spent_s, burst_s)
        cells[_cell(name, _TAT)] = tat
        return max(0.0, tat - now)

    @contextmanager
    def _locked(self, name: str) -> Iterator[None]:
        # A range of its own each bucket: CpuPacer's handler only ever locks `cpu`, and only when not `busy`.
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


class CpuPacer:
    """Holds this process to one emulated core and its node to its cores, by sleeping in a SIGPROF handler.

    Each charge is the exact CPU time used since the one before (`time.process_time`, all threads), so the
    average is exact even when one long numpy call delays the handler. `core_speed` is in host cores.
    """

    def __init__(
        self,
        budget: Budget,
        core_speed: float,
        cpu_clock: Callable[[], float] = time.process_time,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._budget = budget
        self._core_speed = core_speed
        self._cpu_clock = cpu_clock
        self._clock = clock
        self._sleep = sleep
        self._charged_s = cpu_clock()
        self._tat = clock()
        self._sleeping = False

    def start(self) -> None:
        """Begin pacing; only from the main thread."""
        signal.signal(signal.SIGPROF, lambda _signal, _frame: self.settle())
        signal.setitimer(signal.ITIMER_PROF, TICK_S, TICK_S)

    def stop(self) -> None:
        """Pay what is still owed and end the pacing."""
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, signal.SIG_IGN)
        self.settle()

    def settle(self) -> None:
        """Charge the CPU used since the last time and sleep off the larger of the two debts."""
        if self._sleeping or self._budget.busy:
            return  # the time is charged at the next tick
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
        self._tat = next_tat(self._tat, now, speed, used_s, used_s)
        return max(self._tat - now, self._budget.reserve("cpu", used_s, used_s))
