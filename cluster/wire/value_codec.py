"""Conversion of Python values to JSON and back, by declared types. Nothing is unpickled.

Received values are checked field by field. A dataclass becomes the list of its fields, in a union of
dataclasses with the class name; an enumeration member becomes its value. Values of type `Any` are JSON
already; a tuple in them arrives as a list.
"""

from __future__ import annotations

import inspect
import types
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from enum import Enum
from functools import cache
from operator import attrgetter
from typing import Any, Union, get_args, get_origin, get_type_hints

from schedbed.cluster.masters import calls_of

Convert = Callable[[Any], Any]


class WrongValue(Exception):
    """A received value does not have the type that the remote call declares."""


@dataclass(frozen=True, slots=True)
class Codec:
    """Converts values of one type to JSON and back. `pack` None: unchanged. `take` raises WrongValue."""

    pack: Convert | None
    take: Convert


def packed(codec: Codec, value: Any) -> Any:
    return value if codec.pack is None else codec.pack(value)


def _same(value: Any) -> Any:
    return value


def _expected(what: str, value: Any) -> WrongValue:
    return WrongValue(f"expected {what}, not {str(value)[:80]!r}")


def _scalar(kind: type) -> Codec:
    def take(value: Any) -> Any:
        if type(value) is not kind:
            raise _expected(kind.__name__, value)
        return value

    return Codec(None, take)


def _take_float(value: Any) -> float:
    if type(value) is float:
        return value
    if type(value) is int:
        return float(value)
    raise _expected("float", value)


_PLAIN: Mapping[Any, Codec] = {
    Any: Codec(None, _same),
    str: _scalar(str),
    int: _scalar(int),
    bool: _scalar(bool),
    float: Codec(None, _take_float),
    type(None): _scalar(type(None)),
}


def _enumeration(kind: type[Enum]) -> Codec:
    members: dict[Any, Enum] = {member.value: member for member in kind}

    def take(value: Any) -> Enum:
        member = members.get(value) if isinstance(value, str | int) else None
        if member is None:
            raise _expected(kind.__name__, value)
        return member

    return Codec(attrgetter("value"), take)


def _many(item: Codec, make: Callable[[list[Any]], Any]) -> Codec:
    pack, take_item = item.pack, item.take

    def take(value: Any) -> Any:
        if type(value) is not list:
            raise _expected("a list", value)
        return make([take_item(each) for each in value])

    return Codec(list if pack is None else lambda value: [pack(each) for each in value], take)


def _fixed(items: Sequence[Codec]) -> Codec:
    kinds = {id(codec): kind for kind, codec in _PLAIN.items() if kind in (str, int, bool, float)}
    count = len(items)
    packs = [(place, codec.pack) for place, codec in enumerate(items) if codec.pack is not None]
    # A value that has the type of a scalar needs no call, which most values are.
    takes = [(place, kinds.get(id(codec)), codec.take) for place, codec in enumerate(items)]

    def pack(value: Any) -> list[Any]:
        made = list(value)
        if len(made) != count:
            raise ValueError(f"{len(made)} values, expected {count}")
        for place, convert in packs:
            made[place] = convert(made[place])
        return made

    def take(value: Any) -> tuple[Any, ...]:
        if type(value) is not list or len(value) != count:
            raise _expected(f"{count} values", value)
        taken = value.copy()
        for place, kind, convert in takes:
            if type(taken[place]) is not kind:
                taken[place] = convert(taken[place])
        return tuple(taken)

    return Codec(None if all(codec.pack is None for codec in items) else pack, take)


def _mapping(item: Codec) -> Codec:
    pack, take_item = item.pack, item.take

    def take(value: Any) -> dict[str, Any]:
        if type(value) is not dict:
            raise _expected("an object", value)
        return {key: take_item(each) for key, each in value.items()}

    if pack is None:
        return Codec(dict, take)
    return Codec(lambda value: {key: pack(each) for key, each in value.items()}, take)


def _getter(names: Sequence[str]) -> Callable[[Any], tuple[Any, ...]]:
    if len(names) > 1:
        return attrgetter(*names)
    each = [attrgetter(name) for name in names]
    return lambda value: tuple([get(value) for get in each])


