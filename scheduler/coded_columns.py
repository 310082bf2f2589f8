"""Parquet files with columns of texts that are stored as codes and a list of distinct texts.

In memory, such a column is a categorical column of pandas. In a file, it has Parquet's dictionary encoding,
which every reader turns back into texts.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd
    from fastparquet import ParquetFile


def is_coded(column: pd.Series) -> bool:
    """Return whether a column is categorical."""
    import pandas as pd

    return isinstance(column.dtype, pd.CategoricalDtype)


def plain_texts(data: pd.DataFrame) -> pd.DataFrame:
    """Return the data with each categorical column as a column of texts."""
    return data.astype({name: "str" for name in data.columns if is_coded(data[name])})


def used_texts(data: pd.DataFrame) -> pd.DataFrame:
    """Return the data with only those texts of categorical columns that occur in some row."""
    used = {name: data[name].cat.remove_unused_categories() for name in data.columns if is_coded(data[name])}
    return data.assign(**used)


def joined(frames: Sequence[pd.DataFrame], *, in_order: bool = False) -> pd.DataFrame:
    """Return the rows of all frames, which have the same columns. A column stays categorical if it is
    categorical in each frame.

    With `in_order`, the texts of categorical columns are sorted.
    """
    import pandas as pd
    from pandas.api.types import union_categoricals

    if len(frames) == 1 and not in_order:
        return frames[0]
    made: dict[str, pd.Series | pd.Categorical] = {}
    for name in frames[0].columns:
        columns = [data[name] for data in frames]
        if all(map(is_coded, columns)):
            made[name] = union_categoricals(columns, sort_categories=in_order)
        else:
            plain = [column.astype("str") if is_coded(column) else column for column in columns]
            made[name] = pd.concat(plain, ignore_index=True)
    return pd.DataFrame(made)


CODED_ROWS = 50_000
"""The least number of rows in a group whose texts are stored as codes."""


def alike_groups(parts: Iterable[pd.DataFrame], rows: int) -> Iterator[pd.DataFrame]:
    """Yield the rows of all parts in order, in groups of `rows` rows, and the rest as the last group.

    The groups depend only on the rows: not on their division into parts, or on which columns of parts are
    categorical.
    """
    pending: list[pd.DataFrame] = []
    for part in parts:
        pending.append(part)
        if sum(map(len, pending)) >= rows:
            data = joined(pending)
            whole = len(data) // rows * rows
            for begin in range(0, whole, rows):
                yield _coded_alike(data.iloc[begin : begin + rows].reset_index(drop=True))
            pending = [data.iloc[whole:].reset_index(drop=True)] if whole < len(data) else []
    if pending:
        yield _coded_alike(joined(pending))


def _coded_alike(group: pd.DataFrame) -> pd.DataFrame:
    """Return the rows with those columns categorical that repeat their texts, whichever columns were.

    The texts of a categorical column are sorted, and each occurs. A group with few rows has none.
    """
    made: dict[str, pd.Series] = {}
    for name, column in group.items():
        if is_coded(column) or str(column.dtype) == "str":
            column = column.astype("str") if len(group) < CODED_ROWS else _in_order(column)
        made[str(name)] = column
    return type(group)(made)


def _in_order(column: pd.Series) -> pd.Series:
    """Return the column categorical, with its texts in order, or plain if most of them occur once."""
    if not is_coded(column):
        column = column.astype("category")
    codes = column.cat.remove_unused_categories()
    if 2 * len(codes.cat.categories) > len(codes):
        return codes.astype("str")
    return codes.cat.reorder_categories(codes.cat.categories.sort_values())


def coded_in(group: ParquetFile) -> dict[str, int]:
    """Return the columns that are stored as codes in an open file with one group of rows, or in one group of
    a file, each with the number of its distinct texts.
    """
    coded: dict[str, int] = {}
    for column in group.row_groups[0].columns if len(group.row_groups) == 1 else ():
        about = {each.key: each.value for each in column.meta_data.key_value_metadata or ()}
        if b"num_categories" in about:
            coded[column.meta_data.path_in_schema[0]] = int(about[b"num_categories"])
    return coded


def write(path: Path, data: pd.DataFrame) -> None:
    """Write the data to a Parquet file."""
    with TableFile(path, data) as file:
        file.add(data)


class TableFile:
    """A Parquet file that is being written, a group of rows at a time. `like` has the columns of the file.

    The file says of categorical columns that they are texts, so that readers return texts. The end of the
    file, without which nobody can read it, is written on leaving a `with` block without an exception.
    """

    def __init__(self, path: Path, like: pd.DataFrame) -> None:
        from fastparquet import writer

        texts = plain_texts(like.iloc[:0])
        self._about = writer.make_metadata(
            texts, has_nulls=True, object_encoding="infer", cols_dtype=str(texts.columns.dtype)
        )
        self._groups: list[Any] = []
        self._file = path.open("wb")
        self._file.write(writer.MARKER)

    def __enter__(self) -> TableFile:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        """Write the end of the file, and close it. After an exception, only close the file."""
        from fastparquet import writer

        with self._file as file:
            if kind is not None:
                return
            self._about.row_groups = self._groups
            self._about.num_rows = sum(group.num_rows for group in self._groups)
            size = writer.write_thrift(file, self._about)
            file.write(struct.pack("<I", size) + writer.MARKER)

    def add(self, data: pd.DataFrame) -> None:
        """Append rows as a group. Data without rows has no effect."""
        from fastparquet import writer

        stats: Any = "auto"
        group = writer.make_row_group(self._file, data, self._about.schema, compression="SNAPPY", stats=stats)
        if group is not None:
            self._groups.append(group)


def shared(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the rows with equal strings in a column replaced by one shared object, which saves memory.

    A column is unchanged if most of its strings are different.
    """
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
