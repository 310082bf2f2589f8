"""Arguments and options that several commands share, such as SCENARIO, `--machines` and `--jobs`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from schedbed.cluster.wire.port_range import PortRange, parse_ports
from schedbed.deploy.options import MACHINES
from schedbed.tasks.errors import BadInput


def complete_scenario(incomplete: str) -> list[str]:
    """Complete SCENARIO in the shell: shipped scenarios, YAML files, and folders."""
    from schedbed.deploy.shipped import shipped

    names = [name for name in shipped() if name.startswith(incomplete)]
    parent, start = os.path.split(incomplete)
    there = [path for path in sorted(Path(parent or ".").glob("*")) if path.name.startswith(start)]
    folders = [f"{path}/" for path in there if path.is_dir()]
    return names + [str(path) for path in there if path.suffix == ".yaml"] + folders


Scenario = Annotated[
    Path,
    typer.Argument(
        metavar="SCENARIO",
        help="A scenario's file, or the name of a shipped one such as quickstart.",
        autocompletion=complete_scenario,
    ),
]
Machines = Annotated[
    str,
    typer.Option(
        metavar="|".join(MACHINES), help="What a node is made of: processes, a container, or virtual time."
    ),
]
Private = Annotated[
    bool, typer.Option("--private", help="Results that nobody else can read: folder 0700, files 0600.")
]
Tls = Annotated[
    bool,
    typer.Option("--tls", help="With --address: TLS between the hosts, with certificates made for the run."),
]
WebHdfs = Annotated[
    int | None,
    typer.Option(
        metavar="PORT", min=0, max=65535, help="Serve the block store as WebHDFS on this port, 0 for any."
    ),
]
Metrics = Annotated[
    int | None,
    typer.Option(
        metavar="PORT", min=0, max=65535, help="Serve metrics to Prometheus on this port, 0 for any."
    ),
]
Web = Annotated[
    int | None,
    typer.Option(
        metavar="PORT", min=0, max=65535, help="Show the run as it goes on in a browser, 0 for any port."
    ),
]
ReadOnly = Annotated[bool, typer.Option("--read-only", help="With --web: a page that changes nothing.")]
Users = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE", help="Let the users of this class list in, see: schedbed users FILE.yaml add."
    ),
]
ApiPort = Annotated[
    int, typer.Option("--api", metavar="PORT", min=0, max=65535, help="The port of the API, 0 for any.")
]
Ports = Annotated[
    PortRange | None,
    typer.Option(
        metavar="FIRST-LAST",
        parser=parse_ports,
        help="Listen on ports of this range only, such as 20000-20100.",
    ),
]
SetKey = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Change one key, such as cluster.node.core_speed=0.2."),
]
SimAddress = Annotated[
    str | None,
    typer.Option(
        "--address",
        metavar="ADDR|auto",
        help="Simulate on the hosts of this Ray cluster: host:port, or auto.",
    ),
]
Jobs = Annotated[
    int | None,
    typer.Option(metavar="N", min=1, help="Simulations at a time, as many as there are cores by default."),
]
NoLive = Annotated[bool, typer.Option("--no-live", help="Plain lines instead of the live display.")]


def jobs_at_once(jobs: int | None, machines: str = "sim") -> int:
    """Return the simulations in parallel, by default one per core. Raises BadInput for `jobs` of live runs."""
    if machines != "sim":
        if jobs is not None:
            raise BadInput(
                f"--jobs {jobs}: live runs go one after the other, expected --machines sim beside it"
            )
        return 1
    from schedbed.deploy.side_by_side import all_cores

    return jobs or all_cores()


def jobs_on_hosts(jobs: int | None, address: str | None, machines: str = "sim") -> int | None:
    """Return the simulations in parallel, also on a Ray cluster (None: all of its cores). Raises BadInput."""
    return jobs if address is not None and machines == "sim" else jobs_at_once(jobs, machines)


def show_warnings(warnings: tuple[str, ...]) -> None:
    """Print a scenario's warnings to standard error."""
    for warning in warnings:
        typer.echo(f"note: {warning}", err=True)
