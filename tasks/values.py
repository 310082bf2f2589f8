"""A decorator for value classes with millions of objects in a run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar, dataclass_transform

T = TypeVar("T")


@dataclass_transform(frozen_default=True)
def value(cls: type[T]) -> type[T]:
    """Return the class as a dataclass with slots and a hash.

    The type checker forbids changes of fields, but the class is not frozen at run time, since frozen objects
    take several times as long to create.
    """
    return dataclass(slots=True, unsafe_hash=True)(cls)
