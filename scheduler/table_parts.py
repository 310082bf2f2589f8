"""Concatenation of Parquet files that fastparquet has written, without decoding the values.

The result has the bytes that fastparquet writes for the concatenated rows. Each column of a row group is one
page without a dictionary: the definition levels (which rows have a value), then the values, then 8 zero bytes.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from io import BytesIO
from typing import IO, Any

import numpy as np

COMPRESSION = "SNAPPY"
_MARKER = b"PAR1"
_END = 8 * b"\0"
TYPES: dict[str, tuple[int, int | None]] = {
    "bool": (0, None),
    "int64": (2, None),
    "float64": (5, None),
    "str": (6, 0),
}
"""The codes of a column's type and converted type (UTF8) in Parquet, by the kind of the column."""
_OPTIONAL = 1
_NUMBERS = {2: "<i8", 5: "<f8"}
"""The types of values of a column with minimum and maximum, by the code of the type in Parquet."""
_BOOLEAN = 0


@dataclass(frozen=True, slots=True)
class Page:
    """A column of some rows. `levels` says which rows have a value; None if all have one.

    `values` are the encoded values of these rows, and `least` and `most` their minimum and maximum, encoded
    as well, or None if there are no values or no numbers.
    """

    rows: int
    levels: np.ndarray | None
    values: bytes
    least: bytes | None
    most: bytes | None


@dataclass(frozen=True, slots=True)
class TablePart:
    """The rows of a part file: the file's metadata, the number of rows, and the columns."""

    metadata: Any
    rows: int
    columns: list[Page]

    def has(self, kinds: Mapping[str, str]) -> bool:
        """Return whether the columns are those of `kinds`, in this order, each of the kind given there.

        Kinds are the keys of `TYPES`.
        """
        there = [(c.name, c.type, c.converted_type, c.repetition_type) for c in self.metadata.schema[1:]]
        return there == [(name, *TYPES[kind], _OPTIONAL) for name, kind in kinds.items()]


def read_part(content: bytes) -> TablePart:
    """Return the rows of a part file, given its bytes. Raises an exception of any type if it is damaged."""
    import fastparquet

    file = fastparquet.ParquetFile(BytesIO(content))
    if len(file.row_groups) > 1:
        raise ValueError(f"{len(file.row_groups)} groups of rows, expected one")
    columns = [_page(content, chunk.meta_data) for group in file.row_groups for chunk in group.columns]
    return TablePart(file.fmd, sum(group.num_rows for group in file.row_groups), columns)


def _page(content: bytes, column: Any) -> Page:
    from fastparquet.cencoding import NumpyIO, ThriftObject
    from fastparquet.compression import decompress_data

    start = column.data_page_offset
    there = NumpyIO(content[start : start + column.total_compressed_size])
    header = ThriftObject.from_buffer(there, "PageHeader")
    rows = header.data_page_header.num_values
    if rows != column.num_values or column.dictionary_page_offset is not None:
        raise ValueError(f"a column of {column.num_values} rows has a page of {rows}, expected one page")
    raw = bytes(
        decompress_data(there.read(header.compressed_page_size), header.uncompressed_page_size, column.codec)
    )
    (size,) = struct.unpack_from("<I", raw)
    found = column.statistics
    return Page(
        rows,
        _levels(raw[4 : 4 + size], rows),
        raw[4 + size : -len(_END)],
        found.min,
        found.max,
    )


def _levels(block: bytes, rows: int) -> np.ndarray | None:
    """Return a boolean array that says which rows have a value, or None if all have one."""
    head, at, shift = 0, 0, 0
    while True:
        byte = block[at]
        head |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            break
    if head & 1 == 0:
        return None
    return np.unpackbits(np.frombuffer(block, np.uint8, offset=at), count=rows, bitorder="little").view(bool)


def write_groups(file: IO[bytes], groups: Iterable[Sequence[TablePart]]) -> None:
    """Write a Parquet file with one group of rows for each group of parts.

    There must be at least one part, and all parts must have the same columns and types.
    """
    from fastparquet.cencoding import ThriftObject
    from fastparquet.writer import write_thrift

    file.write(_MARKER)
    metadata, written = None, []
    for group in groups:
        metadata = metadata or group[0].metadata
        parts = [part for part in group if part.rows]
        if not parts:
            continue
        columns = [
            _write_column(file, element, [part.columns[place] for part in parts])
            for place, element in enumerate(metadata.schema[1:])
        ]
        size = sum(column.meta_data.total_uncompressed_size for column in columns)
        rows = sum(part.rows for part in parts)
        written.append(
            ThriftObject.from_fields("RowGroup", num_rows=rows, columns=columns, total_byte_size=size)
        )
    assert metadata is not None
    metadata.row_groups, metadata.num_rows = written, sum(group.num_rows for group in written)
    size = write_thrift(file, metadata)
    file.write(struct.pack("<I", size) + _MARKER)


