"""Concurrent work in forked processes, one for each piece; fewer at once if memory is short."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing.connection import wait
from typing import Any

from schedbed.cluster.machines.host_abilities import memory_left_bytes, usable_cores
from schedbed.deploy.options import interrupts_later
from schedbed.deploy.worker_fork import (
    KILLED,
    LOOK_S,
    NO_MEMORY,
    STOPPED,
    Send,
    WorkBounds,
    WorkEnd,
    WorkerFork,
)

STOP_S = 10.0
"""The most seconds in which interrupted work may save its state and send its last messages."""
RESERVE_BYTES = 256 << 20
"""Memory of the host that stays free."""
UNBOUND = WorkBounds()


def _nothing(*_: object) -> None:
    """Do nothing. This function is the default of the callbacks in `SideWork`."""


@dataclass(slots=True, kw_only=True)
class SideWork:
    """A piece of work `do` for a forked process, with callbacks in the parent process.

    `begin` is called before each start (work stopped for lack of memory starts again), `take` with each
    message that `do` sends, and `ended` at the end. `file` is the policy's file if a user's code runs.
    `needs_bytes` is the expected memory, 0 if unknown.
    """

    do: Callable[[Send], Any]
    begin: Callable[[], object] = _nothing
    take: Callable[[Any], object] = _nothing
    ended: Callable[[WorkEnd], object] = _nothing
    file: str | None = None
    needs_bytes: int = 0


def all_cores() -> int:
    """Return the number of usable cores, and so of simulations at once."""
    return max(1, int(usable_cores()))


def apart(do: Callable[[Send], Any], take: Callable[[Any], object] = _nothing, *, file: str = "") -> Any:
    """Call `do`, which runs a user's code, in a forked process. Return its result. `take` gets its messages.

    Raises BadInput if `do` does, ApartFailed for other exceptions, and CutOff if the process ended without a
    result; its message names the line of the policy's code, or else `file`.
    """
    [end] = side_by_side([SideWork(do=do, take=take, file=file or "<unknown>")], 1)
    return end.result()


def side_by_side(works: Sequence[SideWork], at_once: int, bounds: WorkBounds = UNBOUND) -> list[WorkEnd]:
    """Run all `works` in forked processes, at most `at_once` at a time. Return how each ended, in order.

    `bounds` limits a process's time and memory. Work starts in order, when memory allows. If memory runs
    short, the newest process is stopped and started again later. If a process is killed while others run, its
    work is tried once more alone. A KeyboardInterrupt stops all processes, calls `ended` with the kind
    STOPPED for those running, and is raised again.
    """
    return _WorkerPool(works, at_once, bounds).run()


class _WorkerPool:
    """The state of one call of `side_by_side`. Each piece of work is identified by its index in the list `works`."""

    def __init__(self, works: Sequence[SideWork], at_once: int, bounds: WorkBounds) -> None:
        self._works, self._at_once, self._bounds = works, at_once, bounds
        self._waiting = list(reversed(range(len(works))))
        self._alone: list[int] = []  # Work to try again while no other work runs.
        self._running: dict[int, WorkerFork] = {}
        self._ends: dict[int, WorkEnd] = {}
        self._most_bytes = 0  # The largest memory that a process has used.
        self._looked_s = 0.0  # Time of the last look at the host's memory, which is slow.
        self._short_of_memory = (KILLED,) if bounds.memory_bytes else (KILLED, NO_MEMORY)

    def run(self) -> list[WorkEnd]:
        """Run all pieces of work. Return how each of them ended, in order."""
        with self._none_left():
            while self._waiting or self._running or self._alone:
                if not self._waiting and not self._running:
                    self._waiting.append(self._alone.pop())
                while self._waiting and self._has_room(self._waiting[-1]):
                    self._start(self._waiting.pop())
                for number in self._follow():
                    end = self._ended(number)
                    if self._running and end.kind in self._short_of_memory:
                        self._alone.append(number)
                    else:
                        self._ends[number] = end
                        self._works[number].ended(end)
                if len(self._running) > 1 and self._is_short_of_memory():
                    self._take_back()
        return [self._ends[number] for number in sorted(self._ends)]

    def _start(self, number: int) -> None:
        work = self._works[number]
        work.begin()
        with interrupts_later():
            self._running[number] = WorkerFork(work.do, work.take, work.file, self._bounds)

    def _follow(self) -> list[int]:
        """Process the forks' messages. Return the indexes of work that has ended."""
        wait([pipe for fork in self._running.values() for pipe in fork.pipes], LOOK_S)
        for fork in self._running.values():
            fork.follow()
        return [number for number, fork in self._running.items() if fork.end is not None]

    def _ended(self, number: int) -> WorkEnd:
        fork = self._running.pop(number)
        fork.close()
        assert fork.end is not None
        return fork.end

    def _has_room(self, number: int) -> bool:
        """Return whether the work can start: processes are below the limit, and memory is free.

        Each running process is expected to grow to the size of the largest so far.
        """
        if not self._running:
            return True
        if len(self._running) >= self._at_once:
            return False
        used = {running: fork.memory_bytes() for running, fork in self._running.items()}
        self._most_bytes = max(self._most_bytes, *used.values())
        grow = sum(max(0, self._needs(running) - now_bytes) for running, now_bytes in used.items())
        return memory_left_bytes() - grow - self._needs(number) > RESERVE_BYTES

    def _needs(self, number: int) -> int:
        return max(self._most_bytes, self._works[number].needs_bytes)

    def _is_short_of_memory(self) -> bool:
        """Return whether memory is short, but False within `LOOK_S` seconds of the last check."""
        now_s = time.monotonic()
        if now_s - self._looked_s < LOOK_S:
            return False
        self._looked_s = now_s
        return memory_left_bytes() < RESERVE_BYTES

    def _take_back(self) -> None:
        """Stop the newest process and queue its work again, with fewer at once from now on."""
        number, fork = self._running.popitem()
        fork.close()
        self._waiting.append(number)
        self._at_once = len(self._running)

    @contextmanager
    def _none_left(self) -> Iterator[None]:
        try:
            yield
        except KeyboardInterrupt:
            with suppress(KeyboardInterrupt):
                self._interrupt()
            for number in self._running:
                self._works[number].ended(WorkEnd(STOPPED, "KeyboardInterrupt"))
            raise
        finally:
            for fork in self._running.values():
                fork.close()

    def _interrupt(self) -> None:
        """Interrupt all running work, and process its last messages for at most `STOP_S` seconds."""
        until_s = time.monotonic() + STOP_S
        while any(fork.end is None for fork in self._running.values()) and time.monotonic() < until_s:
            for fork in self._running.values():
                if fork.end is None:
                    fork.interrupt()
            wait([pipe for fork in self._running.values() if fork.end is None for pipe in fork.pipes], LOOK_S)
            for fork in self._running.values():
                if fork.end is None:
                    fork.follow()
