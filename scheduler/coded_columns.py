"""Parquet files with columns of texts that are stored as codes and a list of distinct texts.

Such a column is categorical in memory, and has Parquet's dictionary encoding, which every reader decodes.
"""

from __future__ import annotations

import copy
import struct
import zlib
from collections.abc import Iterator, Sequence
from os import SEEK_END
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd
    from fastparquet import ParquetFile


def is_coded(column: pd.Series) -> bool:
    import pandas as pd

    return isinstance(column.dtype, pd.CategoricalDtype)


def coded_columns(data: pd.DataFrame) -> list[str]:
    """Return the names of the categorical columns. Faster than `is_coded` for each column."""
    import pandas as pd

    kinds = zip(data.columns, data.dtypes, strict=True)
    return [name for name, kind in kinds if isinstance(kind, pd.CategoricalDtype)]


def plain_texts(data: pd.DataFrame) -> pd.DataFrame:
    coded = coded_columns(data)
    return data.astype(dict.fromkeys(coded, "str")) if coded else data


def used_texts(data: pd.DataFrame) -> pd.DataFrame:
    """Return the data without categories that no row has."""
    return data.assign(**{name: data[name].cat.remove_unused_categories() for name in coded_columns(data)})


def joined(frames: Sequence[pd.DataFrame], *, in_order: bool = False) -> pd.DataFrame:
    """Return the rows of frames with equal columns, categorical where frames with half of the rows are.

    With `in_order`, the categories are sorted.
    """
    import pandas as pd

    if len(frames) == 1 and not in_order:
        return frames[0]
    if len(frames) == 1 and not coded_columns(frames[0]):
        return frames[0].reset_index(drop=True)
    made: dict[str, pd.Series | pd.Categorical] = {}
    for name in frames[0].columns:
        columns = [data[name] for data in frames]
        coded = sum(len(column) for column in columns if is_coded(column))
        if coded and 2 * coded >= sum(map(len, columns)):
            codes = [column if is_coded(column) else column.astype("category") for column in columns]
            made[name] = _joined_codes(codes, in_order=in_order)
        else:
            plain = [column.astype("str") if is_coded(column) else column for column in columns]
            made[name] = pd.concat(plain, ignore_index=True)
    return pd.DataFrame(made, copy=False)


def _joined_codes(columns: Sequence[pd.Series], *, in_order: bool) -> pd.Categorical:
    """Return the rows of categorical columns as one categorical column."""
    import numpy as np
    import pandas as pd

    codes, texts = [column.cat.codes.to_numpy() for column in columns], columns[0].cat.categories
    kind: Any = columns[0].dtype
    if any(column.cat.categories is not texts for column in columns):
        places, found = pd.factorize(np.concatenate([column.cat.categories.to_numpy() for column in columns]))
        texts = pd.Index(found, dtype="str")
        kind = pd.CategoricalDtype(texts)
        ends = np.cumsum([len(column.cat.categories) for column in columns])[:-1]
        # The code of a missing text is -1, which is the place of the last element.
        codes = [np.append(mine, -1)[code] for mine, code in zip(np.split(places, ends), codes, strict=True)]
    joint = np.concatenate(codes)
    if in_order:
        order = np.argsort(texts.to_numpy())
        place = np.full(len(texts) + 1, -1)
        place[order] = np.arange(len(order))
        joint, kind = place[joint], pd.CategoricalDtype(texts[order])
    return pd.Categorical.from_codes(joint, dtype=kind, validate=False)


CODED_ROWS = 50_000
"""The least number of rows in a group whose texts are stored as codes."""


SAMPLED = 2_048
"""The number of rows of a group from which it is told whether a column repeats its texts."""


