"""Reading of trace files as text, plain or gzipped, in pieces. Errors have one-line messages."""

from __future__ import annotations

import codecs
import gzip
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, cast

from schedbed.tasks.errors import BadInput

_PIECE_BYTES = 1 << 20
_GZIP = b"\x1f\x8b"
_LINE_MAX = 1 << 20


def pieces(path: Path) -> Iterator[str]:
    """Yield the text of a file in pieces of about 1 MiB. Raises BadInput if it is not readable UTF-8."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    done = 0
    try:
        with _opened(path) as file:
            while piece := file.read(_PIECE_BYTES):
                yield decoder.decode(piece)
                done += len(piece)
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
    """Yield the lines of a file, without line ends, each with its number, which starts at 1.

    Raises BadInput for very long lines.
    """
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
    """Return the first line in a text that is neither empty nor a comment (`#` or `;`), or "" if there is
    none.
    """
    return next((line for line in start.splitlines() if line.strip() and line[0] not in "#;"), "")


def _opened(path: Path) -> BinaryIO:
    if path.exists() and not path.is_file() and not path.is_dir():
        raise BadInput(f"{path}: not a regular file, expected a trace, plain or gzipped")
    with path.open("rb") as file:
        packed = file.read(2) == _GZIP
    return cast(BinaryIO, gzip.open(path, "rb")) if packed else path.open("rb")
