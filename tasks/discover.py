"""Discovery of extensions: each module of a package declares a value, so a new module needs no registration."""

from __future__ import annotations

import pkgutil
from collections.abc import Iterable
from importlib import import_module
from pathlib import Path
from typing import TypeVar

Declared = TypeVar("Declared")


def names_in(folder: Path) -> tuple[str, ...]:
    """Return a folder's modules in alphabetical order, without importing them."""
    return tuple(sorted(found.name for found in pkgutil.iter_modules([str(folder)]) if not found.ispkg))


def declared(package: str, attribute: str, kind: type[Declared]) -> list[Declared]:
    """Return the values of `attribute` in all modules of a package that have it. Raises TypeError."""
    paths: Iterable[str] = import_module(package).__path__
    found: list[Declared] = []
    for name in (name for path in paths for name in names_in(Path(path))):
        value = getattr(import_module(f"{package}.{name}"), attribute, None)
        if value is not None and not isinstance(value, kind):
            raise TypeError(f"{package}.{name}.{attribute} is no {kind.__name__}")
        if value is not None:
            found.append(value)
    return found
