"""The commands `schedbed init` (writes a scenario template) and `schedbed schema` (prints the JSON Schema)."""

from __future__ import annotations

import json
import re
from importlib import resources
from pathlib import Path
from typing import Annotated

import typer

from schedbed.tasks.errors import BadInput

WORD = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,60}")


def add_commands(app: typer.Typer) -> None:
    app.command()(init)
    app.command()(schema)


def init(
    name: Annotated[
        str, typer.Argument(metavar="[NAME]", help="Name of both files, without their endings.")
    ] = "experiment",
) -> None:
    """Write a scenario to start from, NAME.yaml, and a policy of your own, NAME_policy.py.

    Example: schedbed init lab
    """
    if not WORD.fullmatch(name):
        raise BadInput(
            f"init {name}: expected a name of letters, digits, dashes and underscores, such as lab"
        )
    texts = {
        Path(f"{name}.yaml"): _template("scenario.yaml").replace("NAME", name),
        Path(f"{name}_policy.py"): _template("policy.txt").replace("NAME", name),
    }
    for path in texts:
        if path.exists():
            raise BadInput(f"init {name}: {path} is there already, expected another name")
    for path, text in texts.items():
        try:
            path.write_text(text, encoding="utf-8")
        except OSError as error:
            raise BadInput(f"{path}: cannot write: {error.strerror or error}") from None
        typer.echo(path)
    typer.echo(f"Run the scenario, first in virtual time: schedbed run {name}.yaml --machines sim")


def schema() -> None:
    """Print the JSON Schema of a scenario file, for editors and checks.

    Example: schedbed schema > scenario.schema.json
    """
    from schedbed.deploy.scenario.json_schema import scenario_schema

    typer.echo(json.dumps(scenario_schema(), indent=1))


def _template(name: str) -> str:
    return resources.files("schedbed.deploy").joinpath("templates", name).read_text(encoding="utf-8")
