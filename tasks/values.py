"""Value classes of which a run creates millions of objects, and tuples in which tasks share such objects."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import repeat
from operator import is_
from typing import TypeVar, dataclass_transform

T = TypeVar("T")
U = TypeVar("U")


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


def made_once(make: Callable[[T], U], items: Sequence[T]) -> tuple[U, ...]:
    """Return the result of `make` for each item. For items that are the same object, `make` is called once, and
    they share its result.
    """
    if are_one(items):
        return (make(items[0]),) * len(items)
    keys = list(map(id, items))
    made = {key: make(item) for key, item in dict(zip(keys, items, strict=True)).items()}
    return tuple([made[key] for key in keys])
