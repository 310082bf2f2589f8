"""The kinds of machines that the option `--machines` offers, and the creation of machines.

A kind is a module with a variable `KIND`, and an entry in `KINDS`. The module is imported on first use, so
that no kind needs the libraries of another kind.
"""

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
    """Return a new machine for one incarnation of a node, of the kind that `config` selects.

    The node's files are in the run's folder. `epoch_s` is the run's start as Unix time. `runner` is the name
    of a function that runs attempts instead of the usual one.
    """
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
    """Raise BadInput, with advice, if machines of the kind `machines` do not work on this host."""
    KINDS[machines]().check()


@contextmanager
def machines_ready(machines: str) -> Iterator[None]:
    """Prepare this host for machines of the kind `machines`, for all runs of a command.

    Machines left by earlier commands are removed before the runs. The command's machines are removed after
    the runs, even if the command is killed. Raises BadInput if machines of this kind do not work.
    """
    with KINDS[machines]().ready():
        yield