class AlikeGroups:
    """Rows in groups of `rows`, with categorical columns where texts repeat.

    The groups do not depend on the frames in which rows were added, nor on which columns of these are
    categorical.
    """

    def __init__(self, rows: int) -> None:
        self._rows = rows
        self._pending: list[pd.DataFrame] = []
        self._count = 0

    def __len__(self) -> int:
        """Return the number of rows that are not in a group yet."""
        return self._count

    def add(self, data: pd.DataFrame) -> None:
        """Add rows."""
        if len(data):
            self._pending.append(data)
            self._count += len(data)

    def whole(self) -> Iterator[pd.DataFrame]:
        """Yield each group that is complete. A group is removed when the next one is asked for."""
        if self._count < self._rows:
            return
        joint = joined(self._pending)
        self._pending = [joint]
        while self._count >= self._rows:
            yield coded_alike(joint.iloc[: self._rows].reset_index(drop=True))
            joint = joint.iloc[self._rows :]
            self._pending, self._count = [joint], len(joint)
        self._pending = [_with_fewer_texts(joint.reset_index(drop=True), self._rows)] if self._count else []

    def rest(self) -> Iterator[pd.DataFrame]:
        """Yield and remove the rows left as a smaller group, if any."""
        if self._count:
            yield coded_alike(joined(self._pending))
            self._pending, self._count = [], 0


def _with_fewer_texts(data: pd.DataFrame, most: int) -> pd.DataFrame:
    """Drop unused texts where there are more than `most`, such as ids of tasks of rows that are long gone."""
    many = [name for name in coded_columns(data) if len(data[name].cat.categories) > most]
    return data.assign(**{name: data[name].cat.remove_unused_categories() for name in many})


def coded_alike(group: pd.DataFrame) -> pd.DataFrame:
    """Return the rows with exactly those columns categorical that repeat their texts, sorted and all in use."""
    if len(group) < CODED_ROWS:
        return plain_texts(group)
    made: dict[str, pd.Series] = {}
    for name, column in group.items():
        if is_coded(column) or str(column.dtype) == "str":
            column = _in_order(column) if _repeats(column) else column.astype("str")
        made[str(name)] = column
    return type(group)(made)


