"""Reading of trace files and folders as text, plain or packed, in pieces. Errors have one-line messages."""

from __future__ import annotations

import bz2
import codecs
import csv
import gzip
import lzma
import math
import re
import shutil
import subprocess
import sys
import tempfile
import time
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, cast

from schedbed.tasks.errors import BadInput
from schedbed.tasks.plain_file import is_plain_file

_PIECE_BYTES = 1 << 20
_LINE_MAX = 1 << 20
TOLD_EVERY_S = 5.0
AS_TEXT: dict[bytes, Callable[[Path, bytes], Iterator[str]]] = {}
"""By the first bytes of a binary file, how to read the file as text. Formats register here."""


def pieces(path: Path) -> Iterator[str]:
    """Yield the text of a file, or of a folder's files, in pieces of about 1 MiB.

    Packed files are unpacked, and binary job histories read as text. Raises BadInput if that is impossible. While
    this takes long, lines on stderr say how much was read: a packed file may be a thousand times as large.
    """
    if not path.is_dir():
        yield from _pieces(path)
        return
    for file in files_of(path):
        last = "\n"
        for piece in _pieces(file):
            yield piece
            last = piece or last
        if not last.endswith("\n"):
            yield "\n"


_NO_TRACE = re.compile(r"[._].*|.*\.(xml|crc|summary)|appstatus_.*|README.*|.*_COPYING_")
_ROLLED = re.compile(r"events_(\d+)_.*?(\.compact)?(\.\w+)?")


def files_of(folder: Path) -> list[Path]:
    """Return the files with traces in a folder and in the folders inside, by name, with numbers in their order.

    Left out are the other files of Hadoop's and Spark's history servers, and events that Spark has compacted.
    """
    found = [path for path in folder.rglob("*") if path.is_file() and not _NO_TRACE.fullmatch(path.name)]
    compact: dict[Path, int] = {}
    for path in found:
        rolled = _ROLLED.fullmatch(path.name)
        if rolled is not None and rolled[2]:
            compact[path.parent] = max(compact.get(path.parent, 0), int(rolled[1]))

    def is_kept(path: Path) -> bool:
        rolled, last = _ROLLED.fullmatch(path.name), compact.get(path.parent, 0)
        return rolled is None or int(rolled[1]) > last or (int(rolled[1]) == last and bool(rolled[2]))

    kept = filter(is_kept, found)
    return sorted(kept, key=lambda path: [(part.zfill(20), part) for part in re.split(r"(\d+)", str(path))])


def _pieces(path: Path) -> Iterator[str]:
    decoder = codecs.getincrementaldecoder("utf-8")()
    done = 0
    told_s = time.monotonic()
    try:
        with _opened(path) as file:
            while piece := file.read(_PIECE_BYTES):
                for mark, read in AS_TEXT.items():
                    if not done and piece.startswith(mark):
                        yield from read(path, piece + file.read())
                        return
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
    except (EOFError, zlib.error, lzma.LZMAError) as error:
        raise BadInput(
            f"{path}: byte {done} (unpacked): the {_packed(path)} file is damaged or cut short: {error}"
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


def csv_cells(line: str, where: str) -> list[str]:
    """Return the cells of a line of CSV. Raises BadInput."""
    try:
        return [cell.strip() for cell in next(csv.reader([line], strict=True))]
    except csv.Error as error:
        raise BadInput(f"{where}: not CSV: {error}") from None


def is_amount(value: Any) -> bool:
    """Return whether a value of JSON is a number of bytes, or a time in ms, that can be."""
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 1e18


def first_line(start: str) -> str:
    """Return the first line in a text that is neither empty nor a comment (`#` or `;`), or "" if there is none."""
    return next((line for line in start.splitlines() if line.strip() and line[0] not in "#;"), "")


_PACKED = "packed with {0}, expected text, gzip, bzip2, xz or zstd: unpack it with `{1}`"
_OTHERS = {
    b"\x28\xb5\x2f\xfd": _PACKED.format("zstd", "zstd -d"),
    b"\x04\x22\x4d\x18": _PACKED.format("lz4", "lz4 -d"),
    b"LZ4Block": _PACKED.format("Spark's lz4", "spark.eventLog.compress=false"),
    b"\xff\x06\x00\x00sNaPpY": _PACKED.format("snappy", "snzip -d"),
    b"\x82SNAPPY\x00": _PACKED.format("Spark's snappy", "spark.eventLog.compress=false"),
    b"PK\x03\x04": _PACKED.format("zip", "unzip"),
    b"PAR1": "a Parquet file, expected a trace as text",
    b"Obj\x01": "an Avro container, expected a trace as text",
    b"ORC": "an ORC file, expected a trace as text",
}
"""By the first bytes of a file, an error message with its format and a way to read it."""


def _check_text(path: Path, beginning: bytes) -> None:
    """Raise BadInput that names the format of a file that is known not to be text."""
    for magic, what in _OTHERS.items():
        if beginning.startswith(magic) and (not magic.isalnum() or not beginning[:1000].isascii()):
            raise BadInput(f"{path}: {what}")


_UNPACKED: Mapping[bytes, tuple[str, Callable[[Path], Any]]] = {
    b"\x1f\x8b": ("gzip", gzip.open),
    b"BZh": ("bzip2", bz2.open),
    b"\xfd7zXZ\x00": ("xz", lzma.open),
    b"\x28\xb5\x2f\xfd": ("zstd", lambda path: _unzstd(path)),
}
"""By a file's first bytes, the name of its packing and how to open it."""


def _packed(path: Path) -> str:
    """Return the name of a file's packing, "" for a plain file."""
    with path.open("rb") as file:
        start = file.read(10)
    for magic, (name, _) in _UNPACKED.items():
        # bzip2's signature is text: a digit and the first block's signature follow.
        if start.startswith(magic) and (magic != b"BZh" or start[4:] in (b"1AY&SY", b"\x17rE8P\x90")):
            return name
    return ""


def _opened(path: Path) -> BinaryIO:
    if path.exists() and not is_plain_file(path) and not path.is_dir():
        raise BadInput(f"{path}: not a regular file, expected a trace, plain or packed")
    packed = _packed(path)
    for name, unpacked in _UNPACKED.values():
        if name == packed:
            return cast(BinaryIO, unpacked(path))
    return path.open("rb")


def _unzstd(path: Path) -> BinaryIO:
    """Unpack a file with the command zstd, which Python's library does not replace. Raises BadInput."""
    if (command := shutil.which("zstd")) is None:
        raise BadInput(
            f"{path}: packed with zstd, expected the command zstd to unpack it, or gzip, bzip2 or xz"
        )
    unpacked = tempfile.TemporaryFile()  # noqa: SIM115 - the caller closes it.
    done = subprocess.run([command, "-dcq", path], stdout=unpacked, stderr=subprocess.PIPE, check=False)
    if done.returncode:
        unpacked.close()
        raise EOFError(done.stderr.decode(errors="replace").strip().rpartition(": ")[2])
    unpacked.seek(0)
    return cast(BinaryIO, unpacked)


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
