"""The kinds of machines of `--machines`, each a module with a `KIND`, imported on first use for its libraries."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from schedbed.cluster.machines.machine import Machine, MachineKind

if TYPE_CHECKING:
    from schedbed.cluster.run_config import RunConfig
    from schedbed.cluster.spec import NodeSpec


def _process() -> MachineKind:
    from schedbed.cluster.machines.process import KIND

    return KIND


def _docker() -> MachineKind:
    from schedbed.cluster.machines.docker.container_kind import KIND

    return KIND


KINDS: Mapping[str, Callable[[], MachineKind]] = {
    "process": _process,
    "docker": _docker,
}
"""Every kind that `--machines` offers, with what imports it; the first is the default."""


def make_machine(config: RunConfig, node: NodeSpec, epoch_s: float, runner: str | None = None) -> Machine:
    """Return a new machine for one incarnation. `runner` runs attempts instead of the usual function."""
    from schedbed.cluster.agent.config import RUNNER, AgentConfig

    stretch = config.cluster.stretch
    agent = AgentConfig(
        node=node.on_host(config.host_speed).stretched(stretch),
        root=config.node_root(node.node),
        token=config.token,
        epoch_s=epoch_s,
        heartbeat_s=config.cluster.heartbeat_s * stretch,
        stretch=stretch,
        limits=config.cluster.limits,
        run_id=config.run_id,
        runner=runner or RUNNER,
        listen=config.listen,
        ports=config.ports,
        tls=config.tls,
        links=config.links,
    )
    return KINDS[config.machines]().make(agent, config.owner)


def check_machines(machines: str) -> None:
    """Raise BadInput with advice if such machines do not work on this host."""
    KINDS[machines]().check()


@contextmanager
def machines_ready(machines: str) -> Iterator[None]:
    """Prepare this host for a command's runs, and remove machines before and after, even if it is killed."""
    with KINDS[machines]().ready():
        yield