def _repeats(column: pd.Series) -> bool:
    """Return whether most texts of a sample of rows occur more than once."""
    sample = column.iloc[:: max(1, len(column) // SAMPLED)]
    return 2 * sample.nunique() <= len(sample)


def _in_order(column: pd.Series) -> pd.Series:
    """Return the column categorical, with its texts in order."""
    import numpy as np
    import pandas as pd

    if not is_coded(column):
        return column.astype("category")
    codes, texts = column.cat.codes.to_numpy(), column.cat.categories.to_numpy()
    used = np.flatnonzero(np.bincount(codes[codes >= 0], minlength=len(texts)))
    used = used[np.argsort(texts[used])]
    place = np.full(len(texts) + 1, -1, np.int32)  # The last one is for missing texts, whose code is -1.
    place[used] = np.arange(len(used))
    kind = pd.CategoricalDtype(pd.Index(texts[used], dtype="str"))
    return pd.Series(pd.Categorical.from_codes(place[codes], dtype=kind, validate=False))  # type: ignore[arg-type]


def coded_in(group: ParquetFile) -> dict[str, int]:
    """Return {column stored as codes: number of its texts} of a file, or part, with one group of rows."""
    coded: dict[str, int] = {}
    for column in group.row_groups[0].columns if len(group.row_groups) == 1 else ():
        about = {each.key: each.value for each in column.meta_data.key_value_metadata or ()}
        if b"num_categories" in about:
            coded[column.meta_data.path_in_schema[0]] = int(about[b"num_categories"])
    return coded


class TableFile:
    """A Parquet file, written a group of rows at a time, with the columns of `like`.

    It declares categorical columns as texts for readers. Leaving the `with` block without an exception writes
    the end, with a checksum, without which nobody can read the file.
    """

    def __init__(self, path: Path, like: pd.DataFrame) -> None:
        from fastparquet import writer

        self._about = _about(like)
        self._groups: list[Any] = []
        self._file = SummedFile(path)
        self._file.write(writer.MARKER)

    def __enter__(self) -> TableFile:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        """Write the end of the file, and close it. After an exception, only close the file."""
        from fastparquet import parquet_thrift, writer

        with self._file.file:
            if kind is not None:
                return
            self._about.row_groups = self._groups
            self._about.num_rows = sum(group.num_rows for group in self._groups)
            checksum = parquet_thrift.KeyValue(key=CHECKSUM, value=str(self._file.checksum))
            self._about.key_value_metadata = [*self._about.key_value_metadata, checksum]
            size = writer.write_thrift(self._file, self._about)
            self._file.write(struct.pack("<I", size) + writer.MARKER)

    def add(self, data: pd.DataFrame) -> None:
        """Append rows as a group. Data without rows has no effect."""
        from fastparquet import writer

        stats: Any = "auto"
        group = writer.make_row_group(self._file, data, self._about.schema, compression="SNAPPY", stats=stats)
        if group is not None:
            self._groups.append(group)

    def add_copy(self, groups: Sequence[Any], content: bytes) -> None:
        """Append the groups of rows of another file, given as `checked_groups` returns them."""
        shift = self._file.tell() - MARKER_BYTES
        self._file.write(content[MARKER_BYTES:])
        for group in groups:
            for column in group.columns:
                column.file_offset += shift
                column.meta_data.data_page_offset += shift
                if column.meta_data.dictionary_page_offset is not None:
                    column.meta_data.dictionary_page_offset += shift
            self._groups.append(group)


_ABOUT: dict[tuple[tuple[str, str], ...], Any] = {}
"""The results of `_about` by the names and types of the columns, since each takes many milliseconds."""


def _about(like: pd.DataFrame) -> Any:
    """Return what the end of a Parquet file says about columns like those of `like`, for a file without rows."""
    key = tuple(zip(like.columns, map(str, like.dtypes), strict=True))
    if key not in _ABOUT:
        from fastparquet import writer

        texts = plain_texts(like.iloc[:0])
        _ABOUT[key] = writer.make_metadata(
            texts, has_nulls=True, object_encoding="infer", cols_dtype=str(texts.columns.dtype)
        )
    return copy.copy(_ABOUT[key])


def checked_groups(path: Path) -> tuple[list[Any], bytes]:
    """Return the groups of a `TableFile`, and the bytes to which their positions refer.

    Raises ValueError for a wrong checksum, and other exceptions for a damaged file.
    """
    from fastparquet import ParquetFile

    with path.open("rb") as file:
        about = ParquetFile(file)
        file.seek(-8, SEEK_END)
        end = file.tell() - int.from_bytes(file.read(4), "little")
        file.seek(0)
        content = file.read(end)
    if about.key_value_metadata.get(CHECKSUM) != str(zlib.crc32(content)):
        raise ValueError("the checksum is wrong")
    return list(about.row_groups), content


CHECKSUM = "schedbed.crc32"
MARKER_BYTES = 4
"""The length of the marker with which a Parquet file begins."""


class SummedFile:
    """A file that is being written, with the checksum (CRC-32) of all bytes written so far."""

    def __init__(self, path: Path) -> None:
        self.file = path.open("wb")
        self.checksum = 0

    def write(self, data: bytes) -> int:
        """Append bytes, and return their number."""
        self.checksum = zlib.crc32(data, self.checksum)
        return self.file.write(data)

    def tell(self) -> int:
        return self.file.tell()


def shared(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the rows with equal strings of a column shared, to save memory, unless most differ."""
    import pandas as pd

    made: dict[str, pd.Series] = {}
    for name, column in rows.items():
        if column.dtype == object:
            codes, values = pd.factorize(column, use_na_sentinel=False)
            column = (
                pd.Series(values.take(codes), index=rows.index) if 2 * len(values) < len(codes) else column
            )
        made[str(name)] = column
    return pd.DataFrame(made, index=rows.index)
