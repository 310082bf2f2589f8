"""Runs a user's class: passes records to its methods, and encodes the returned pairs as lines.

Between maps and reduces, a line is `key<TAB>value` with the value as JSON; in the output, strings are
unchanged. Errors are reported with the class's file and line.
"""

from __future__ import annotations

import json
import os
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any

from schedbed.tasks.blockfile import Buffer
from schedbed.tasks.errors import BadInput
from schedbed.tasks.own.beside import load_with_files_beside
from schedbed.tasks.own.class_source import ClassSource
from schedbed.tasks.own.watch import Hung, Watch
from schedbed.tasks.readers import RECORD_BYTES, line_batches
from schedbed.tasks.units import format_duration

BATCH_BYTES = 256 * 1024
LINES_A_PIECE = 5_000
SHOWN_CHARS = 40  # Length of a value in messages.
TEXT = ("utf-8", "surrogateescape")  # Bytes that are not UTF-8 are preserved.

_encoded = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode
Encode = Callable[[Any], str]


class UserClass:
    """An instance of a user's class. Raises BadInput if it cannot be created."""

    def __init__(self, source: ClassSource, folder: Path, params: Mapping[str, Any]) -> None:
        self._source = source
        self._folder = folder
        self.watch: Watch | None = None
        self._done = [0, 0]  # Counts of records or values read, and of lines returned.
        with _Blamed(self, "its own code"):
            module = load_with_files_beside(folder / source.file)
            made = getattr(module, source.name)
            given = {name: params[name] for name in (*source.parameters, *source.required)}
            given |= {name: params[name] for name in source.computed if params[name] is not None}
            self._object = made(**given)

    def mark(self) -> object:
        """Return a value that changes whenever the class reads a record or returns a pair, to detect hanging code."""
        return tuple(self._done)

    def mapped(self, kind: str, chunks: Iterable[Buffer], *, last: bool) -> Iterator[bytes]:
        """Yield the pairs of `map` for each record as lines. `last` means that they are the job's output."""
        method = self._method("map")
        encode = shown_value if last else encoded
        for chunk in chunks:
            for records in records_of_kind(kind, chunk):
                yield from self._called("map", self._pairs(method, records), encode)

    def mapped_once(self, number: int, *, last: bool) -> Iterator[bytes]:
        """Yield the pairs of one call of `map` with the map's number, for a job without input."""
        encode = shown_value if last else encoded
        return self._called("map", self._pairs(self._method("map"), [number]), encode)

    def combined(self, pieces: Iterable[Buffer]) -> Iterator[bytes]:
        """Call the method `combine` for each key in the sorted lines, and yield the returned pairs as lines."""
        return self._grouped("combine", pieces, encoded)

    def reduced(self, pieces: Iterable[Buffer]) -> Iterator[bytes]:
        """Call the method `reduce` for each key in the sorted lines, and yield the returned pairs as lines."""
        return self._grouped("reduce", pieces, shown_value)

    def partition(self, key: bytes, reduces: int) -> int:
        """Return the reduce that the user's `partition` chooses. Raises BadInput for an invalid one."""
        with _Blamed(self, "partition"):
            chosen = self._method("partition")(key.decode(*TEXT), reduces)
        if not isinstance(chosen, int) or isinstance(chosen, bool) or not 0 <= chosen < reduces:
            raise self.wrong(
                "partition", f"gave {_short(chosen)}, expected a whole number from 0 to {reduces - 1}"
            )
        return chosen

    def judged(self, records: Iterable[Any], output: Iterable[tuple[str, str]]) -> str | None:
        """Return the message of the method `check` about an error in the output, or None if it finds none."""
        with _Blamed(self, "check"):
            said = self._method("check")(records, output)
        if said is None or said is True or said == "":
            return None
        return said if isinstance(said, str) else "check says that it is wrong"

    def wrong(self, method: str, what: str) -> BadInput:
        """Return a BadInput with the method's file and line. `what` follows the method's name."""
        return BadInput(f"{self._source.file}:{self._source.lines.get(method, 1)}: {method} {what}")

    def blamed(self, error: BaseException, method: str) -> BadInput:
        """Return an exception of the user's class as a BadInput error, with the file and line that raised it."""
        place = self._place(error, method)
        if isinstance(error, Hung):
            limit = "its task_timeout" if self.watch is None else format_duration(self.watch.limit_s)
            return BadInput(f"{place}: {method} hangs: it did nothing for {limit} (task_timeout)")
        text = " ".join(str(error).split())
        if isinstance(error, SystemExit):
            return BadInput(f"{place}: {method} ended the process with exit({text})")
        name = type(error).__name__
        return BadInput(f"{place}: {name}: {text}" if text else f"{place}: {name}")

    def _place(self, error: BaseException, method: str) -> str:
        root = os.fspath(self._folder.resolve())
        if isinstance(error, SyntaxError) and (error.filename or "").startswith(root):
            return f"{os.path.relpath(error.filename or '', root)}:{error.lineno}"
        for frame in reversed(traceback.extract_tb(error.__traceback__)):
            if frame.filename.startswith(root):
                return f"{os.path.relpath(frame.filename, root)}:{frame.lineno}"
        line = self._source.lines.get(method)
        return f"{self._source.file}:{line}" if line else self._source.file

    def _method(self, name: str) -> Callable[..., Any]:
        found = getattr(self._object, name, None)
        if not callable(found):
            raise BadInput(f"{self._source.file}: class {self._source.name} has no method {name}")
        return found

    # ---------------------------------------------------------- calling and encoding

    def _called(self, method: str, pairs: Iterator[Any], encode: Encode) -> Iterator[bytes]:
        """Yield the pairs of a user's method as lines, in pieces. No user code runs between pieces."""
        while True:
            lines: list[str] = []
            with _Blamed(self, method):
                ended = self._take(method, pairs, lines, encode)
            if lines:
                yield "".join(lines).encode(*TEXT)
            if ended:
                return

    def _take(self, method: str, pairs: Iterator[Any], lines: list[str], encode: Encode) -> bool:
        done = self._done
        for pair in pairs:
            try:
                key, value = pair
            except (TypeError, ValueError):
                raise self.wrong(method, f"gave {_short(pair)}, expected a pair (key, value)") from None
            if type(key) is not str:
                raise self.wrong(method, f"gave the key {_short(key)}, expected a text, such as str(key)")
            if "\t" in key or "\n" in key:
                raise self.wrong(method, f"gave the key {_short(key)}, expected no tab and no newline in it")
            try:
                lines.append(f"{key}\t{value}\n" if type(value) is int else f"{key}{encode(value)}\n")
            except (TypeError, ValueError) as error:
                raise self.wrong(method, f"gave the value {_short(value)}: {error}") from None
            done[1] += 1
            if len(lines) == LINES_A_PIECE:
                return False
        return True

    def _pairs(self, method: Callable[..., Any], records: Iterable[Any]) -> Iterator[Any]:
        done = self._done
        for record in records:
            done[0] += 1
            pairs = method(record)
            if pairs is not None:
                yield from pairs

    def _grouped(self, name: str, pieces: Iterable[Buffer], encode: Encode) -> Iterator[bytes]:
        method = self._method(name)
        feed = _Feed(self, pieces, self._done)

        def pairs() -> Iterator[Any]:
            for key, group in groupby(feed.pairs(), key=itemgetter(0)):
                found = method(key, (decoded(value) for _, value in group))
                if found is not None:
                    yield from found

        try:
            yield from self._called(name, pairs(), encode)
        except BadInput:
            if feed.error is not None:  # The error came from the input lines, not from the class.
                raise feed.error from None
            raise

    def taken(self, busy: bool) -> None:
        """Record whether the user's code is running (`busy`) or waits for input. Only running code can hang."""
        if self.watch is not None:
            self.watch.busy = busy