def _write_column(file: IO[bytes], element: Any, pages: Sequence[Page]) -> Any:
    """Write one column of a group, and return its entry in the file's metadata."""
    from fastparquet import parquet_thrift as thrift
    from fastparquet.cencoding import ThriftObject
    from fastparquet.compression import compress_data
    from fastparquet.writer import write_thrift

    start, rows = file.tell(), sum(page.rows for page in pages)
    levels, values, missing = _joined(element.type, pages)
    plain = b"".join([levels, *values, _END])
    packed = compress_data(plain, COMPRESSION)
    plain_encoding, rle = thrift.Encoding.PLAIN, thrift.Encoding.RLE
    header = thrift.DataPageHeader(
        num_values=rows,
        encoding=plain_encoding,
        definition_level_encoding=rle,
        repetition_level_encoding=thrift.Encoding.BIT_PACKED,
        i32=1,
    )
    write_thrift(
        file,
        thrift.PageHeader(
            type=thrift.PageType.DATA_PAGE,
            uncompressed_page_size=len(plain),
            compressed_page_size=len(packed),
            data_page_header=header,
            i32=1,
        ),
    )
    file.write(packed)
    size = file.tell() - start
    stats = thrift.PageEncodingStats(
        page_type=thrift.PageType.DATA_PAGE, encoding=plain_encoding, count=1, i32=1
    )
    about = ThriftObject.from_fields(
        "ColumnMetaData",
        type=element.type,
        path_in_schema=[element.name],
        encodings=[plain_encoding],
        codec=thrift.CompressionCodec.SNAPPY,
        num_values=rows,
        statistics=thrift.Statistics(**_extremes(element.type, pages), null_count=missing),
        data_page_offset=start,
        dictionary_page_offset=None,
        encoding_stats=[stats],
        key_value_metadata=[],
        total_uncompressed_size=size + len(plain) - len(packed),
        total_compressed_size=size,
        i32list=[1, 4],
    )
    return thrift.ColumnChunk(file_offset=start, meta_data=about, file_path=None)


def _joined(kind: int, pages: Sequence[Page]) -> tuple[bytes, list[bytes], int]:
    """Return the encoded levels and values of the rows of all pages, and the number of missing values."""
    rows = sum(page.rows for page in pages)
    values = [page.values for page in pages]
    if kind == _BOOLEAN:
        counts = [page.rows if page.levels is None else int(page.levels.sum()) for page in pages]
        bits = [
            np.unpackbits(np.frombuffer(packed, np.uint8), count=count, bitorder="little")
            for packed, count in zip(values, counts, strict=True)
        ]
        values = [np.packbits(np.concatenate(bits), bitorder="little").tobytes()]
    if all(page.levels is None for page in pages):
        levels = _varint(rows << 1) + b"\1"
        return struct.pack("<I", len(levels)) + levels, values, 0
    there = np.concatenate(
        [np.ones(page.rows, bool) if page.levels is None else page.levels for page in pages]
    )
    packed = np.packbits(there, bitorder="little").tobytes()
    levels = _varint(len(packed) << 1 | 1) + packed
    return struct.pack("<I", len(levels)) + levels, values, rows - int(there.sum())


def _extremes(kind: int, pages: Sequence[Page]) -> dict[str, bytes]:
    """Return the encoded minimum and maximum of a column of numbers, or nothing if there are no values."""
    if kind not in _NUMBERS:
        return {}
    least = b"".join(page.least for page in pages if page.least is not None)
    most = b"".join(page.most for page in pages if page.most is not None)
    if not least:
        return {}
    number = _NUMBERS[kind]
    return {
        "max": np.frombuffer(most, number).max().tobytes(),
        "min": np.frombuffer(least, number).min().tobytes(),
    }


def _varint(number: int) -> bytes:
    made = bytearray()
    while number > 127:
        made.append(number & 127 | 128)
        number >>= 7
    made.append(number)
    return bytes(made)
