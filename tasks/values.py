"""A decorator for value classes of which a run creates millions of objects."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar, dataclass_transform

T = TypeVar("T")


@dataclass_transform(frozen_default=True)
def value(cls: type[T]) -> type[T]:
    """Return the class as a dataclass with slots and a hash.

    The type checker forbids assignments to fields. At run time the class is not frozen, since creating frozen
    objects takes several times as long.
    """
    return dataclass(slots=True, unsafe_hash=True)(cls)
