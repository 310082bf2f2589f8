"""Shell scripts that limit the NIC of a node in a container to the declared rate, with the command tc.

Sent packets are limited on `eth0` by an HTB class, received ones in the same way on an `ifb` device. Traffic
with the bridge itself (heartbeats, upload) is not part of the emulated cluster. Acknowledgements are free, as
they would wait behind sent data. tc counts whole frames, so headers are added to the payload's rate.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

from schedbed.cluster.machines.docker.engine import Labels, remove_container
from schedbed.cluster.machines.machine import MachineFailed

HEADERS = 1.05  # The factor for headers of TCP over Ethernet, with 1400 to 1500 bytes in a packet.
# An idle NIC saves up one burst, which is sent at once. It must be small compared with the smallest transfer: 32 KiB
# are 3% of 1 MB. A packet of 64 KiB (segmentation offload) passes a smaller bucket and is charged afterwards. Long
# streams need no larger burst: data that a stopped process does not read in time wait in its socket's buffer.
BURST_BYTES = 32 * 1024
BURST_S = 0.002  # At high rates, the burst compensates for late kernel timers.
QUEUE_S = 0.25  # The length of a queue. More data are dropped, and TCP slows down.
QUEUE_MIN_BYTES = 512 * 1024
FREE = "10gbit"
ACKNOWLEDGEMENT = (
    "match ip protocol 6 0xff match u8 0x05 0x0f at 0 match u16 0x0000 0xffc0 at 2"  # TCP below 64 bytes
)
ANSWER = "match ip protocol 6 0xff match u8 0x05 0x0f at 0 match u8 0x10 0x10 at 33"
"""TCP with the flag ACK, which only the first packet of a connection lacks."""
RECEIVE = "ifb0"


def shape(rate_bps: float, gateway: str) -> str:
    """Return a script that limits both directions to `rate_bps`, except traffic with `gateway`.

    The bridge's address `gateway` is the host's: the node answers connections from there and opens none, so
    that its code reaches no service of the host. Run the script once, in the node's network namespace with
    the capability NET_ADMIN.
    """
    return "\n".join(
        [
            "set -e",
            *_root("eth0", rate_bps),
            *_free("eth0", f"match ip dst {gateway}/32 {ANSWER}"),
            *_closed("eth0", f"match ip dst {gateway}/32"),
            *_free("eth0", ACKNOWLEDGEMENT, prio=3),
            f"ip link add {RECEIVE} type ifb && ip link set {RECEIVE} up",
            *_root(RECEIVE, rate_bps),
            *_free(RECEIVE, f"match ip src {gateway}/32", ACKNOWLEDGEMENT),
            "tc qdisc add dev eth0 handle ffff: ingress",
            "tc filter add dev eth0 parent ffff: protocol all prio 1 u32 match u32 0 0 "
            f"action mirred egress redirect dev {RECEIVE}",
        ]
    )


def change(rate_bps: float) -> str:
    """Return a script that changes the rate set by `shape`."""
    return "\n".join(["set -e", *(_rate("change", device, rate_bps) for device in ("eth0", RECEIVE))])


def _root(device: str, rate_bps: float) -> list[str]:
    queue = max(QUEUE_MIN_BYTES, int(rate_bps * QUEUE_S))
    return [
        f"tc qdisc add dev {device} root handle 1: htb default 10",
        _rate("add", device, rate_bps),
        f"tc class add dev {device} parent 1: classid 1:20 htb rate {FREE} quantum 60000",
        f"tc qdisc add dev {device} parent 1:10 handle 10: bfifo limit {queue}b",
        f"tc qdisc add dev {device} parent 1:20 handle 20: bfifo limit 16mb",
    ]


def _free(device: str, *matches: str, prio: int = 1) -> list[str]:
    return [
        f"tc filter add dev {device} parent 1: protocol ip prio {prio} u32 {match} flowid 1:20"
        for match in matches
    ]


def _closed(device: str, match: str) -> list[str]:
    """Return commands that drop packets: a queue of one byte takes none. Some kernels have no action for it."""
    return [
        f"tc class add dev {device} parent 1: classid 1:30 htb rate {FREE} quantum 60000",
        f"tc qdisc add dev {device} parent 1:30 handle 30: bfifo limit 1b",
        f"tc filter add dev {device} parent 1: protocol ip prio 2 u32 {match} flowid 1:30",
    ]


def _rate(verb: str, device: str, rate_bps: float) -> str:
    bits, burst = int(rate_bps * HEADERS * 8), max(BURST_BYTES, int(rate_bps * BURST_S))
    return (
        f"tc class {verb} dev {device} parent 1: classid 1:10 htb "
        f"rate {bits}bit ceil {bits}bit burst {burst}b cburst {burst}b quantum 60000"
    )


# Limits on the NIC of a container, set by the command tc in the container's network namespace.
#
# tc runs on the host if possible, otherwise in a helper container.


class NicShaper:
    """Limits a container's NIC. If this process cannot run tc, a helper container of `image` does."""

    def __init__(self, api: Any, name: str, *, image: str, labels: Labels) -> None:
        self._api = api
        self._name = name
        self._image = image
        self._labels = labels

    def shape(self, rate_bps: float, run_network: str) -> None:
        """Limit both directions, except traffic with the bridge of `run_network`. Raises MachineFailed."""
        found = self._api.inspect_network(run_network)
        gateway = found["IPAM"]["Config"][0]["Gateway"].partition("/")[0]
        self._tell(shape(rate_bps, gateway))

    def change(self, rate_bps: float) -> None:
        """Change the rate set by `shape`. Raises MachineFailed."""
        self._tell(change(rate_bps))

    def _tell(self, script: str) -> None:
        """Run a script in the container's network namespace; if not root with nsenter and tc, in a slow helper."""
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
        """Run a script as root with NET_ADMIN only, beside the container. Return exit code and output."""
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
