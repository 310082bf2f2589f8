"""Helpers for functions that check outputs: they split files into records or lines, and format messages."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from schedbed.tasks.blockfile import Buffer
from schedbed.tasks.readers import RECORD_BYTES

Pieces = Iterable[Buffer]
Parts = Iterable[Pieces]


@dataclass(frozen=True, slots=True)
class Ran:
    """A finished job's parameters and number of maps, which the check of its output needs."""

    params: Mapping[str, Any] = field(default_factory=dict)
    maps: int = 1


def records_of(pieces: Pieces) -> Iterator[bytes]:
    """Yield a file's 100-byte records. Raises ValueError if it ends within one."""
    rest = b""
    for piece in pieces:
        data = rest + bytes(piece)
        whole = len(data) // RECORD_BYTES * RECORD_BYTES
        for at in range(0, whole, RECORD_BYTES):
            yield data[at : at + RECORD_BYTES]
        rest = data[whole:]
    if rest:
        raise ValueError(f"{len(rest)} bytes after the last whole record of {RECORD_BYTES}")


def lines_of(pieces: Pieces) -> Iterator[bytes]:
    """Yield the lines, without newlines, of a file that is given in pieces. The last line may lack a newline."""
    rest = b""
    for piece in pieces:
        *whole, rest = (rest + bytes(piece)).split(b"\n")
        yield from whole
    if rest:
        yield rest


def shown(text: bytes) -> str:
    """Return a text's first 60 bytes, quoted."""
    return repr(text[:60].decode(errors="backslashreplace"))


def difference(wanted: Mapping[bytes, object], found: Mapping[bytes, object]) -> str | None:
    """Return a message about the smallest key whose values differ, or None."""
    wrong = [key for key in wanted if wanted[key] != found.get(key)]
    wrong += [key for key in found if key not in wanted]
    if not wrong:
        return None
    key = min(wrong)
    return f"{shown(key)} has {found.get(key, 'nothing')}, expected {wanted.get(key, 'nothing')}"


def keyed(parts: Parts) -> dict[bytes, int]:
    """Return {key: count} of all parts' lines. Raises ValueError for a repeated key or an unsorted part."""
    found: dict[bytes, int] = {}
    for number, pieces in enumerate(parts):
        last: bytes | None = None
        for line in lines_of(pieces):
            key, _, count = line.rpartition(b"\t")
            if key in found:
                raise ValueError(f"part {number}: {shown(key)} is there twice")
            if last is not None and key < last:
                raise ValueError(f"part {number}: {shown(key)} comes after {shown(last)}")
            found[key], last = int(count), key
    return found
