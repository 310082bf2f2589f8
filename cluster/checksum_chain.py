"""The chain of checksums by which a master's journal notices events that were changed or lost, even at its end."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterable, Iterator
from hashlib import sha256
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")
NUMBER_BYTES = 8


class JournalDamaged(ValueError):
    """A journal lacks events, or has changed ones. The message has one line that names the file."""


class ChecksumChain:
    """The number and checksum of a journal's last event. Each checksum covers the one before.

    A small file beside the journal `path`, NAME-end, has the last number. Without a path, there is no file.
    """

    def __init__(self, master: str, path: Path | None) -> None:
        self._whose = f"the {master}'s journal {'' if path is None else path.name}"
        self._end = -1
        if path is not None:
            beside = path.with_name(f"{path.name}-end")
            self._end = os.open(beside, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self.number, self.checksum, self._stored = 0, b"", 0
        self._damage = ""

    def open(self, read: Callable[[], tuple[int, bytes]]) -> None:
        """Continue after the last event in the file, whose number and checksum `read` returns."""
        try:
            number, self.checksum = read()
        except sqlite3.DatabaseError as error:
            self._damage = str(error)
            return
        self.number = self._stored = number
        end = number.to_bytes(NUMBER_BYTES) if self._end < 0 else os.pread(self._end, NUMBER_BYTES, 0)
        missing = int.from_bytes(end) - number
        if missing > 0:
            self._damage = f"the last {missing} of {missing + number} events are missing"
        elif number and len(end) < NUMBER_BYTES:
            self._damage = "the number of its last event is missing"

    def add(self, content: bytes) -> tuple[int, bytes]:
        """Return the number and checksum of the next event, to be stored with its content."""
        self.number += 1
        self.checksum = _chained(self.checksum, self.number, content)
        return self.number, self.checksum

    def stored(self) -> None:
        """Write the number of the last event to the small file, if the journal has stored new ones."""
        if self._end >= 0 and self.number > self._stored:
            os.pwrite(self._end, self.number.to_bytes(NUMBER_BYTES), 0)
            self._stored = self.number

    def checked(
        self, read: Callable[[], Iterable[tuple[int, bytes, bytes, T]]], after: int = 0, checksum: bytes = b""
    ) -> Iterator[T]:
        """Yield the last parts of the stored events (number, content, checksum, event) that `read` returns.

        `checksum` is that of the event number `after`, which precedes them. Raises JournalDamaged.
        """
        if self._damage:
            raise self.damaged(self._damage)
        try:
            for number, content, said, event in read():
                after += 1
                checksum = _chained(checksum, after, content)
                if number != after or said != checksum:
                    raise self.damaged(f"event {after} of {self.number} is missing or was changed")
                yield event
        except sqlite3.DatabaseError as error:
            raise self.damaged(str(error)) from error

    def damaged(self, why: str) -> JournalDamaged:
        return JournalDamaged(f"{self._whose} is damaged ({why}), so that the run cannot go on")

    def close(self) -> None:
        if self._end >= 0:
            os.close(self._end)


def _chained(before: bytes, number: int, content: bytes) -> bytes:
    return sha256(before + number.to_bytes(NUMBER_BYTES) + content).digest()
