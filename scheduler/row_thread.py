"""A thread that writes rows to the output tables while other work goes on, such as a loop of compiled code."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType

WAITING_MAX = 8
"""The most calls that wait for the thread, since each holds the rows that it writes."""


class RowThread:
    """A thread that makes calls in order, all before the `with` block ends, also after an interrupt."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="rows")
        self._waiting: deque[Future[None]] = deque()

    def do(self, call: Callable[[], None]) -> None:
        """Give a call to the thread. Wait if too many calls wait. Raises the error of an earlier call."""
        while len(self._waiting) >= WAITING_MAX:
            self._waiting.popleft().result()
        self._waiting.append(self._pool.submit(call))

    @property
    def is_idle(self) -> bool:
        return all(call.done() for call in self._waiting)

    def finish(self) -> None:
        """Wait for all calls. Raises the error of an earlier one."""
        while self._waiting:
            self._waiting.popleft().result()

    def __enter__(self) -> RowThread:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self._pool.shutdown()
        except KeyboardInterrupt:
            self._pool.shutdown()
            raise
