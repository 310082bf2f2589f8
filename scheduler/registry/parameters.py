"""Parameters of policies: their names, default values and units, and functions that parse their values."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from math import inf
from typing import Any

from schedbed.tasks.errors import BadInput
from schedbed.tasks.units import parse_duration, parse_rate, parse_size

Reader = Callable[[object], Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyParameter:
    """A parameter of a policy that a user can set in a SPEC (a text such as `delay:node_wait=5s`).

    `default` is the default value, written as in a SPEC. `read` parses a value, and raises ValueError with a
    message that lists the allowed values. If `duration` is true, the value is a time, which is multiplied by
    the scenario's scale. `argument` is the name of the constructor's argument.
    """

    name: str
    default: str
    unit: str
    doc: str
    read: Reader
    argument: str = ""
    duration: bool = False

    def value(self, raw: object, scale: float) -> Any:
        """Return the constructor's argument. Durations are multiplied by the scenario's `scale`."""
        value = self.read(raw)
        return value * scale if self.duration and value is not None else value


def duration(name: str, default: str, doc: str) -> PolicyParameter:
    """Return a parameter of seconds. With the default `off`, `off` becomes None."""
    read = _maybe_duration if default == "off" else parse_duration
    return PolicyParameter(
        name=name, default=default, unit="s", doc=doc, read=read, argument=f"{name}_s", duration=True
    )


def one_of(*options: str, any_case: bool = False) -> Reader:
    """Return a function that accepts these options only, with `any_case` also in capitals. It raises ValueError."""

    def read(raw: object) -> str:
        word = raw.lower() if any_case and isinstance(raw, str) else raw
        if word not in options:
            raise ValueError(f"{raw!r} is not one of {', '.join(options)}")
        return str(word)

    return read


def choice(name: str, options: tuple[str, ...], doc: str) -> PolicyParameter:
    """Return a parameter whose value is one of the `options`. The first option is the default."""
    return PolicyParameter(
        name=name, default=options[0], unit="", doc=doc, read=one_of(*options), argument=name
    )


def slot_count(raw: object) -> int:
    """Parse a number of slots. Raises ValueError for anything but a whole number of 0 or more."""
    if isinstance(raw, bool) or not isinstance(raw, int) or raw < 0:
        raise ValueError(f"{raw!r} is not a number of slots (a whole number, 0 or more)")
    return raw


def count(name: str, default: str, doc: str, unit: str = "", *, least: int = 0) -> PolicyParameter:
    """Return a parameter that is a whole number of at least `least`."""

    def read(raw: object) -> int:
        number = int(raw) if isinstance(raw, str) and raw.isdecimal() and len(raw) < 10 else raw
        if isinstance(number, bool) or not isinstance(number, int) or not least <= number < 10**9:
            raise ValueError(f"{raw!r} is not a whole number, {least} or more")
        return number

    return PolicyParameter(name=name, default=default, unit=unit, doc=doc, read=read, argument=name)


def maybe_count(name: str, doc: str) -> PolicyParameter:
    """Return a parameter whose value is a whole number above 0, or `off` (None), which is the default."""
    plain = count(name, "off", doc, least=1)

    def read(raw: object) -> int | None:
        return None if raw is None or raw is False or raw == "off" else plain.read(raw)

    return replace(plain, read=read)


def count_or_all(name: str, default: str, doc: str) -> PolicyParameter:
    """Return a parameter whose value is a whole number above 0, or `all` (infinity)."""
    plain = count(name, default, doc, least=1)

    def read(raw: object) -> float:
        return inf if raw == "all" else plain.read(raw)

    return replace(plain, read=read)


def maybe_rate(name: str, doc: str) -> PolicyParameter:
    """Return a parameter whose value is a rate above 0 in bytes/s, or `auto` (None), which is the default."""

    def read(raw: object) -> float | None:
        rate = None if raw is None or raw == "auto" else parse_rate(raw)
        if rate == 0:
            raise ValueError(f"{raw!r} is not above 0")
        return rate

    return PolicyParameter(
        name=name,
        default="auto",
        unit="B/s",
        doc=doc,
        read=read,
        argument=f"{name.removesuffix('_rate')}_bps",
    )


def maybe_share(name: str, default: str, doc: str) -> PolicyParameter:
    """Return a parameter whose value is a share from 0 to 1, or `auto` (None)."""

    def read(raw: object) -> float | None:
        return None if raw == "auto" else share(raw)

    return PolicyParameter(name=name, default=default, unit="", doc=doc, read=read, argument="share")


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfilesParameter(PolicyParameter):
    """A parameter whose value is a set of profiles (values measured in earlier runs), from a profile store.

    If profiles have a method `at_scale`, the store contains them for scale 1, and the method converts them to
    the scenario's scale.
    """

    def value(self, raw: object, scale: float) -> dict[str, dict[str, Any]]:
        """Implement `PolicyParameter.value`: {kind: {name: profile}}, with times multiplied by `scale`."""
        return {
            kind: {name: _at_scale(profile, scale) for name, profile in named.items()}
            for kind, named in self.read(raw).items()
        }


def profiles(kind: str, *others: str, parse: Callable[[Mapping[str, Any]], Any] = dict) -> PolicyParameter:
    """Return the parameter `profiles`, {kind: {name: profile}}, from a store or YAML.

    `parse` converts profiles of `kind`. From a store, those of `others` come too, unconverted.
    """

    def read(raw: object) -> dict[str, dict[str, Any]]:
        if raw is None or raw is False or raw == "none":
            return {}
        if isinstance(raw, Mapping):
            return {kind: _parsed(raw, parse)}
        if isinstance(raw, str):
            raise ValueError(f"there is no profile store {raw}")
        load_all = getattr(raw, "load_all", None)
        if load_all is None:
            raise ValueError(f"{raw!r} is not store, none, the path of a profile store, or a mapping (YAML)")
        return {kind: _parsed(load_all(kind), parse)} | {name: load_all(name) for name in others}

    return ProfilesParameter(
        name="profiles",
        default="store",
        unit="",
        doc="measurements of earlier runs: the scenario's file, or else your own (store), the path "
        "of a file, none, or {job name: values} in YAML",
        read=read,
        argument="profiles",
    )


def number(name: str, default: str, unit: str, doc: str, read: Reader) -> PolicyParameter:
    """Return a parameter that `read` parses, for example `positive` or `share`."""
    return PolicyParameter(name=name, default=default, unit=unit, doc=doc, read=read, argument=name)


def size(name: str, default: str, doc: str) -> PolicyParameter:
    """Return a parameter of bytes. With the default `off`, `off` becomes None."""

    def read(raw: object) -> int | None:
        off = default == "off" and (raw is None or raw is False or raw == "off")
        return None if off else parse_size(raw)

    return PolicyParameter(
        name=name, default=default, unit="bytes", doc=doc, read=read, argument=f"{name}_bytes"
    )


ScaledReader = Callable[[object, float], Any]
"""Parses a raw value; the second argument is the scenario's scale."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedSettings(PolicyParameter):
    """A parameter that maps names to settings, for YAML only.

    `parse` returns the settings by name; its second argument is the scenario's scale, for settings that are times.
    """

    parse: ScaledReader

    def value(self, raw: object, scale: float) -> Any:
        """Implement `PolicyParameter.value`."""
        return self.parse(raw, scale)


