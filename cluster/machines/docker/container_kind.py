"""Containers as a kind of machine. The engine's library is imported with the first container, not before."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from schedbed.cluster.machines.docker.housekeeping import check_engine, engine_ready
from schedbed.cluster.machines.machine import Machine, MachineKind

if TYPE_CHECKING:
    from schedbed.cluster.run_config import RunConfig
    from schedbed.cluster.spec import NodeSpec


def _make(config: RunConfig, node: NodeSpec, told: Mapping[str, Any]) -> Machine:
    from schedbed.cluster.machines.docker.container import DockerMachine

    return DockerMachine(node, config.node_root(node.node), owner=config.owner, **told)


KIND = MachineKind(about="a container", make=_make, check=check_engine, ready=engine_ready)
