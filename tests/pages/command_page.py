"""docs/reference/cli.md: every command with its arguments, options and example, taken from the help."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import typer.main
from typer.core import TyperGroup

from schedbed.deploy.cli.main import app
from tests.pages.table_cells import cell

HEAD = """# Commands

`schedbed --help` and `schedbed COMMAND --help` print the same. `schedbed --install-completion` makes the shell
complete commands and options.

| exit code | means |
|---|---|
| 0 | the command did what was asked |
| 1 | the run itself failed: a job failed, a check or a bound did not hold |
| 2 | bad input: one line names the file, line or key, the value and what was expected |
| 129, 130, 143 | ended by SIGHUP, Ctrl-C, SIGTERM: what it started is stopped, what was measured is kept |
"""


def page() -> str:
    """Return the Markdown text of docs/reference/cli.md."""
    return "\n".join([HEAD, *_sections(typer.main.get_command(app), ())]) + "\n"


def _sections(command: Any, path: tuple[str, ...]) -> Iterator[str]:
    if isinstance(command, TyperGroup):
        context = typer.Context(command)
        for name in command.list_commands(context):
            yield from _sections(command.commands[name], (*path, name))
        return
    arguments = [each for each in command.params if each.param_type_name == "argument"]
    options = [each for each in command.params if each.param_type_name == "option"]
    usage = " ".join(["schedbed", *path, *map(_argument, arguments), *(["[OPTIONS]"] if options else [])])
    text, _, example = (command.help or "").partition("Example: ")
    yield f"## {' '.join(path)}\n"
    yield f"`{usage}`\n"
    yield re.sub(r"\n\n+", "\n\n", text.strip()) + "\n"
    if example:
        yield f"Example: `{' '.join(example.split())}`\n"
    rows = [_row(each, typer.Context(command)) for each in (*arguments, *options)]
    if rows:
        yield "| | | default |\n|---|---|---|"
        yield "\n".join(rows) + "\n"


def _argument(argument: Any) -> str:
    name = argument.metavar or argument.name.upper()
    name += "..." if argument.nargs != 1 else ""
    return name if argument.required else f"[{name}]"


def _row(parameter: Any, context: Any) -> str:
    """Return the table row of an argument or option: its names, help text and default."""
    record = parameter.get_help_record(context)
    names, said = record if record else (parameter.metavar or parameter.name.upper(), parameter.help or "")
    text, ending = _without_default(said)
    names = re.sub(r" <.*>$", "", names) if parameter.param_type_name == "argument" else names
    many = " May be repeated." if getattr(parameter, "multiple", False) and "repeated" not in text else ""
    default = "required" if parameter.required else ending
    return f"| `{cell(names)}` | {cell(text)}{many} | {cell(default)} |"


def _without_default(said: str) -> tuple[str, str]:
    """Return a help text without the brackets that typer adds, and the default that they contain, as code."""
    text = " ".join(said.split())
    added = re.search(r" ?\[((?:default|required|env var|0<=)[^\]]*)\]$", text)
    if added is None:
        return text, ""
    default = re.search(r"default: ([^;]*)", added[1])
    return text[: added.start()], f"`{default[1]}`" if default else ""