def by_name(
    name: str,
    what: str,
    doc: str,
    example: str,
    readers: Mapping[str, Reader],
    make: Callable[..., Any],
    check: Callable[[dict[str, Any]], None] | None = None,
    durations: Sequence[str] = (),
    nests: bool = False,
) -> NamedSettings:
    """Return a parameter that maps names to settings, for YAML only. `what` a name denotes is for messages.

    `readers` parse settings by key, and `make` builds one name's object. `check` raises ValueError if they
    cannot be combined. `durations` are the keys of settings that are times. With `nests`, the settings may have the
    parameter's name as a key, whose value maps names to settings again.
    """

    def parse(raw: object, scale: float) -> dict[str, Any]:
        readers_here = {**readers, name: lambda inner: parse(inner, scale)} if nests else readers
        if raw == "{}":
            return {}
        if not isinstance(raw, Mapping):
            raise ValueError(f"{raw!r} is not a mapping such as {example} (YAML only)")
        made: dict[str, Any] = {}
        for key, given in raw.items():
            made[str(key)] = _object(f"{what} {key}", given, readers_here, make, durations, scale)
        if check is not None:
            check(made)
        return made

    return _yaml_only(name, "{}", doc, parse)


def group(
    name: str,
    doc: str,
    readers: Mapping[str, Reader],
    make: Callable[..., Any],
    durations: Sequence[str] = (),
) -> NamedSettings:
    """Return a parameter with settings of its own, for YAML only, or `off` (None), its default. `on` is {}."""

    def parse(raw: object, scale: float) -> Any:
        if raw is None or raw is False or raw == "off":
            return None
        given = {} if raw is True or raw == "on" else raw
        return _object(name, given, readers, make, durations, scale)

    return _yaml_only(name, "off", doc, parse)


def _yaml_only(name: str, default: str, doc: str, parse: ScaledReader) -> NamedSettings:
    return NamedSettings(
        name=name,
        default=default,
        unit="",
        doc=doc,
        read=lambda raw: parse(raw, 1.0),
        argument=name,
        parse=parse,
    )


