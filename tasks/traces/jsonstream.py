"""A reader of files that contain a sequence of JSON objects. Objects are decoded one at a time to save memory."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn

from schedbed.tasks.errors import BadInput
from schedbed.tasks.traces.text import pieces

# An error at a larger distance from the window's end is not due to an incomplete object.
_STRING_MAX = 1 << 18


def objects(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield a file's objects, numbered from 1. Raises BadInput for anything else."""
    stream = _Stream(path)
    number = 1
    while stream.skip_space():
        value = stream.decode(number)
        if not isinstance(value, dict):
            raise BadInput(f"{path}: object {number}: expected a JSON object, got {type(value).__name__}")
        yield number, value
        number += 1


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


class _Stream:
    """The text that is in memory. Decoded text is dropped, and more read for an incomplete object."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._pieces = pieces(path)
        self._decoder = json.JSONDecoder(parse_constant=_no_constant)
        self._text = ""
        self._at = 0
        self._gone = 0  # Number of characters removed from the window.

    def skip_space(self) -> bool:
        """Advance to the next object in the file. Return False at the end of the file."""
        while True:
            while self._at < len(self._text) and self._text[self._at] in " \t\r\n":
                self._at += 1
            if self._at < len(self._text):
                return True
            if not self._more(1):
                return False

    def decode(self, number: int) -> Any:
        """Return the JSON value at the current position, and advance behind it."""
        while True:
            try:
                value, end = self._decoder.raw_decode(self._text, self._at)
            except (ValueError, RecursionError) as error:
                if self._may_be_cut(error) and self._more(len(self._text) - self._at):
                    continue
                raise BadInput(self._fault(number, error)) from None
            self._at = end
            return value

    def _may_be_cut(self, error: Exception) -> bool:
        return isinstance(error, json.JSONDecodeError) and error.pos > len(self._text) - _STRING_MAX

    def _more(self, wanted: int) -> bool:
        """Read at least `wanted` more characters, or return False at the end.

        The text is doubled before an incomplete object is decoded again, so that the total time stays
        proportional to the file.
        """
        fresh: list[str] = []
        while wanted > 0 and (piece := next(self._pieces, None)) is not None:
            fresh.append(piece)
            wanted -= len(piece)
        self._gone += self._at
        self._text = self._text[self._at :] + "".join(fresh)
        self._at = 0
        return any(fresh)

    def _fault(self, number: int, error: Exception) -> str:
        if isinstance(error, json.JSONDecodeError):
            place, what = self._gone + error.pos, error.msg
        else:
            place, what = (
                self._gone + self._at,
                "nested too deeply" if isinstance(error, RecursionError) else str(error),
            )
        start = f" (it starts at byte {self._gone + self._at})"
        return f"{self._path}: object {number}, byte {place}: not JSON or cut short: {what[:80]}{start}"
