"""The command `schedbed doctor`: shows the limits that this host can enforce, and measures them."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from schedbed.deploy.cli.arguments import Machines, complete_scenario
from schedbed.deploy.options import check_machines_name
from schedbed.tasks.errors import BadInput

TABLE_WIDTH = 140
"""Width of tables in characters if the output is not a terminal."""


CheckedScenario = Annotated[
    Path | None,
    typer.Argument(
        metavar="[SCENARIO]",
        help="Scenario to check: whether this host has enough resources for it.",
        autocompletion=complete_scenario,
    ),
]
Measure = Annotated[
    bool,
    typer.Option(
        "--measure",
        help="Start the scenario's nodes, put load on them, and compare the measured rates "
        "with the declared ones.",
    ),
]


def add_commands(app: typer.Typer) -> None:
    app.command()(doctor)


def doctor(
    scenario: CheckedScenario = None,
    machines: Machines = "process",
    measure: Measure = False,
    hostile: Annotated[
        bool,
        typer.Option(
            "--hostile", help="Also run programs that try to exceed each limit. Includes --measure."
        ),
    ] = False,
    security: Annotated[
        bool,
        typer.Option(
            "--security",
            help="Start a small cluster, and try to connect to its ports without a token. Exit with "
            "1 if one accepts.",
        ),
    ] = False,
    save: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="JSON file in which the results of --measure and --hostile are saved."
        ),
    ] = None,
) -> None:
    """Show the limits that this host can enforce, and whether the host has enough resources for a scenario.

    Example: schedbed doctor quickstart --measure --hostile --machines docker
    """
    from schedbed.deploy.doctor.doctor import doctor as examine
    from schedbed.deploy.scenario.resolve import resolve

    check_machines_name(machines)
    measure |= hostile
    if measure and (scenario is None or machines == "sim"):
        option = "--hostile" if hostile else "--measure"
        raise BadInput(f"{option}: expected a scenario and machines that are not simulated")
    if security and machines == "sim":
        raise BadInput("--security: a simulation listens nowhere, expected machines that are not simulated")
    if save is not None and not measure:
        raise BadInput(f"--save {save}: expected --measure or --hostile with it")
    resolved = None if scenario is None else resolve(scenario)
    examine(resolved, machines=machines, measured=measure, hostile=hostile, save=save)
    if security:
        from rich.console import Console

        from schedbed.deploy.security.doctor_table import examine_security

        examine_security(Console(width=None if sys.stdout.isatty() else TABLE_WIDTH), machines)
