"""Detects that the import of a user's file replaced functions that the whole process depends on."""

from __future__ import annotations

import builtins
import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")
MODULES = (builtins, time)


def with_vitals_kept(act: Callable[[], T]) -> tuple[T, list[str]]:
    """Return the result of `act` and the names of the vital functions that it replaced. The functions are
    restored."""
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
