"""Limits on the NIC of a container, set by the command tc in the container's network namespace.

tc runs on the host if possible, otherwise in a helper container.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

from schedbed.cluster.machines.docker import network
from schedbed.cluster.machines.docker.engine import Labels, remove_container
from schedbed.cluster.machines.machine import MachineFailed


class NicShaper:
    """A limit on the rate of the NIC of the container `name`.

    If this process cannot run tc, a helper container is created from `image` with the given labels.
    """

    def __init__(self, api: Any, name: str, *, image: str, labels: Labels) -> None:
        self._api = api
        self._name = name
        self._image = image
        self._labels = labels

    def shape(self, rate_bps: float, run_network: str) -> None:
        """Limit both directions of the NIC to `rate_bps` (bytes/s). Raises MachineFailed if tc fails.

        Traffic between the container and the bridge of the network `run_network` is not limited.
        """
        found = self._api.inspect_network(run_network)
        gateway = found["IPAM"]["Config"][0]["Gateway"].partition("/")[0]
        self._tell(network.shape(rate_bps, gateway))

    def change(self, rate_bps: float) -> None:
        """Set another rate (bytes/s) for a NIC that `shape` has limited. Raises MachineFailed if tc fails."""
        self._tell(network.change(rate_bps))

    def _tell(self, script: str) -> None:
        """Run a script in the container's network namespace. Raises MachineFailed if the script fails.

        A root process runs the script directly if the host has `nsenter` and `tc`. Otherwise a helper
        container runs the script, which takes much longer.
        """
        inside = Path(self._api.inspect_container(self._name)["NetworkSettings"]["SandboxKey"])
        if os.geteuid() == 0 and inside.exists() and all(map(shutil.which, ("nsenter", "tc"))):
            enter = ["nsenter", f"--net={inside}", "sh", "-c", script]
            done = subprocess.run(enter, capture_output=True, text=True, check=False)
            code, said = done.returncode, done.stderr.strip()
        else:
            code, said = self._beside(script)
        if code:
            raise MachineFailed(f"{self._name}: tc: {said.splitlines()[-1] if said else 'failed'}")

    def _beside(self, script: str) -> tuple[int, str]:
        """Run a script in a helper container that shares the network of the node's container.

        Return the exit code and the output. The script runs as root with no capability except NET_ADMIN.
        """
        name = f"{self._name}-tc"
        remove_container(self._api, name)
        host = self._api.create_host_config(
            network_mode=f"container:{self._name}",
            read_only=True,
            cap_drop=["ALL"],
            cap_add=["NET_ADMIN"],
            security_opt=["no-new-privileges"],
        )
        self._api.create_container(
            self._image, ["sh", "-c", script], name=name, user="0:0", labels=self._labels, host_config=host
        )
        try:
            self._api.start(name)
            return self._api.wait(name)["StatusCode"], self._api.logs(name).decode(errors="replace").strip()
        finally:
            remove_container(self._api, name)
