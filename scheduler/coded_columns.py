"""Parquet files with columns of texts that are stored as codes and a list of distinct texts.

In memory, such a column is a categorical column of pandas. In a file, it has Parquet's dictionary encoding,
which every reader turns back into texts.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd


def is_coded(column: pd.Series) -> bool:
    """Return whether a column is categorical."""
    import pandas as pd

    return isinstance(column.dtype, pd.CategoricalDtype)


def plain_texts(data: pd.DataFrame) -> pd.DataFrame:
    """Return the data with each categorical column as a column of texts."""
    return data.astype({name: "str" for name in data.columns if is_coded(data[name])})


def joined(frames: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """Return the rows of all frames, which have the same columns. A column stays categorical if it is
    categorical in each frame.
    """
    import pandas as pd
    from pandas.api.types import union_categoricals

    if len(frames) == 1:
        return frames[0]
    made: dict[str, pd.Series | pd.Categorical] = {}
    for name in frames[0].columns:
        columns = [data[name] for data in frames]
        if all(map(is_coded, columns)):
            made[name] = union_categoricals(columns)
        else:
            plain = [column.astype("str") if is_coded(column) else column for column in columns]
            made[name] = pd.concat(plain, ignore_index=True)
    return pd.DataFrame(made)


def write(path: Path, data: pd.DataFrame, *, append: bool) -> None:
    """Write the data to a Parquet file, or add a group of rows to the file.

    The file says of categorical columns that they are texts, so that readers return texts.
    """
    import fastparquet
    from fastparquet import writer

    if append:
        fastparquet.write(str(path), data, append=True, compression="SNAPPY")
        return
    about = writer.make_metadata(plain_texts(data.iloc[:0]), has_nulls=True)
    writer.write_simple(str(path), data, about, compression="SNAPPY", stats="auto")


def read_coded(path: Path) -> pd.DataFrame:
    """Return the rows of a Parquet file. A column is categorical if it is stored as codes."""
    import fastparquet

    with path.open("rb") as file:  # fastparquet does not close files that it opens.
        table = fastparquet.ParquetFile(file)
        coded = [
            column.meta_data.path_in_schema[0]
            for column in (table.row_groups[0].columns if len(table.row_groups) == 1 else ())
            if column.meta_data.dictionary_page_offset is not None
        ]
        return table.to_pandas(categories=coded or None)


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
