"""Functions that a whole process depends on: whether the import of a user's file has replaced them."""

from __future__ import annotations

import builtins
import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")
MODULES = (builtins, time)


def with_vitals_kept(act: Callable[[], T]) -> tuple[T, list[str]]:
    """Return what `act` returns, and the names of such functions that it has replaced; they are put back."""
    before = [dict(vars(module)) for module in MODULES]
    try:
        found = act()
    finally:
        changed = []
        for module, kept in zip(MODULES, before, strict=True):
            now = vars(module)
            for name, function in kept.items():
                if callable(function) and now.get(name) is not function:
                    changed.append(f"{module.__name__}.{name}")
                    now[name] = function
    return found, changed
