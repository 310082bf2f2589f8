"""The policy parameter that brings in what the profile store knows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from schedbed.scheduler.profiles import ProfileStore, default_store
from schedbed.scheduler.registry.parameters import Parameter

Parse = Callable[[Mapping[str, Any]], Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfilesParameter(Parameter):
    """Profiles that have an `at_scale` are of the scenario before its `scale` is applied, as durations are."""

    def value(self, raw: object, scale: float) -> dict[str, dict[str, Any]]:
        """As in `Parameter`."""
        return {
            kind: {name: _at_scale(profile, scale) for name, profile in named.items()}
            for kind, named in self.read(raw).items()
        }


def with_store(parameters: Iterable[Parameter], given: Mapping[str, Any], store: str) -> dict[str, Any]:
    """What is given, where `store` (store, none or a path, there or not yet) stands for the store that is not named."""
    if store not in ("store", "none") and not Path(store).is_file():
        store = "none"
    asked = [each.name for each in parameters if isinstance(each, ProfilesParameter)]
    return {**given, **{name: store for name in asked if given.get(name, "store") == "store"}}


def _at_scale(profile: Any, scale: float) -> Any:
    return profile.at_scale(scale) if hasattr(profile, "at_scale") else profile


def profiles(kind: str, *others: str, parse: Parse = dict) -> Parameter:
    """What is known of jobs: profiles of that kind by name, from the store or written down in YAML.

    The value is {kind: {name: what `parse` makes of it}} with the raw profiles of `others`, if any, beside it.
    """

    def read(raw: object) -> dict[str, dict[str, Any]]:
        if raw is None or raw is False or raw == "none":
            return {}
        if isinstance(raw, Mapping):
            return {kind: _parsed(raw, parse)}
        if not isinstance(raw, str):
            raise ValueError(f"{raw!r} is not store, none, the path of a profile store, or a mapping (YAML)")
        if raw != "store" and not Path(raw).is_file():
            raise ValueError(f"there is no profile store {raw}")
        store = ProfileStore(default_store() if raw == "store" else Path(raw))
        return {kind: _parsed(store.load_all(kind), parse)} | {name: store.load_all(name) for name in others}

    return ProfilesParameter(
        name="profiles",
        default="store",
        unit="",
        doc="the scenario's profile store, else the user's (store), the path of one, none, or YAML {job name: values}",
        read=read,
        argument="profiles",
    )


def _parsed(raw: Mapping[Any, Any], parse: Parse) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, values in raw.items():
        if not isinstance(values, Mapping):
            raise ValueError(f"{name}: {values!r} is not a mapping of values")
        try:
            found[str(name)] = parse(values)
        except ValueError as error:
            raise ValueError(f"{name}: {error}") from None
    return found
