"""What the modules of a package declare: an extension is one file there, and no list names it."""

from __future__ import annotations

import pkgutil
from collections.abc import Iterable
from importlib import import_module
from pathlib import Path
from typing import TypeVar

Declared = TypeVar("Declared")


def names_in(folder: Path) -> tuple[str, ...]:
    """Return the names of a folder's modules in the order of the alphabet, without importing any."""
    return tuple(sorted(found.name for found in pkgutil.iter_modules([str(folder)]) if not found.ispkg))


def declared(package: str, attribute: str, kind: type[Declared]) -> list[Declared]:
    """Import all modules of a package; return what they have as `attribute`, in the order of their names.

    A module without the attribute declares nothing. Raises TypeError when the attribute is something else.
    """
    paths: Iterable[str] = import_module(package).__path__
    found: list[Declared] = []
    for name in (name for path in paths for name in names_in(Path(path))):
        value = getattr(import_module(f"{package}.{name}"), attribute, None)
        if value is not None and not isinstance(value, kind):
            raise TypeError(f"{package}.{name}.{attribute} is no {kind.__name__}")
        if value is not None:
            found.append(value)
    return found
