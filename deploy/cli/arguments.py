"""Arguments and options that several commands share, such as SCENARIO, `--machines` and `--jobs`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from schedbed.cluster.machines.make import KINDS
from schedbed.cluster.wire.port_range import PortRange, parse_ports
from schedbed.deploy.options import MACHINES
from schedbed.tasks.errors import BadInput
from schedbed.tasks.own.child import TRUST


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
        help="Path of a scenario file, or name of a scenario that comes with schedbed, such as quickstart.",
        autocompletion=complete_scenario,
    ),
]
Machines = Annotated[
    str,
    typer.Option(
        metavar="|".join(MACHINES),
        help="How nodes are emulated: by processes (process), by one container each (docker), "
        "or in a simulation (sim).",
    ),
]
NodeCount = Annotated[
    int | None,
    typer.Option(help="Number of nodes, instead of the number in the scenario (cluster.nodes)."),
]
ScaleFactor = Annotated[
    float | None,
    typer.Option(
        help="Factor on every duration and amount of data, instead of the scenario's scale: "
        "0.1 is ten times less work."
    ),
]
RunSeed = Annotated[
    int | None, typer.Option(help="Seed of all random choices, instead of the scenario's seed.")
]
LiveMachines = Annotated[
    str,
    typer.Option(
        metavar="|".join(KINDS),
        help="How nodes are emulated: by processes (process), or by one container each (docker).",
    ),
]
Isolated = Annotated[
    bool,
    typer.Option(
        "--isolated",
        help="Simulate policies of files in confined processes without files, network and true costs.",
    ),
]
Private = Annotated[
    bool,
    typer.Option(
        "--private", help="Make the results readable for you only (folder mode 0700, file mode 0600)."
    ),
]
Tls = Annotated[
    bool,
    typer.Option(
        "--tls",
        help="With --address: encrypt traffic between the hosts by TLS, with new certificates for this run.",
    ),
]
WebHdfs = Annotated[
    int | None,
    typer.Option(
        metavar="PORT",
        min=0,
        max=65535,
        help="Let other programs access the block store by WebHDFS on this port, 0 for any free port.",
    ),
]
Metrics = Annotated[
    int | None,
    typer.Option(
        metavar="PORT",
        min=0,
        max=65535,
        help="Provide metrics for Prometheus on this port, 0 for any free port.",
    ),
]
Web = Annotated[
    int | None,
    typer.Option(
        metavar="PORT",
        min=0,
        max=65535,
        help="Show the progress of the run on a web page on this port, 0 for any free port.",
    ),
]
ReadOnly = Annotated[
    bool, typer.Option("--read-only", help="With --web: show the page without buttons that change the run.")
]
Users = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="File with users who may use the cluster, written by: schedbed users FILE.yaml add.",
    ),
]
ApiPort = Annotated[
    int,
    typer.Option(
        "--api",
        metavar="PORT",
        min=0,
        max=65535,
        help="Port on which the cluster accepts commands of schedbed, 0 for any free port.",
    ),
]
Ports = Annotated[
    PortRange | None,
    typer.Option(
        metavar="FIRST-LAST",
        parser=parse_ports,
        help="Use only ports of this range for connections between processes, such as 20000-20100.",
    ),
]
SetKey = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        help="Change one key of the scenario, such as cluster.node.core_speed=0.2.",
    ),
]
SimAddress = Annotated[
    str | None,
    typer.Option(
        "--address",
        metavar="ADDR|auto",
        help="Run the simulations on a Ray cluster at this address (host:port, or auto).",
    ),
]
Jobs = Annotated[
    int | None,
    typer.Option(
        metavar="N",
        min=1,
        help="Number of simulations that run at the same time, by default the number of cores.",
    ),
]
NoLive = Annotated[bool, typer.Option("--no-live", help="Print plain lines instead of the live display.")]


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


def _trust(asked: bool) -> None:
    if asked:
        os.environ[TRUST] = "1"


TrustCode = Annotated[
    bool,
    typer.Option(
        "--trust-code",
        callback=_trust,
        help="Run the checks and measurements of your own applications as your user, with your files.",
    ),
]
