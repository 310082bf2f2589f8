"""Converts any object to text, cycles included, to compare the states of two programs."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from enum import Enum
from functools import partial
from random import Random
from types import FunctionType, MethodType
from typing import Any

PLAIN = (type(None), bool, int, float, str, bytes)


def described(state: Any) -> str:
    """Return a line for each object reachable from `state`, with its attributes.

    Objects are numbered in the order in which they are reached. Texts, numbers, tuples and dataclasses are
    shown by value, since the identity of equal values makes no difference.
    """
    numbers: dict[int, int] = {}
    waiting: list[Any] = []
    lines: list[str] = []

    def name(thing: Any) -> str:
        kind = type(thing)
        if kind in PLAIN or isinstance(thing, Enum | type | FunctionType):
            return repr(thing)
        if isinstance(thing, tuple):
            return f"({', '.join(map(name, thing))})"
        if is_dataclass(thing):
            fields_told = ", ".join(name(getattr(thing, each.name)) for each in fields(thing))
            return f"{kind.__name__}({fields_told})"
        if kind is MethodType:
            return f"{thing.__func__.__qualname__} of {name(thing.__self__)}"
        if id(thing) not in numbers:
            numbers[id(thing)] = len(numbers)
            waiting.append(thing)
        return f"#{numbers[id(thing)]}"

    lines.append(name(state))
    done = 0
    while done < len(waiting):
        lines.append(f"#{done} {_told(waiting[done], name)}")
        done += 1
    return "\n".join(lines)


def _told(thing: Any, name: Any) -> str:
    kind = type(thing).__name__
    if isinstance(thing, Random):
        return f"{kind} {hash(thing.getstate())}"
    if isinstance(thing, partial):
        return f"{kind} {name(thing.func)} {name(thing.args)}"
    if isinstance(thing, dict):
        entries = [f"{name(key)}: {name(each)}" for key, each in thing.items()]
        return f"{kind} {{{', '.join(entries)}}}"
    if isinstance(thing, set | frozenset):
        return f"{kind} {sorted(map(name, thing))}"
    if hasattr(thing, "__iter__") and not hasattr(thing, "__slots__"):
        return f"{kind} [{', '.join(map(name, thing))}]"
    slots = [slot for each in type(thing).__mro__ for slot in getattr(each, "__slots__", ())]
    held = {slot: getattr(thing, slot) for slot in slots if hasattr(thing, slot)}
    held |= getattr(thing, "__dict__", {})
    return f"{kind} {', '.join(f'{key}={name(each)}' for key, each in held.items())}"
