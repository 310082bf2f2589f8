"""Parameters that a job passes to its application: they are checked, parsed and scaled."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

from schedbed.deploy.scenario.check import Complaints, did_you_mean
from schedbed.deploy.scenario.yaml_file import KeyPath
from schedbed.tasks.appkit.app import RUNTIME_PARAMETERS, App, Parameter
from schedbed.tasks.units import parse_duration, parse_size

_EXPECTED = {bool: "true or false", int: "a whole number", float: "a number", str: "text"}


def resolve_params(
    app: App, given: Mapping[str, Any], scale: float, path: KeyPath, complaints: Complaints
) -> dict[str, Any]:
    """Return the parameters given in a job, checked against the declaration of the application `app`.

    Texts with units are parsed. Parameters declared as scaled, including default values, are multiplied by
    `scale`, the scenario's factor on durations and sizes. Errors are added to `complaints` with the place
    `path`.
    """
    declared = {p.name: p for p in (*app.parameters, *RUNTIME_PARAMETERS) if not p.derived}
    resolved: dict[str, Any] = {}
    for name, value in given.items():
        if name not in declared:
            message = f"unknown parameter of {app.name}, {did_you_mean(name, declared)}"
            complaints.add((*path, name), message)
            continue
        try:
            resolved[name] = _value(value, declared[name])
        except ValueError as error:
            complaints.add((*path, name), str(error))
    for name, parameter in declared.items():
        if parameter.required and name not in given:
            complaints.add(path, f"{app.name} needs the parameter {name}: {parameter.doc}")
        elif parameter.scaled:
            resolved[name] = max(1, round(resolved.get(name, parameter.default) * scale))
    return resolved


def _value(value: Any, parameter: Parameter) -> Any:
    if parameter.unit == "bytes":
        return parse_size(value)
    if parameter.unit == "s":
        return parse_duration(value)
    if parameter.unit == "regular expression":
        return _pattern(value)
    kind = type(parameter.default)
    expected = _EXPECTED.get(kind)
    accepted = (int, float) if kind is float else kind
    if expected and (not isinstance(value, accepted) or (isinstance(value, bool) and kind is not bool)):
        raise ValueError(f"{value!r} is not {expected}")
    if isinstance(value, int | float) and not parameter.least <= value <= parameter.most:
        bounds = f"{parameter.least:g} " + (
            f"to {parameter.most:g}" if parameter.most < math.inf else "or more"
        )
        raise ValueError(f"{value!r} is not a number of {bounds}")
    return value


def _pattern(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError(f"{value!r} is not a regular expression (a text)")
    try:
        re.compile(value.encode())
    except (re.error, OverflowError, RecursionError) as error:
        raise ValueError(f"{value!r} is not a regular expression: {error}") from None
    return value
