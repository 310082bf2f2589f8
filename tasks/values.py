"""A decorator for value classes of which a run creates millions of objects."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar, dataclass_transform

T = TypeVar("T")


@dataclass_transform(frozen_default=True)
def value(cls: type[T]) -> type[T]:
    """Return the class as a dataclass with slots and a hash.

    The dataclass is not frozen at run time, which would make creation several times slower; only the type
    checker forbids changes.
    """
    return dataclass(slots=True, unsafe_hash=True)(cls)
