"""docs/reference/names.md: policies, axes and applications with their parameters, from the registries."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from schedbed.deploy.cli.lists import default_text
from schedbed.scheduler.registry.registry import AXES, POLICIES
from schedbed.tasks.appkit.app import RUNTIME_PARAMETERS
from schedbed.tasks.appkit.app_catalogue import APPS
from tests.pages.table_cells import cell

HEAD = """# Policies and applications

What a scenario and `--policy` may name. `schedbed policies` and `schedbed apps` print the same. When a policy pays:
[policies.md](../policies.md). A parameter follows the name: `delay:node_wait=5s,rack_wait=5s`, in YAML
`{delay: {node_wait: 5s}}`.
"""
AXES_HEAD = """## Axes

A composition names one of each: `order=fair,locality=delay:node_wait=5s,admission=slots`; parameters of one
axis are joined by `+`. What is not named is `order=fifo`, `locality=greedy`, `admission=slots`.
"""
APPS_HEAD = """## Applications

`app:` of a job, with `params:`. Your own are `path/to/app.py:NAME` and `streaming`:
[applications.md](../applications.md).
"""


def page() -> str:
    """Return the Markdown text of docs/reference/names.md."""
    parts = [HEAD, "## Policies\n"]
    for name, each in POLICIES.items():
        axes = ", ".join(f"{axis}={choice}" for axis, choice in each.axes.items())
        same = f" Same as `{axes}`." if axes else ""
        parts += [
            f"### {name}\n",
            f"{each.summary} From: {each.paper}.{same}\n",
            *_parameters(each.parameters),
        ]
    parts.append(AXES_HEAD)
    for axis, choices in AXES.items():
        parts += [f"### {axis}\n", *_axis(choices)]
    parts.append(APPS_HEAD)
    for name, app in APPS.items():
        from_paper = f" From: {app.paper}." if app.paper else ""
        parts.append(f"### {name}\n")
        parts.append(
            f"{app.summary[0].upper()}{app.summary[1:]}. Input: {app.input}; reduces: {app.reduces}.{from_paper}\n"
        )
        parts += _parameters(one for one in app.parameters if not one.derived)
    parts += ["### All applications\n", *_parameters(RUNTIME_PARAMETERS)]
    return "\n".join(parts).rstrip("\n") + "\n"


def _axis(choices: Mapping[str, Any]) -> Iterator[str]:
    yield "| choice | what it does | from | parameters |"
    yield "|---|---|---|---|"
    for name, each in choices.items():
        given = ", ".join(f"`{one.name}={one.default}`" for one in each.parameters)
        yield f"| `{name}` | {cell(each.summary)} | {cell(each.paper)} | {cell(given)} |"
    yield ""


def _parameters(parameters: Iterable[Any]) -> Iterator[str]:
    rows = [
        f"| `{one.name}` | {cell(_default(one))} | {cell(one.doc)}{f' ({one.unit})' if one.unit else ''} |"
        for one in parameters
    ]
    if rows:
        yield "| parameter | default | |\n|---|---|---|"
        yield "\n".join(rows) + "\n"


def _default(parameter: Any) -> str:
    """Return a parameter's default as `schedbed policies` prints it, in backquotes if it is a value."""
    shown = default_text(parameter)
    is_value = not getattr(parameter, "required", False) and parameter.default is not None
    return f"`{shown}`" if is_value else shown
