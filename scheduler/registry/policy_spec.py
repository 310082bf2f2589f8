"""The syntax of a policy SPEC, as text and as YAML. This module does not know which policies exist."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from schedbed.tasks.errors import BadInput

_FILE = re.compile(r"(?P<name>.+\.py(?::[^:=]*)?)(?::(?P<rest>.*=.*))?", re.DOTALL)

Choice = tuple[str, dict[str, Any]]
"""A name with its parameters, whose values are not parsed yet."""


def is_policy_file(name: str) -> bool:
    """Return whether the name is the path of a Python file."""
    return name.endswith(".py") or ".py:" in name


@dataclass(frozen=True, slots=True, kw_only=True)
class ParsedSpec:
    """A policy SPEC after parsing: either the policy's name with its parameters, or the chosen implementation
    of each axis in `axes`.
    """

    name: str = ""
    parameters: dict[str, Any] = field(default_factory=dict)
    axes: dict[str, Choice] | None = None


def parse_spec(spec: object, axes: tuple[str, ...]) -> ParsedSpec:
    """Parse a SPEC: `name`, `name:key=value,...`, `axis=name:key=value+...,...`, or a mapping. Raises BadInput."""
    if isinstance(spec, str):
        return _parse_text(spec.strip(), axes)
    if isinstance(spec, Mapping) and spec and all(key in axes for key in spec):
        return ParsedSpec(axes={axis: _choice(axis, value) for axis, value in spec.items()})
    if isinstance(spec, Mapping) and len(spec) == 1:
        name, parameters = _choice("policy", spec)
        return ParsedSpec(name=name, parameters=parameters)
    raise BadInput(f"policy {spec!r}: expected a name, a mapping {{name: {{key: value}}}} or {_forms(axes)}")


def _forms(axes: tuple[str, ...]) -> str:
    return ", ".join(f"{axis}=..." for axis in axes)


def _parse_text(text: str, axes: tuple[str, ...]) -> ParsedSpec:
    if text.partition("=")[0].strip() in axes:
        return ParsedSpec(axes=_parse_axes(text, axes))
    match = _FILE.fullmatch(text)
    name, rest = (match["name"], match["rest"] or "") if match else _cut(text)
    if not name:
        raise BadInput(f"policy {text!r}: expected a name, name:key=value,... or {_forms(axes)}")
    return ParsedSpec(name=name, parameters=_pairs(text, rest, ","))


def _cut(text: str) -> tuple[str, str]:
    name, _, rest = text.partition(":")
    return name.strip(), rest


def _parse_axes(text: str, axes: tuple[str, ...]) -> dict[str, Choice]:
    chosen: dict[str, Choice] = {}
    for part in text.split(","):
        axis, equals, value = part.partition("=")
        axis = axis.strip()
        if not equals or axis not in axes:
            raise BadInput(f"policy {text!r}: {part.strip()!r} is not one of {_forms(axes)}")
        if axis in chosen:
            raise BadInput(f"policy {text!r}: {axis} has two owners, {chosen[axis][0]} and {value.strip()}")
        name, rest = _cut(value)
        chosen[axis] = (name, _pairs(text, rest, "+"))
    return chosen


def _pairs(text: str, rest: str, separator: str) -> dict[str, Any]:
    pairs: dict[str, Any] = {}
    for part in rest.split(separator) if rest.strip() else ():
        key, equals, value = (piece.strip() for piece in part.partition("="))
        if not (key and equals and value):
            raise BadInput(f"policy {text!r}: {part.strip()!r} is not key=value")
        if key in pairs:
            raise BadInput(f"policy {text!r}: {key} is given twice")
        pairs[key] = value
    return pairs


def _choice(where: str, raw: object) -> Choice:
    """Return name and parameters of `name:key=value+...` or a mapping with one key. Raises BadInput."""
    if isinstance(raw, str):
        name, rest = _cut(raw)
        return name, _pairs(raw, rest, "+")
    if isinstance(raw, Mapping) and len(raw) == 1:
        [(name, parameters)] = raw.items()
        if isinstance(name, str) and (parameters is None or isinstance(parameters, Mapping)):
            return name, {str(key): value for key, value in (parameters or {}).items()}
    raise BadInput(f"{where}: {raw!r} is not a name or {{name: {{key: value}}}}")
