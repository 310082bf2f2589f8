"""Conversion of remote calls to JSON and back, according to the types of their arguments and results."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, get_type_hints

from schedbed.cluster.doors import calls_of
from schedbed.cluster.wire.value_codec import Codec, WrongValue, codec_of, packed


@dataclass(frozen=True, slots=True)
class CallCodec:
    """The codecs (JSON conversions) of one remote method: one for each argument, and one for its result.

    `arguments` are (name, codec) in the order of the method's signature.
    """

    arguments: tuple[tuple[str, Codec], ...]
    result: Codec

    def pack(self, args: Sequence[Any], named: Mapping[str, Any]) -> dict[str, Any]:
        """Return a dictionary from argument name to JSON value for a call.

        `args` are the positional and `named` the keyword arguments.
        """
        given = {
            name: packed(codec, value) for (name, codec), value in zip(self.arguments, args, strict=False)
        }
        for name, codec in self.arguments if named else ():
            if name in named:
                given[name] = packed(codec, named[name])
        return given

    def take(self, given: Any) -> dict[str, Any]:
        """Return a dictionary from argument name to value, converted from the JSON values in `given`.

        Raises WrongValue if an argument is unknown or has the wrong type.
        """
        if type(given) is not dict:
            raise WrongValue("expected the arguments by name")
        taken = {name: codec.take(given[name]) for name, codec in self.arguments if name in given}
        if len(taken) != len(given):
            raise WrongValue(f"no such arguments: {', '.join(sorted(set(given) - set(taken)))}")
        return taken


@cache
def codecs_of(door: type[Any]) -> Mapping[str, CallCodec]:
    """Return a dictionary from method name to codec, for the methods of a door.

    A door is a Protocol of remote calls.
    """
    return {name: _call(function) for name, function in calls_of(door).items()}


def _call(function: Any) -> CallCodec:
    hints = get_type_hints(function)
    names = [name for name in inspect.signature(function).parameters if name != "self"]
    return CallCodec(tuple((name, codec_of(hints[name])) for name in names), codec_of(hints["return"]))
