"""The public surface, which docs/stability.md promises: a line for each command, option, key, column and
signature.

    python -m tests.pages.surface             what differs from the recorded surface
    python -m tests.pages.surface --update    records the present surface, after an intended change

`surface.txt` holds the recorded lines. Help texts, descriptions and docstrings are not part of the surface.
"""

from __future__ import annotations

import inspect
import json
import sys
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

import typer.main
from typer.core import TyperGroup

import schedbed
from schedbed import policy
from schedbed.cluster.faults import KINDS
from schedbed.deploy.cli.main import app
from schedbed.deploy.scenario.json_schema import scenario_schema
from schedbed.deploy.service.client import Cluster, SubmittedJob
from schedbed.scheduler.history import COLUMNS
from schedbed.scheduler.registry.registry import AXES, POLICIES
from schedbed.tasks.appkit.app_catalogue import APPS
from schedbed.tasks.traces.formats import NAMES

KEPT = Path(__file__).with_suffix(".txt")
UPDATE = "python -m tests.pages.surface --update"
WORDS = {"description", "examples", "$schema"}


def surface() -> list[str]:
    """Return the lines of the present surface, sorted and without duplicates."""
    lines = [*_commands(typer.main.get_command(app), ()), *_schema(), *_tables(), *_names(), *_python()]
    return sorted(set(lines))


def _commands(command: Any, path: tuple[str, ...]) -> Iterator[str]:
    """Yield a line for a command and each of its arguments and options, and the same for its subcommands."""
    called = " ".join(path) or "(all)"
    if not isinstance(command, TyperGroup):
        yield f"command {called}"
    for parameter in command.params:
        names = parameter.name if parameter.param_type_name == "argument" else ", ".join(parameter.opts)
        many = " repeatable" if parameter.multiple or parameter.nargs != 1 else ""
        flag = " flag" if getattr(parameter, "is_flag", False) else ""
        needed = " required" if parameter.required else ""
        yield f"command {called}: {parameter.param_type_name} {names}{flag}{many}{needed}"
    if isinstance(command, TyperGroup):
        for name, below in command.commands.items():
            yield from _commands(below, (*path, name))


def _schema() -> Iterator[str]:
    """Yield a line for each key of a scenario's mappings, with its type, bounds and default."""
    schema = scenario_schema()
    for name, section in {"Scenario": schema, **schema["$defs"]}.items():
        needed = section.get("required", [])
        for key, value in section.get("properties", {}).items():
            said = json.dumps(_without_words(value), sort_keys=True)
            yield f"scenario {name}.{key}{' required' if key in needed else ''}: {said}"


def _without_words(value: Any) -> Any:
    if isinstance(value, list):
        return [_without_words(each) for each in value]
    if isinstance(value, dict):
        return {key: _without_words(each) for key, each in value.items() if key not in WORDS}
    return value


def _tables() -> Iterator[str]:
    for table, columns in COLUMNS.items():
        for place, (column, kind) in enumerate(columns.items()):
            yield f"table {table}.{column}: {place:02} {kind}"


def _names() -> Iterator[str]:
    """Yield a line for each policy, axis, application, trace format and kind of fault, and for each parameter
    with default.
    """
    axes = {f"{axis}={key}": choice for axis, choices in AXES.items() for key, choice in choices.items()}
    for name, declared in {**POLICIES, **axes}.items():
        yield f"policy {name}"
        yield from (f"policy {name}: {each.name}={each.default}" for each in declared.parameters)
    for name, each in APPS.items():
        yield f"app {name}"
        yield from (f"app {name}: {one.name}={one.default}" for one in each.parameters if not one.derived)
    yield from (f"trace format {name}" for name in NAMES)
    yield from (f"fault {name}" for name in KINDS)


def _python() -> Iterator[str]:
    for module in (schedbed, policy):
        for name in module.__all__:
            if name not in ("__version__", "policy"):
                yield from _members(f"{module.__name__}.{name}", getattr(module, name))
    for returned in (Cluster, SubmittedJob):
        yield from _members(f"schedbed.connect().{returned.__name__}", returned)


def _members(name: str, thing: Any) -> Iterator[str]:
    """Yield the signature of a function, or a line for each public attribute and method of a class."""
    if not isinstance(thing, type):
        yield f"python {name}{inspect.signature(thing)}"
        return
    base = thing.__bases__[0].__name__
    yield f"python class {name}({base})"
    for key, kind in inspect.get_annotations(thing).items():
        if not key.startswith("_"):
            yield f"python {name}.{key}: {kind}"
    for key, member in vars(thing).items():
        if key.startswith("_"):
            continue
        if isinstance(member, property | cached_property):
            read = member.fget if isinstance(member, property) else member.func
            yield f"python {name}.{key}: {inspect.get_annotations(read).get('return') if read else ''}"
        elif inspect.isfunction(member):
            yield f"python {name}.{key}{inspect.signature(member)}"


def kept() -> list[str]:
    """Return the lines of surface.txt."""
    return KEPT.read_text(encoding="utf-8").splitlines()


def differences(now: list[str], before: list[str]) -> list[str]:
    """Return a message for each line of `before` that is missing now, which breaks the promise, and for each
    new line.
    """
    old, new = set(before), set(now)
    gone = [f"promised and gone, or changed: {line}" for line in before if line not in new]
    return [*gone, *(f"new: {line}" for line in now if line not in old)]


def main() -> None:
    """Exit with the differences from the recorded surface, or with `--update` record the present surface."""
    now = surface()
    if "--update" in sys.argv[1:]:
        KEPT.write_text("\n".join(now) + "\n", encoding="utf-8")
        return
    found = differences(now, kept())
    sys.exit("\n".join(found) if found else None)


if __name__ == "__main__":
    main()
