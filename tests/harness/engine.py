"""Access to a Docker engine for tests.

A missing base image is built. Without an engine, tests are skipped with the reason, except in CI, where they fail.
"""

from __future__ import annotations

import subprocess
from functools import cache
from pathlib import Path

from schedbed.cluster.machines.docker.engine import connect
from schedbed.cluster.machines.docker.image import BASE
from schedbed.cluster.machines.host_abilities import docker_why
from tests.harness.needed import skip_unless_ci

BUILD_S = 900
BUILD = Path(__file__).parents[2] / "deploy" / "image" / "build"


@cache
def why_not() -> str:
    """Return why container nodes are not available here; empty if they are."""
    if why := docker_why():
        return f"no Docker engine: {why}"
    client = connect()
    try:
        if client.images.list(name=BASE):
            return ""
    finally:
        client.close()
    done = subprocess.run([BUILD], capture_output=True, text=True, timeout=BUILD_S, check=False)
    said = (done.stderr or done.stdout).strip().splitlines()
    return "" if done.returncode == 0 else f"no base image: {said[-1] if said else BUILD}"


def engine_or_skip() -> None:
    """Skip the test with the reason if there is no engine, or fail it in CI."""
    if why := why_not():
        skip_unless_ci(why)


def left_of(run_part: str) -> list[str]:
    """Return the containers, networks and volumes whose run id contains `run_part`."""
    client = connect()
    try:
        only = {"label": "schedbed.run"}
        found = [(each["Id"][:12], each["Labels"]) for each in client.api.containers(all=True, filters=only)]
        found += [(each["Name"], each["Labels"]) for each in client.api.networks(filters=only)]
        found += [
            (each["Name"], each["Labels"]) for each in client.api.volumes(filters=only)["Volumes"] or ()
        ]
        return [name for name, labels in found if run_part in labels["schedbed.run"]]
    finally:
        client.close()
