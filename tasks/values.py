"""Value classes for objects made by the million. Only the type checker forbids changes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar, dataclass_transform

T = TypeVar("T")


@dataclass_transform(frozen_default=True)
def value(cls: type[T]) -> type[T]:
    """Return a decorator that makes a dataclass with slots and a hash. A class that is frozen at run time takes
    several times as long to make."""
    return dataclass(slots=True, unsafe_hash=True)(cls)
