"""The command `schedbed hosts check`: checks whether the hosts of a Ray cluster are ready for a run."""

from __future__ import annotations

from typing import Annotated

import typer

from schedbed.cluster.machines.make import KINDS
from schedbed.deploy.cli.arguments import Ports
from schedbed.tasks.errors import BadInput

hosts_app = typer.Typer(
    help="Check the hosts of a Ray cluster.\n\nExample: schedbed hosts check --address auto",
    no_args_is_help=True,
    rich_markup_mode=None,
)


@hosts_app.callback()
def hosts() -> None:
    """Manage the hosts of a Ray cluster.

    Example: schedbed hosts check --address auto
    """


@hosts_app.command()
def check(
    address: Annotated[
        str, typer.Option(metavar="ADDR|auto", help="Address of the running Ray cluster: host:port, or auto.")
    ],
    ports: Ports = None,
    machines: Annotated[
        str,
        typer.Option(
            metavar="|".join(KINDS),
            help="How nodes will be emulated: by processes (process), or by one container each (docker).",
        ),
    ] = "process",
) -> None:
    """Check clock, cores, ports, container engine, image and bandwidth of each host.

    Exit with 1 if something is missing.

    Example: schedbed hosts check --address auto --ports 20000-20100 --machines docker
    """
    if machines not in KINDS:
        raise BadInput(f"--machines {machines}: expected {' or '.join(KINDS)}")
    from schedbed.deploy.live.host_survey import check_hosts

    check_hosts(address, ports=ports, machines=machines)
