"""Data frames as JSON values, with the numbers of a column as one text. A policy's process sends them to its parent.

The parent trusts no process that runs a user's code: it accepts only columns of a known table and numbers of known
types, all of one length.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from typing import TYPE_CHECKING, Any

import numpy as np

from schedbed.scheduler.history import COLUMNS
from schedbed.scheduler.simulate.row_frames import Text, as_frame

if TYPE_CHECKING:
    import pandas as pd

NUMBERS = ("<f8", "<i8", "<i4", "<i2", "|i1", "|b1")
"""The types of numbers that are accepted, as numpy writes them."""


def pack(data: pd.DataFrame) -> dict[str, Any]:
    """Return the columns of a data frame as JSON values.

    A column of numbers becomes [type, text], a categorical column [type, text, texts], and any other column of
    texts a list of one list.
    """
    return {name: _pack_column(data[name]) for name in data.columns}


def _pack_column(column: pd.Series[Any]) -> list[Any]:
    if column.dtype == "category":
        return [*_pack_numbers(column.cat.codes.to_numpy()), column.cat.categories.tolist()]
    if column.dtype.kind in "fib":
        return _pack_numbers(column.to_numpy())
    return [column.tolist()]


def _pack_numbers(values: Any) -> list[str]:
    return [values.dtype.str, b64encode(values.tobytes()).decode("ascii")]


def unpack(table: str, columns: Any) -> pd.DataFrame:
    """Return the data frame that `pack` has made JSON values of. `table` is the table's name.

    Raises KeyError, TypeError or ValueError for anything that `pack` cannot have returned.
    """
    found = {name: _unpack_column(columns[name]) for name in COLUMNS[table]}
    data = as_frame(table, found)
    if len(found) != len(columns):
        raise ValueError(f"{table} has other columns")
    return data


def _unpack_column(column: Any) -> Any:
    match column:
        case [str(kind), str(text)]:
            return _numbers(kind, text)
        case [str(kind), str(text), [*texts]] if kind[1:2] == "i":
            codes = _numbers(kind, text)
            if len(codes) and not 0 <= codes.min() <= codes.max() < len(texts):
                raise ValueError("a text has no code")
            return Text(codes, _texts(texts))
        case [[*texts]]:
            return _texts(texts)
        case _:
            raise ValueError("no column")


def _numbers(kind: str, text: str) -> Any:
    if kind not in NUMBERS:
        raise ValueError(f"no numbers of the type {kind:.9}")
    return np.frombuffer(b64decode(text, validate=True), kind)


def _texts(texts: list[Any]) -> list[str]:
    if not all(isinstance(text, str) for text in texts):
        raise TypeError("a text is none")
    return texts
