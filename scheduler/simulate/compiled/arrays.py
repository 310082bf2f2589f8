"""Typed numpy arrays for the compiled loop: tables of records, grids, and one-dimensional arrays of numbers.

The classes here exist for the type checker: a class derived from `Record` declares the columns of a table by
its annotations. The code can then read and write `table[index]` like an object of that class, both in plain
Python and in code compiled by numba.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, Protocol, TypeVar, cast, get_type_hints, overload

import numpy as np
import numpy.typing as npt

f8 = Annotated[float, "f8"]
i8 = Annotated[int, "i8"]
i4 = Annotated[int, "i4"]
i1 = Annotated[int, "i1"]

Values = npt.NDArray[Any]
"""A column of a table or a slice of a line, as a numpy array."""


Arrays = dict[str, Any]
"""Arrays by the names of fields of a `State`."""


class Record:
    """A row of a table. Each annotation of a subclass declares a column by its name and type.

    The types are `f8` (a float), `i8`, `i4` and `i1` (integers of 8, 4 and 1 bytes), and `Pair` (two values).
    """


R = TypeVar("R", bound=Record)
C = TypeVar("C", bound=Record, covariant=True)
V = TypeVar("V", int, float)


class Line(Protocol[V]):
    """A one-dimensional array of numbers, read and written by index or slice."""

    @overload
    def __getitem__(self, place: int, /) -> V: ...
    @overload
    def __getitem__(self, place: slice | Values, /) -> Values: ...
    def __setitem__(self, place: int | slice, value: V | Values | list[V], /) -> None: ...
    def __len__(self) -> int: ...


class Grid(Protocol):
    """A two-dimensional array of whole numbers."""

    def __getitem__(self, place: tuple[int, int], /) -> int: ...
    def __setitem__(self, place: tuple[int, int], value: int, /) -> None: ...
    @property
    def shape(self) -> tuple[int, int]: ...


class Table(Protocol[C]):
    """A one-dimensional array of records: `table[index]` is a row, `table["name"]` is a column."""

    @overload
    def __getitem__(self, place: int, /) -> C: ...
    @overload
    def __getitem__(self, place: str | slice | Values, /) -> Values: ...
    def __setitem__(self, place: str | slice, value: npt.ArrayLike | Values, /) -> None: ...
    def __len__(self) -> int: ...
    def __iter__(self) -> Iterator[C]: ...


class TableGrid(Protocol[C]):
    """A two-dimensional array of records."""

    def __getitem__(self, place: tuple[int, int], /) -> C: ...
    @property
    def shape(self) -> tuple[int, int]: ...


Ints = Line[int]
Floats = Line[float]
Pair = Annotated[Line[int], "i8", 2]
"""A column of two whole numbers per row: for maps, and for reduces."""


def dtype_of(kind: type[Record]) -> np.dtype[Any]:
    """Return the numpy data type of a record class, with one field for each annotated column."""
    hints = get_type_hints(kind, include_extras=True)
    return np.dtype([(name, *hint.__metadata__) for name, hint in hints.items()], align=True)


def records(count: int, kind: type[R]) -> Table[R]:
    """Return a table of `count` rows of the record class `kind`, filled with zeros.

    The table has at least one row, even if `count` is 0.
    """
    return cast("Table[R]", np.zeros(max(1, count), dtype_of(kind)).view(np.recarray))


def longer(array: Any, count: int) -> Any:
    """Return a copy of the array with `count` more entries, which are zero. Without any, return the array itself."""
    if not count:
        return array
    made = np.zeros((len(array) + count, *array.shape[1:]), array.dtype)
    made[: len(array)] = array
    return made.view(np.recarray) if isinstance(array, np.recarray) else made


def record_grid(rows: int, columns: int, kind: type[R]) -> TableGrid[R]:
    """Return a two-dimensional array of `rows` by `columns` records, all zeros."""
    return cast("TableGrid[R]", np.zeros((rows, columns), dtype_of(kind)).view(np.recarray))


def record(kind: type[R]) -> R:
    """Return a single record of zeros that compiled code can change in place."""
    return records(1, kind)[0]
