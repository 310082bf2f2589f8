"""Reading of trace files as text, plain or gzipped, in pieces. Errors have one-line messages."""

from __future__ import annotations

import codecs
import gzip
import math
import sys
import time
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, cast

from schedbed.tasks.errors import BadInput
from schedbed.tasks.plain_file import is_plain_file

_PIECE_BYTES = 1 << 20
_GZIP = b"\x1f\x8b"
_LINE_MAX = 1 << 20
TOLD_EVERY_S = 5.0


def pieces(path: Path) -> Iterator[str]:
    """Yield the text of a file in pieces of about 1 MiB. Raises BadInput if it is not readable UTF-8.

    While this takes long, lines on stderr say how much was read: a packed file may be a thousand times as large.
    """
    decoder = codecs.getincrementaldecoder("utf-8")()
    done = 0
    told_s = time.monotonic()
    try:
        with _opened(path) as file:
            while piece := file.read(_PIECE_BYTES):
                if not done:
                    _check_text(path, piece)
                yield decoder.decode(piece)
                done += len(piece)
                if time.monotonic() - told_s > TOLD_EVERY_S:
                    told_s = time.monotonic()
                    print(f"{path}: {done >> 20:,} MiB read so far", file=sys.stderr)
            yield decoder.decode(b"", final=True)
    except UnicodeDecodeError as error:
        raise BadInput(f"{path}: byte {done + error.start}: not UTF-8 text, expected a trace file") from None
    except (EOFError, zlib.error) as error:
        raise BadInput(
            f"{path}: byte {done} (unpacked): the gzip file is damaged or cut short: {error}"
        ) from None
    except OSError as error:
        raise BadInput(f"{path}: cannot read this trace: {error.strerror or error}") from None


def lines(path: Path) -> Iterator[tuple[int, str]]:
    """Yield a file's lines, numbered from 1. Raises BadInput for very long ones."""
    number, rest = 0, ""
    for piece in pieces(path):
        *whole, rest = (rest + piece).split("\n")
        for line in whole:
            number += 1
            yield number, line.removesuffix("\r")
        if len(rest) > _LINE_MAX:
            raise BadInput(
                f"{path}:{number + 1}: a line of more than {_LINE_MAX} characters, expected a trace file"
            )
    if rest:
        yield number + 1, rest.removesuffix("\r")


def first_line(start: str) -> str:
    """Return the first line in a text that is neither empty nor a comment (`#` or `;`), or "" if there is none."""
    return next((line for line in start.splitlines() if line.strip() and line[0] not in "#;"), "")


_PACKED = "packed with {0}, expected text or gzip: unpack it with `{1}`"
_OTHERS = {
    b"\x28\xb5\x2f\xfd": _PACKED.format("zstd", "zstd -d"),
    b"\xfd7zXZ\x00": _PACKED.format("xz", "xz -d"),
    b"BZh": _PACKED.format("bzip2", "bzip2 -d"),
    b"\x04\x22\x4d\x18": _PACKED.format("lz4", "lz4 -d"),
    b"LZ4Block": _PACKED.format("Spark's lz4", "spark.eventLog.compress=false"),
    b"\xff\x06\x00\x00sNaPpY": _PACKED.format("snappy", "snzip -d"),
    b"\x82SNAPPY\x00": _PACKED.format("Spark's snappy", "spark.eventLog.compress=false"),
    b"PK\x03\x04": _PACKED.format("zip", "unzip"),
    b"PAR1": "a Parquet file, expected a trace as text",
    b"Obj\x01": "an Avro container, expected a trace as text",
    b"ORC": "an ORC file, expected a trace as text",
    b"Avro-Binary": "a job history in Avro's binary form, expected JSON (mapreduce.jobhistory.jhist.format=json)",
}
"""By the first bytes of a file, an error message with its format and a way to read it."""


def _check_text(path: Path, beginning: bytes) -> None:
    """Raise BadInput that names the format of a file that is known not to be text."""
    for magic, what in _OTHERS.items():
        if beginning.startswith(magic) and (not magic.isalnum() or not beginning[:1000].isascii()):
            raise BadInput(f"{path}: {what}")


def _opened(path: Path) -> BinaryIO:
    if path.exists() and not is_plain_file(path) and not path.is_dir():
        raise BadInput(f"{path}: not a regular file, expected a trace, plain or gzipped")
    with path.open("rb") as file:
        packed = file.read(2) == _GZIP
    return cast(BinaryIO, gzip.open(path, "rb")) if packed else path.open("rb")


# Checked access to the fields of a JSON object in a trace. Wrong values raise errors with one-line
# messages.

_MOST = 1e15


@dataclass(frozen=True, slots=True)
class Fields:
    """A JSON object of a trace at the position `where`. A null field counts as missing."""

    raw: Mapping[str, Any]
    where: str

    def __contains__(self, key: str) -> bool:
        return self.raw.get(key) is not None

    def fail(self, what: str) -> BadInput:
        return BadInput(f"{self.where}: {what}")

    def number(self, key: str, default: float | None = None, least: float = 0.0) -> float:
        """Return a number, converted from text if necessary. Raises BadInput, also below `least`."""
        value = self.raw.get(key)
        if value is None and default is not None:
            return default
        try:
            number = float(value) if isinstance(value, int | float | str) else math.nan
        except (ValueError, OverflowError):
            number = math.nan
        if isinstance(value, bool) or not least <= number <= _MOST:
            raise self.fail(f"{key}: {_shown(value)} is not a number of {least:g} or more")
        return number

    def whole(self, key: str, default: int, most: int) -> int:
        """Return an integer from 0 to `most`. Raises BadInput."""
        number = self.number(key, default)
        if number != int(number) or number > most:
            raise self.fail(f"{key}: {_shown(self.raw.get(key))} is not a whole number of 0 to {most}")
        return int(number)

    def text(self, key: str, default: str) -> str:
        """Return a text or number as at most 200 characters. Raises BadInput."""
        value = self.raw.get(key)
        if value is None:
            return default
        if isinstance(value, bool) or not isinstance(value, str | int | float):
            raise self.fail(f"{key}: {_shown(value)} is not a text")
        return str(value).strip()[:200] or default

    def objects(self, key: str) -> list[Fields]:
        """Return a list of objects, [] if missing. Raises BadInput."""
        value = self.raw.get(key)
        if value is None:
            return []
        if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
            raise self.fail(f"{key} is not a list of objects")
        return [Fields(item, f"{self.where}: {key}[{index}]") for index, item in enumerate(value)]


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
