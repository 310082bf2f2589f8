"""Functions that set which profile store a policy reads (the policy parameter `profiles`).

A profile store is a file with values measured in earlier runs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from schedbed.scheduler.profiles import ProfileStore, default_store
from schedbed.scheduler.registry.parameters import PolicyParameter, ProfilesParameter


def with_store(parameters: Iterable[PolicyParameter], given: Mapping[str, Any], store: str) -> dict[str, Any]:
    """Return the values `given` for a policy's parameters, with the profile store to read added.

    `store` is the word `store` (the user's own profile store), `none` or a path. A path without a file is
    replaced by `none`. Each of the `parameters` for profiles receives this value, unless `given` contains
    another value.
    """
    if store not in ("store", "none") and not Path(store).is_file():
        store = "none"
    asked = _asked(parameters)
    return {**given, **{name: store for name in asked if given.get(name, "store") == "store"}}


def with_opened_store(
    parameters: Iterable[PolicyParameter], given: Mapping[str, Any], store: str
) -> dict[str, Any]:
    """Return the values `given` for a policy's parameters, with an opened profile store added.

    `store` is the word `store` (the user's own profile store), `none` or a path. The values are those of
    `with_store`, except that a `ProfileStore` replaces each name or path of a store.
    """
    named = with_store(parameters, given, store)
    return {**named, **{name: _opened(named[name]) for name in _asked(parameters)}}


def _asked(parameters: Iterable[PolicyParameter]) -> list[str]:
    return [each.name for each in parameters if isinstance(each, ProfilesParameter)]


def _opened(raw: Any) -> Any:
    if raw == "store":
        return ProfileStore(default_store())
    return ProfileStore(Path(raw)) if isinstance(raw, str) and Path(raw).is_file() else raw
