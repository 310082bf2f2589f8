"""Removes what dead runs and clusters of this user left behind on this host. Running ones are not touched."""

from __future__ import annotations

from schedbed.cluster.agent.cgroups import sweep_leftovers
from schedbed.deploy.workspace import base_folder, left_behind, remove


def sweep_all() -> list[str]:
    """Remove what crashed runs of this user left on this host. Return a line of text per removed item.

    Removed are processes, scratch folders, control groups, and containers with their networks and volumes.
    """
    from schedbed.cluster.machines.docker.engine import sweep_containers

    told = []
    for folder in left_behind(base_folder()):
        remove(folder)
        told.append(f"removed {folder} and what used it")
    told += [f"removed control group {name}" for name in sweep_leftovers()]
    told += [f"removed {name}" for name in sweep_containers()]
    return told
