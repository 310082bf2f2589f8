"""A pipe that passes pieces of data to a function that reads them in another thread."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator

WAITING = 2
"""The number of pieces that may wait for the reader before `put` waits."""
LOOK_S = 0.2


class PiecePipe:
    """A pipe to the function `read`, which runs in a thread and iterates over the pieces added by `put`."""

    def __init__(self, read: Callable[[Iterator[bytes]], None]) -> None:
        self._pieces: queue.Queue[bytes | None] = queue.Queue(WAITING)
        self._error: Exception | None = None
        self._thread = threading.Thread(target=self._run, args=(read,), daemon=True)
        self._thread.start()

    def put(self, piece: bytes) -> None:
        """Add a piece, after waiting while the pipe is full. Raises the exception of a failed `read`."""
        self._offer(piece)

    def end(self) -> None:
        """End the data and wait until the function `read` returns. If it has failed, raise its exception."""
        self._offer(None)
        self._thread.join()
        if self._error is not None:
            raise self._error

    def _offer(self, piece: bytes | None) -> None:
        while True:
            if self._error is not None:
                raise self._error
            try:
                self._pieces.put(piece, timeout=LOOK_S)
                return
            except queue.Full:
                if not self._thread.is_alive() and self._error is None:
                    return  # The reader ended without reading all pieces.

    def _run(self, read: Callable[[Iterator[bytes]], None]) -> None:
        try:
            read(self._arriving())
        except Exception as error:
            self._error = error

    def _arriving(self) -> Iterator[bytes]:
        while (piece := self._pieces.get()) is not None:
            yield piece
