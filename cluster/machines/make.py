"""What a node of a live run is made of, by the name that `--machines` gives it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from schedbed.cluster.machines.machine import Machine
from schedbed.cluster.machines.process import ProcessMachine
from schedbed.cluster.run_config import RunConfig
from schedbed.cluster.spec import NodeSpec

KINDS = ("process", "docker")


def make_machine(config: RunConfig, node: NodeSpec, epoch_s: float) -> Machine:
    """A fresh machine for one life of the node, on its files of the run."""
    told: dict[str, Any] = {
        "token": config.token,
        "epoch_s": epoch_s,
        "heartbeat_s": config.cluster.heartbeat_s,
        "limits": config.cluster.limits,
        "run_id": config.run_id,
        "uplink": config.uplink(node.rack),
        "listen": config.listen,
    }
    root = config.node_root(node.node)
    if config.machines == "docker":
        from schedbed.cluster.machines.docker.container import DockerMachine

        return DockerMachine(node, root, owner=config.owner, **told)
    return ProcessMachine(node, root, **told)


def check_machines(machines: str) -> None:
    """Raises BadInput saying what to do when machines of that kind cannot be had on this host."""
    if machines == "docker":
        from schedbed.cluster.machines.docker.housekeeping import check_engine

        check_engine()


@contextmanager
def machines_ready(machines: str) -> Iterator[None]:
    """Around all runs of a command: removes at the end whatever is left of its machines, also when this process is
    killed, and before what others left that were. Raises BadInput when machines of that kind cannot be had.
    """
    if machines != "docker":
        yield
        return
    from schedbed.cluster.machines.docker.housekeeping import engine_ready

    with engine_ready():
        yield
