"""The tables that `schedbed policies`, `schedbed apps` and `schedbed suites` print."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from schedbed.deploy.scenario.check import did_you_mean
from schedbed.tasks.errors import BadInput
from schedbed.tasks.units import format_bytes, format_duration


def show_apps(name: str | None) -> None:
    """Print a table of applications, or one (`my_app.py:Count`), with parameters that each has."""
    from schedbed.deploy.own.own_apps import read_app
    from schedbed.tasks.appkit.app import RUNTIME_PARAMETERS
    from schedbed.tasks.appkit.app_catalogue import APPS
    from schedbed.tasks.own.own_app import OWN_PARAMETERS, app_of_class
    from schedbed.tasks.own.program import is_app_file

    table = _table("application")
    if name is not None and is_app_file(name):
        chosen = {name: app_of_class(name, read_app(name, Path.cwd())[0])}
    else:
        chosen = _chosen(APPS, name, "application")
    for app in chosen.values():
        about = f"{app.summary} (input: {app.input}, reduces: {app.reduces})"
        about += f" [{app.paper}]" if app.paper else ""
        _add(table, app.name, about, [p for p in app.parameters if not p.derived])
    if name is None:
        _add(
            table, "path/to/app.py:NAME", "a class of your own, see docs/applications.md", OWN_PARAMETERS[:2]
        )
    _add(table, "all of them", "parameters that every application has", RUNTIME_PARAMETERS)
    Console(highlight=False).print(table)


def show_policies(name: str | None) -> None:
    """Print a table of policies, or one. That of all ends with the parts of which some are composed."""
    from schedbed.scheduler.registry.registry import AXES, POLICIES

    table = _table("policy")
    for key, policy in _chosen(POLICIES, name, "policy").items():
        axes = ", ".join(f"{axis}={choice}" for axis, choice in policy.axes.items())
        same = f" Same as {axes}." if axes else ""
        _add(table, key, f"{policy.summary} [{policy.paper}]{same}", policy.parameters)
    if name is None:
        for axis, choices in AXES.items():
            for key, choice in choices.items():
                _add(table, f"{axis}={key}", f"{choice.summary} [{choice.paper}]", choice.parameters)
    Console(highlight=False).print(table)


def show_suites(name: str | None) -> None:
    """Print a table of all suites (shipped workloads), or only the suite `name` with its job entries."""
    from schedbed.deploy.scenario.suites import suite_text, suites

    chosen = _chosen(suites(), name, "suite")
    table = Table("suite", "jobs", "what it is", header_style="bold", box=SIMPLE_HEAD)
    for key, suite in chosen.items():
        paper = f" [{suite.paper}]" if suite.paper else ""
        table.add_row(Text(key, style="bold"), str(len(suite.jobs)), Text(suite.about + paper))
    console = Console(highlight=False)
    console.print(table)
    if name is not None:
        console.print(suite_text(name), markup=False, soft_wrap=True, end="")


def _chosen(known: Mapping[str, Any], name: str | None, kind: str) -> Mapping[str, Any]:
    if name is None:
        return known
    if name not in known:
        raise BadInput(f"unknown {kind} {name!r}, {did_you_mean(name, known)}")
    return {name: known[name]}


def _table(kind: str) -> Table:
    table = Table(header_style="bold", box=SIMPLE_HEAD)
    table.add_column(kind, no_wrap=True)
    table.add_column("default", overflow="fold")
    table.add_column("meaning")
    return table


def _add(table: Table, name: str, about: str, parameters: Iterable[Any]) -> None:
    """Add a row with `name` and `about` to `table`, and below it an indented row for each parameter."""
    table.add_row(Text(name, style="bold"), "", Text(about))
    for parameter in parameters:
        unit = f" ({parameter.unit})" if parameter.unit else ""
        table.add_row(
            Text(f"  {parameter.name}"), Text(default_text(parameter)), Text(f"{parameter.doc}{unit}")
        )
    table.add_section()


def default_text(parameter: Any) -> str:
    """Return a default with its unit, "required" or "none"."""
    if getattr(parameter, "required", False):
        return "required"
    value = parameter.default
    if value is None:
        return "none"
    if parameter.unit == "s" and isinstance(value, float):
        return format_duration(value)
    if parameter.unit == "bytes" and not isinstance(value, str):
        return format_bytes(value)
    return str(value)