def _object(
    where: str,
    raw: object,
    readers: Mapping[str, Reader],
    make: Callable[..., Any],
    durations: Sequence[str],
    scale: float,
) -> Any:
    values = _settings(where, raw, readers)
    return _made(where, values | {each: values[each] * scale for each in durations if each in values}, make)


def _settings(where: str, raw: object, readers: Mapping[str, Reader]) -> dict[str, Any]:
    if not isinstance(raw, Mapping):
        raise ValueError(f"{where}: {raw!r} is not a mapping of {', '.join(readers)}")
    values: dict[str, Any] = {}
    for key, value in raw.items():
        if key not in readers:
            raise ValueError(f"{where}: {key!r} is unknown{hint(str(key), readers)}")
        try:
            values[key] = readers[key](value)
        except ValueError as error:
            raise ValueError(f"{where}: {key}: {error}") from None
    return values


def _made(where: str, values: Mapping[str, Any], make: Callable[..., Any]) -> Any:
    try:
        return make(**values)
    except ValueError as error:
        raise ValueError(f"{where}: {error}") from None


def _number_that(fits: Callable[[float], bool], what: str) -> Callable[[object], float]:
    """Return a function that parses a number that `fits`. It raises ValueError for other values."""

    def read(raw: object) -> float:
        value = _float(raw)
        if value is None or not fits(value):
            raise ValueError(f"{raw!r} is not {what}")
        return value

    return read


percent = _number_that(lambda value: 0 < value <= 100, "a percentage (above 0, at most 100)")
percentile = _number_that(lambda value: 0 <= value <= 100, "a percentile (0 to 100)")
share = _number_that(lambda value: 0 <= value <= 1, "a share (0 to 1)")
positive = _number_that(lambda value: 0 < value < 1e9, "a number above 0")
multiple = _number_that(lambda value: 0 <= value < 1e9, "a number of 0 or more")


def or_minus_one(read: Reader, without: Any = -1.0) -> Reader:
    """Return a function that reads -1, which stands for no limit, as `without`, and other values with `read`."""
    return lambda raw: without if str(raw) in ("-1", "-1.0") else read(raw)


def at_least_one(raw: object) -> int:
    """Parse a whole number of at least 1. Raises ValueError for other values."""
    value = _float(raw)
    if value is None or value != int(value) or not 1 <= value < 1e6:
        raise ValueError(f"{raw!r} is not a whole number above 0")
    return int(value)


def switch(raw: object) -> bool:
    """Parse a boolean from YAML or the texts on, off, true and false. Raises ValueError."""
    words = {"true": True, "on": True, "false": False, "off": False}
    if isinstance(raw, bool):
        return raw
    if isinstance(raw, str) and raw.lower() in words:
        return words[raw.lower()]
    raise ValueError(f"{raw!r} is not one of true, false")


def _at_scale(profile: Any, scale: float) -> Any:
    return profile.at_scale(scale) if hasattr(profile, "at_scale") else profile


def _parsed(raw: Mapping[Any, Any], parse: Callable[[Mapping[str, Any]], Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, values in raw.items():
        if not isinstance(values, Mapping):
            raise ValueError(f"{name}: {values!r} is not a mapping of values")
        try:
            found[str(name)] = parse(values)
        except ValueError as error:
            raise ValueError(f"{name}: {error}") from None
    return found


def _float(raw: object) -> float | None:
    """Return the number or text as a float, or None if it is not a finite number."""
    if isinstance(raw, str):
        try:
            raw = float(raw)
        except ValueError:
            return None
    if isinstance(raw, bool) or not isinstance(raw, int | float) or not abs(raw) < 1e300:
        return None
    return float(raw)


def _maybe_duration(raw: object) -> float | None:
    # YAML reads a bare `off` as False.
    return None if raw is None or raw is False or raw == "off" else parse_duration(raw)


def hint(word: str, known: Mapping[str, object] | list[str]) -> str:
    """Return the end of a message about an unknown word: similar and known ones."""
    names = list(known)
    close = get_close_matches(word, names, 1)
    if close:
        return f", did you mean {close[0]}? (there are: {', '.join(names)})"
    return f"; there are: {', '.join(names)}" if names else "; there are none"


def read_parameters(
    where: str, parameters: tuple[PolicyParameter, ...], given: Mapping[str, object], scale: float
) -> dict[str, Any]:
    """Return the constructor's arguments with defaults. Raises BadInput that begins with `where`."""
    known = {parameter.name: parameter for parameter in parameters}
    for name in given:
        if name not in known:
            raise BadInput(f"{where}: parameter {name!r} is unknown{hint(name, known)}")
    values: dict[str, Any] = {}
    for parameter in parameters:
        raw = given.get(parameter.name, parameter.default)
        try:
            values[parameter.argument] = parameter.value(raw, scale)
        except ValueError as error:
            raise BadInput(f"{where}: {parameter.name}: {error}") from None
    return values
