"""Containers as a kind of machine. The engine's library is imported with the first container, not before."""

from __future__ import annotations

from schedbed.cluster.agent.config import AgentConfig
from schedbed.cluster.machines.docker.housekeeping import check_engine, engine_ready
from schedbed.cluster.machines.machine import Machine, MachineKind


def _make(agent: AgentConfig, owner: str) -> Machine:
    from schedbed.cluster.machines.docker.container import DockerMachine

    return DockerMachine(agent, owner)


KIND = MachineKind(about="a container", make=_make, check=check_engine, ready=engine_ready)
