"""Value classes of which a run creates millions of objects, and tuples in which tasks share such objects."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import repeat
from operator import is_
from typing import TypeVar, dataclass_transform

T = TypeVar("T")


@dataclass_transform(frozen_default=True)
def value(cls: type[T]) -> type[T]:
    """Return the class as a dataclass with slots and a hash.

    The type checker forbids assignments to fields. At run time the class is not frozen, since creating frozen
    objects takes several times as long.
    """
    return dataclass(slots=True, unsafe_hash=True)(cls)


def are_one(items: Sequence[object]) -> bool:
    """Return whether all items are the same object. The result is False if there are none."""
    return len(items) > 0 and all(map(is_, items, repeat(items[0])))
