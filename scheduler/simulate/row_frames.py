"""Large tables stored as columns. A column of texts is stored as codes, which are indexes into a list of
distinct texts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any, Protocol

from schedbed.scheduler.core.rows import AttemptRow, DecisionRow, make_row
from schedbed.scheduler.history import COLUMNS

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, slots=True)
class Text:
    """Texts as codes of `texts`, a list or a pandas index, which is faster for several columns."""

    codes: Any
    texts: Any

    def __iter__(self) -> Iterator[str]:
        return map(self.texts.__getitem__, self.codes.tolist())


Column = Any
"""An array, a list of values, or a Text."""


def count_of(columns: dict[str, Column]) -> int:
    column = next(iter(columns.values()))
    return len(column.codes if isinstance(column, Text) else column)


def last_of(columns: dict[str, Column]) -> dict[str, Column]:
    """Return the columns of the last row only."""
    return {
        name: Text(column.codes[-1:], column.texts) if isinstance(column, Text) else column[-1:]
        for name, column in columns.items()
    }


class RowRanges(Protocol):
    """Rows of a table that can be made as columns, one range of rows at a time and in any order."""

    def __len__(self) -> int:
        """Return the number of rows."""
        ...

    def between(self, low: int, high: int) -> Iterator[dict[str, Column]]:
        """Yield rows [low, high) in batches."""
        ...


def put_ranges(rows: Any, table: str, ranges: RowRanges) -> None:
    """Write rows; a receiver with `ranges` gets all at once, and may make them in several processes."""
    if hasattr(rows, "ranges"):
        rows.ranges(table, ranges)
        return
    for data in ranges.between(0, len(ranges)):
        put_columns(rows, table, data)


def are_shared(rows: Any, count: int) -> bool:
    """Return whether the receiver makes `count` rows in several processes."""
    return hasattr(rows, "shares") and rows.shares(count)


def put_columns(rows: Any, table: str, data: dict[str, Column]) -> None:
    """Write columns to a receiver: as they are (`takes_columns`), a DataFrame (`columns`), or row by row."""
    if getattr(rows, "takes_columns", False):
        rows.pass_columns(table, data)
        return
    if hasattr(rows, "columns"):
        rows.columns(table, as_frame(table, data))
        return
    take = getattr(rows, table[:-1])
    for row in as_rows(table, data):
        take(row)


def as_frame(table: str, columns: dict[str, Column]) -> pd.DataFrame:
    """Return columns as a DataFrame in the table's order, categorical for `Text`."""
    import pandas as pd

    return pd.DataFrame({name: _series(columns[name]) for name in COLUMNS[table]}, copy=False)


def _series(column: Column) -> Any:
    import pandas as pd

    if isinstance(column, Text):
        codes: Any = column.codes
        texts: Any = column.texts
        if not isinstance(texts, pd.Index):
            texts = pd.Index(list(texts), dtype="str")
        if not texts.is_unique:
            places, texts = texts.factorize()
            codes = places[codes]
        return pd.Categorical.from_codes(codes, dtype=pd.CategoricalDtype(texts), validate=False)
    return pd.Series(column, dtype="str") if isinstance(column, list) else column


def as_rows(table: str, columns: dict[str, Column]) -> Iterator[tuple[Any, ...]]:
    """Yield the rows given as columns, each as an object of the table's row type."""
    kind = {"decisions": DecisionRow, "attempts": AttemptRow}.get(table, tuple)
    values = [_values(name, columns[name]) for name in COLUMNS[table]]
    rows = zip(*values, strict=True)
    while batch := list(islice(rows, 4096)):
        for row in batch:
            yield make_row(kind, row)


def _values(name: str, column: Column) -> Any:
    if isinstance(column, Text | list):
        return column
    values = column.tolist()
    if name in ("shuffle_end", "sort_end", "removed"):
        return [None if value != value else value for value in values]
    return values
