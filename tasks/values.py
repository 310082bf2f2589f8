"""Value classes for what is made by the million: nobody may change one, but only the type checker enforces it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar, dataclass_transform

T = TypeVar("T")


@dataclass_transform(frozen_default=True)
def value(cls: type[T]) -> type[T]:
    """Return a dataclass with slots and a hash.

    One that is frozen at run time too takes several times as long to make.
    """
    return dataclass(slots=True, unsafe_hash=True)(cls)