class _Feed:
    """The input of the user's class, read when it requests pairs. `error` is kept, as it may be caught."""

    def __init__(self, user: UserClass, pieces: Iterable[Buffer], done: list[int]) -> None:
        self._user = user
        self._done = done
        self._pieces = iter(pieces)
        self.error: BaseException | None = None

    def pairs(self) -> Iterator[tuple[str, str]]:
        while True:
            self._user.taken(busy=False)
            try:
                piece = next(self._pieces, None)
            except BaseException as error:
                self.error = error
                raise
            self._user.taken(busy=True)
            if piece is None:
                return
            for text in line_batches(bytes(piece), BATCH_BYTES):
                lines = text.decode(*TEXT).removesuffix("\n").split("\n")
                for line in lines:
                    self._done[0] += 1
                    key, _, value = line.partition("\t")
                    yield key, value


class _Blamed:
    """Converts exceptions of user code to BadInput with file and line, except BadInput and MemoryError."""

    def __init__(self, user: UserClass, method: str) -> None:
        self._user, self._method = user, method

    def __enter__(self) -> None:
        self._user.taken(busy=True)

    def __exit__(self, _kind: object, error: BaseException | None, _traceback: object) -> None:
        self._user.taken(busy=False)
        if isinstance(error, Exception | SystemExit | Hung) and not isinstance(error, BadInput | MemoryError):
            raise self._user.blamed(error, self._method) from error


def encoded(value: Any) -> str:
    return "\t" + _encoded(value)


def decoded(text: str) -> Any:
    return int(text) if text.isdecimal() else json.loads(text)


def shown_value(value: Any) -> str:
    """Return a tab and a value of the output, or "" for None. Raises ValueError for a newline in it."""
    if value is None:
        return ""
    text = value if isinstance(value, str) else _encoded(value)
    if "\n" in text:
        raise ValueError("a text in the output cannot hold a newline")
    return "\t" + text


def records_of_kind(kind: str, chunk: Buffer) -> Iterator[list[Any]]:
    """Yield records in batches: bytes objects of 100 bytes for "records", otherwise lines as strings."""
    data = bytes(chunk)
    if kind == "records":
        yield [data[at : at + RECORD_BYTES] for at in range(0, len(data), RECORD_BYTES)]
        return
    for text in line_batches(data, BATCH_BYTES):
        yield text.decode(*TEXT).removesuffix("\n").split("\n")


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= SHOWN_CHARS else f"{text[: SHOWN_CHARS - 3]}..."