def _record(kind: type[Any]) -> Codec:
    hints = get_type_hints(kind)
    names = [field.name for field in fields(kind)]
    inner = _fixed([codec_of(hints[name]) for name in names])
    get = _getter(names)
    pack_inner, take_inner = inner.pack, inner.take
    by_name = any(field.kw_only for field in fields(kind))

    def take(value: Any) -> Any:
        values = take_inner(value)
        return kind(**dict(zip(names, values, strict=True))) if by_name else kind(*values)

    return Codec(get if pack_inner is None else lambda value: pack_inner(get(value)), take)


def _one_of(kinds: Sequence[Any]) -> Codec:
    """Return the codec of a type and None, or of dataclasses, sent with the class name. Raises TypeError."""
    others = [kind for kind in kinds if kind is not type(None)]
    if len(others) == 1:
        one = codec_of(others[0])
        pack = one.pack
        return Codec(
            None if pack is None else lambda value: None if value is None else pack(value),
            lambda value: None if value is None else one.take(value),
        )
    if len(others) != len(kinds) or not all(is_dataclass(kind) for kind in others):
        raise TypeError(f"no codec for one of {kinds}")
    by_name = {kind.__name__: codec_of(kind) for kind in others}

    def take(value: Any) -> Any:
        if (
            type(value) is not list
            or len(value) != 2
            or not isinstance(value[0], str)
            or value[0] not in by_name
        ):
            raise _expected(f"one of {', '.join(by_name)}", value)
        return by_name[value[0]].take(value[1])

    def tagged(value: Any) -> list[Any]:
        name = type(value).__name__
        return [name, packed(by_name[name], value)]

    return Codec(tagged, take)


@cache
def codec_of(kind: Any) -> Codec:
    """Return the codec of a type annotation. Raises TypeError for a type that cannot be sent."""
    if kind in _PLAIN:
        return _PLAIN[kind]
    origin, arguments = get_origin(kind), get_args(kind)
    if origin in (Union, types.UnionType):
        return _one_of(arguments)
    if origin is tuple and arguments[1:] != (Ellipsis,):
        return _fixed([codec_of(each) for each in arguments])
    if origin is tuple:
        return _many(codec_of(arguments[0]), tuple)
    if origin in (list, Sequence):
        return _many(codec_of(arguments[0]), _same)
    if origin in (dict, Mapping) and arguments[0] is str:
        return _mapping(codec_of(arguments[1]))
    if isinstance(kind, type) and issubclass(kind, Enum):
        return _enumeration(kind)
    if is_dataclass(kind) and isinstance(kind, type):
        return _record(kind)
    raise TypeError(f"no codec for {kind}")


# Conversion of remote calls to JSON and back, according to the types of their arguments and results.


@dataclass(frozen=True, slots=True)
class CallCodec:
    """The codecs of a remote method: of (name, codec) arguments in order, and of its result."""

    arguments: tuple[tuple[str, Codec], ...]
    result: Codec

    def pack(self, args: Sequence[Any], named: Mapping[str, Any]) -> dict[str, Any]:
        """Return a call's arguments by name as JSON."""
        given = {
            name: packed(codec, value) for (name, codec), value in zip(self.arguments, args, strict=False)
        }
        for name, codec in self.arguments if named else ():
            if name in named:
                given[name] = packed(codec, named[name])
        return given

    def take(self, given: Any) -> dict[str, Any]:
        """Return a call's arguments by name. Raises WrongValue for an unknown one or a wrong type."""
        if type(given) is not dict:
            raise WrongValue("expected the arguments by name")
        taken = {name: codec.take(given[name]) for name, codec in self.arguments if name in given}
        if len(taken) != len(given):
            raise WrongValue(f"no such arguments: {', '.join(sorted(set(given) - set(taken)))}")
        return taken


@cache
def codecs_of(door: type[Any]) -> Mapping[str, CallCodec]:
    """Return the codecs of a door's methods by name."""
    return {name: _call(function) for name, function in calls_of(door).items()}


def _call(function: Any) -> CallCodec:
    hints = get_type_hints(function)
    names = [name for name in inspect.signature(function).parameters if name != "self"]
    return CallCodec(tuple((name, codec_of(hints[name])) for name in names), codec_of(hints["return"]))
