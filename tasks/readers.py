"""Readers of chunks of whole records. A record belongs to the split in whose byte range it begins."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from schedbed.tasks.blockfile import Piece

RECORD_BYTES = 100
TAIL_BYTES = 4096  # First read beyond a split's end; doubled until the last line ends.

Read = Callable[[int, int], Iterator[Piece]]
"""A function that yields the file's bytes [start, end) in pieces."""


# Splits and the borders of records
#
# A split is a range of bytes, and knows nothing of lines. A line that crosses the border of two splits must
# be read by one of them. The rule, which is Hadoop's (LineRecordReader): a split owns the records that
# begin in its range. So it reads on behind its end until its last record is complete, and skips what it
# finds at its beginning until the first record begins. To know whether a line begins at its very first
# byte, it reads one byte before: only if that byte is a newline does the line belong to it. The rule holds
# for any cut, which is what lets a policy split a running map again (DTSS), and lets two attempts with
# different cuts never count a record twice.


def text_chunks(read: Read, offset: int, length: int, file_length: int) -> Iterator[bytes]:
    """Yield the lines that begin in [offset, offset + length), in chunks of whole lines.

    Only the newline byte ends a line. A file's last line may lack it.
    """
    end = min(offset + length, file_length)
    rest: list[Piece] = []  # The beginning of a line that is not complete yet.
    inside = offset == 0  # False until the split's first line begins.
    for piece in read(max(0, offset - 1), end) if offset < end else ():
        if not inside:
            newline = piece.find(b"\n")
            if newline < 0:
                continue
            inside = True
            piece = piece[newline + 1 :]
        cut = piece.rfind(b"\n") + 1
        if cut:
            yield b"".join((*rest, memoryview(piece)[:cut]))
            rest = []
        if cut < len(piece):
            rest.append(piece[cut:])
    if rest:
        yield from _finish_line(read, rest, end, file_length)


def _finish_line(read: Read, rest: list[Piece], at: int, file_length: int) -> Iterator[bytes]:
    step = TAIL_BYTES
    while at < file_length:
        for piece in read(at, min(at + step, file_length)):
            cut = piece.find(b"\n") + 1
            if cut:
                yield b"".join((*rest, piece[:cut]))
                return
            rest.append(piece)
            at += len(piece)
        step *= 2
    yield b"".join(rest)


def line_batches(text: bytes, size: int) -> Iterator[bytes]:
    """Yield the text in pieces of whole lines, each of about `size` bytes."""
    at = 0
    while at < len(text):
        cut = text.find(b"\n", at + size) + 1 or len(text)
        yield text[at:cut]
        at = cut


def record_chunks(read: Read, offset: int, length: int, file_length: int) -> Iterator[bytes]:
    """Yield the 100-byte records that begin in [offset, offset + length). Raises ValueError."""
    if file_length % RECORD_BYTES:
        raise ValueError(f"the input has {file_length} bytes, not a multiple of {RECORD_BYTES} (one record)")
    start = -(-offset // RECORD_BYTES) * RECORD_BYTES
    end = min(-(-(offset + length) // RECORD_BYTES) * RECORD_BYTES, file_length)
    rest = b""
    for piece in read(start, end) if start < end else ():
        whole = (len(rest) + len(piece)) // RECORD_BYTES * RECORD_BYTES - len(rest)
        if whole <= 0:
            rest += piece
            continue
        yield b"".join((rest, memoryview(piece)[:whole])) if rest else bytes(memoryview(piece)[:whole])
        rest = bytes(piece[whole:])


def raw_chunks(read: Read, offset: int, length: int, file_length: int) -> Iterator[Piece]:
    """Return the bytes [offset, offset + length) in pieces, which may end within a record."""
    end = min(offset + length, file_length)
    return read(offset, end) if offset < end else iter(())


def _count_lines(chunk: Piece) -> int:
    return chunk.count(b"\n") + (not chunk.endswith(b"\n"))


READERS = {"text": text_chunks, "records": record_chunks, "raw": raw_chunks}
RECORDS_IN = {"text": _count_lines, "records": lambda chunk: len(chunk) // RECORD_BYTES}
