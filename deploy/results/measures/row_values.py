"""The rows of tables as dictionaries of plain values."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd


def texts_of(column: pd.Series) -> list[Any]:
    """Return a column of texts as a list. To iterate over the column takes ten times as long."""
    return column.to_numpy(object).tolist()


def row_values(data: pd.DataFrame) -> Iterator[dict[str, Any]]:
    """Yield rows as `to_dict("records")` does, but columns of texts in a tenth of the time."""
    columns = [texts_of(column) if column.dtype == "str" else column.tolist() for _, column in data.items()]
    names = [str(name) for name in data.columns]
    for row in zip(*columns, strict=True):
        yield dict(zip(names, row, strict=True))


# The rows of tables as texts of JSON, made column by column, which is faster than to encode each row.

MISSING = ""
"""In place of the JSON text of a missing value."""

to_json = json.JSONEncoder(separators=(",", ":"), allow_nan=False, ensure_ascii=False).encode


def value_texts(column: pd.Series) -> list[str]:
    """Return each value's JSON text, `MISSING` for NaN or None. Raises ValueError for an infinite number."""
    if column.dtype.kind in "iu" and not column.hasnans:
        return list(map(str, column.tolist()))
    if column.dtype.kind == "f":
        return [repr(value) if math.isfinite(value) else _not_finite(value) for value in column.tolist()]
    values = texts_of(column.astype(object).where(column.notna(), None))
    known = {value: MISSING if value is None else to_json(value) for value in set(values)}
    return list(map(known.__getitem__, values))


def _not_finite(value: float) -> str:
    return MISSING if value != value else to_json(value)


def object_texts(members: Mapping[str, Sequence[str]]) -> list[str]:
    """Return an object's JSON text for each row, from those of its members' values, without `MISSING` ones."""

    def named(name: str, values: Iterable[str]) -> list[str]:
        label = f"{to_json(name)}:"

        @cache
        def member(value: str) -> str:
            return f"{label}{value}," if value else MISSING

        return list(map(member, values))

    rows = zip(*(named(name, values) for name, values in members.items()), strict=True)
    return ["{" + "".join(row)[:-1] + "}" for row in rows]
