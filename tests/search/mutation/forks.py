"""A pool of forked processes, one per item, so that changes made there do not affect the parent."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Iterable, Iterator
from multiprocessing.connection import Connection, wait
from time import monotonic
from traceback import format_exc
from typing import Any, Generic, TypeVar

T = TypeVar("T")
R = TypeVar("R")


class Forks(Generic[T, R]):
    """Runs `work` on items in at most `jobs` forked processes at once.

    The result is None if an item's process dies or takes longer than `patience_s` seconds.
    """

    def __init__(self, work: Callable[[T], R], *, jobs: int, patience_s: float) -> None:
        self._work = work
        self._jobs = jobs
        self._patience_s = patience_s
        self._context: Any = multiprocessing.get_context("fork")
        self._running: dict[Connection, tuple[T, Any, float]] = {}

    def results(self, items: Iterable[T]) -> Iterator[tuple[T, R | None]]:
        """Yield each item with its result, in the order in which the processes end."""
        for item in items:
            self._begin(item)
            if len(self._running) == self._jobs:
                yield from self._ended()
        while self._running:
            yield from self._ended()

    def _begin(self, item: T) -> None:
        mine, theirs = self._context.Pipe(duplex=False)
        process = self._context.Process(target=_run, args=(self._work, item, theirs), daemon=True)
        process.start()
        theirs.close()
        self._running[mine] = item, process, monotonic() + self._patience_s

    def _ended(self) -> Iterator[tuple[T, R | None]]:
        """Wait until at least one process ends or times out, and yield its item and result."""
        until = min(until for _, _, until in self._running.values())
        ready = wait(list(self._running), max(0.0, until - monotonic()))
        late = [pipe for pipe, (_, _, until) in self._running.items() if until <= monotonic()]
        for pipe in dict.fromkeys([*ready, *late]):
            assert isinstance(pipe, Connection)
            item, process, _ = self._running.pop(pipe)
            yield item, _received(item, pipe)
            process.kill()
            process.join()
            pipe.close()


def _received(item: Any, pipe: Connection) -> Any:
    """Return the result that a process has sent; None if the process sent nothing.

    Raises RuntimeError if the work itself raised an error.
    """
    try:
        error, result = pipe.recv() if pipe.poll() else ("", None)
    except EOFError:
        return None
    if error:
        raise RuntimeError(f"{item}: {error}")
    return result


def _run(work: Callable[[Any], Any], item: Any, pipe: Connection) -> None:
    try:
        pipe.send(("", work(item)))
    except Exception:
        pipe.send((format_exc(), None))
    pipe.close()
