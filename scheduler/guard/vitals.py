"""Protection of Python's builtins and the module `time` against replacement by a user's file."""

from __future__ import annotations

import builtins
import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")
MODULES = (builtins, time)


def restoring_builtins(act: Callable[[], T]) -> tuple[T, list[str]]:
    """Call `act`, and restore functions of Python's builtins and of `time` that `act` replaced.

    Return the result of `act`, and the names of the replaced functions.
    """
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
