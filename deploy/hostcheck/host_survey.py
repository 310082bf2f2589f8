"""A check of all hosts of a running Ray cluster, printed as a table."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from functools import partial
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from schedbed.cluster.masters import MasterGone
from schedbed.cluster.wire.port_range import PortRange
from schedbed.deploy.failures import RunFailed
from schedbed.deploy.hostcheck.findings import HostFinding, all_missing, columns, rounds, with_speeds
from schedbed.deploy.hostcheck.surveyor import TOKEN_BYTES, Surveyor
from schedbed.deploy.live.host_measures import clock_ahead, core_speeds
from schedbed.deploy.live.hosts import Host
from schedbed.deploy.live.ray_join import actors_on_hosts, wait_for
from schedbed.tasks.errors import BadInput

LOOK_S = 60.0
"""Longest wait for a host to start the actor."""


def check_hosts(
    address: str, *, ports: PortRange | None, machines: str, console: Console | None = None
) -> None:
    """Check each host of the Ray cluster at `address`, and print a row per host and a line per problem.

    `ports` is the range of ports that a run may use (None for any), and `machines` the kind of machine of its
    nodes. Raises RunFailed if there are problems.
    """
    console = console or Console()
    try:
        findings = survey(address, ports)
    except MasterGone as error:
        raise RunFailed(f"a host was lost while it was looked at: {error}") from None
    names = [finding.name for finding in findings]
    table = Table(*columns(names), box=SIMPLE_HEAD, header_style="bold", pad_edge=False)
    for finding in findings:
        table.add_row(*finding.row(names if len(names) > 1 else ()))
    console.print(table)
    lines = all_missing(findings, ports, machines)
    for line in lines:
        console.print(line, soft_wrap=True, highlight=False, markup=False)
    if lines:
        hosts = len({line.split(": ")[0] for line in lines})
        raise RunFailed(f"{hosts} of {len(findings)} hosts lack something")
    console.print("Nothing is missing.")


def survey(address: str, ports: PortRange | None) -> list[HostFinding]:
    """Return the findings about each host of the Ray cluster at `address`.

    `ports` is the range of ports to test, or None for any port. Raises BadInput if there is no cluster.
    """
    with actors_on_hosts(address, Surveyor) as placed:
        found = [HostFinding(name=host.name, address=host.address, ray_cpus=host.cpus) for host in placed]
        there: dict[str, tuple[Host, Any, HostFinding]] = {}
        for finding, (host, actor) in zip(found, placed.items(), strict=True):
            if _look(finding, host, actor, ports):
                there[host.name] = host, actor, finding
        own = next(host.name for host in placed if host.drives)
        asks = {name: partial(_asked, actor.trial_s) for name, (_, actor, _) in there.items()}
        with_speeds(found, core_speeds(None, asks))
        if own in there:
            image_comes = not there[own][2].image_why and not there[own][2].engine_why
            for finding in found:
                finding.image_comes = image_comes
        _transfer(list(there.values()), ports)
    return found


def _look(finding: HostFinding, host: Host, actor: Any, ports: PortRange | None) -> bool:
    """Ask the actor on `host` about its host, and store the answers in `finding`.

    Return whether the host answers.
    """
    try:
        (said,) = wait_for([actor.look.remote()], LOOK_S)
    except (MasterGone, RunFailed) as error:
        finding.fault = str(error)
        return False
    finding.cores = said["cores"]
    finding.engine_why, finding.image_why = said["engine_why"], said["image_why"]
    if not host.drives:
        finding.clock = clock_ahead(partial(_asked, actor.time_of_day))
    if ports is not None:
        (finding.free_ports,) = wait_for([actor.free_ports.remote(host.address, ports)])
    return True


def _asked(method: Any) -> float:
    return wait_for([method.remote()])[0]


def _transfer(there: Sequence[tuple[Host, Any, HostFinding]], ports: PortRange | None) -> None:
    """Measure the transfer rate from each host to each other host, and store it in the findings.

    `there` are the hosts that answer, with their actors. `ports` is the range of ports for the transfers.
    """
    token = secrets.token_hex(TOKEN_BYTES // 2)
    listening: dict[str, int] = {}
    for host, actor, _ in there:
        try:
            (listening[host.name],) = wait_for([actor.listen.remote(host.address, ports, token)])
        except BadInput:  # No port is free; the host's row says so.
            continue
    by_name = {host.name: (host, actor, finding) for host, actor, finding in there}
    for pairs in rounds(list(listening)):
        calls = [
            by_name[left][1].send.remote(by_name[right][0].address, listening[right], token)
            for left, right in pairs
        ]
        for (left, right), way in zip(pairs, wait_for(calls) if calls else [], strict=True):
            by_name[left][2].to[right] = way
    wait_for([actor.close.remote() for _, actor, _ in there])
