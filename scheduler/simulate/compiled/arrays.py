"""Typed numpy arrays for the compiled loop: tables of records, grids, and arrays of numbers.

For the type checker, annotations of a `Record` declare a table's columns, so that `table[index]` works like
an object in plain and compiled Python.
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
    """A row of a table: annotations are columns of `f8` (float), `i8`, `i4`, `i1` (integers), and `Pair`."""


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
    hints = get_type_hints(kind, include_extras=True)
    return np.dtype([(name, *hint.__metadata__) for name, hint in hints.items()], align=True)


def records(count: int, kind: type[R]) -> Table[R]:
    """Return a table of zeros, with at least one row."""
    return cast("Table[R]", np.zeros(max(1, count), dtype_of(kind)).view(np.recarray))


def longer(array: Any, count: int) -> Any:
    """Return a copy of the array with `count` more entries, which are zero. Without any, return the array itself."""
    if not count:
        return array
    made = np.zeros((len(array) + count, *array.shape[1:]), array.dtype)
    made[: len(array)] = array
    return made.view(np.recarray) if isinstance(array, np.recarray) else made


def record_grid(rows: int, columns: int, kind: type[R]) -> TableGrid[R]:
    return cast("TableGrid[R]", np.zeros((rows, columns), dtype_of(kind)).view(np.recarray))


def record(kind: type[R]) -> R:
    """Return a record of zeros that compiled code can change."""
    return records(1, kind)[0]
