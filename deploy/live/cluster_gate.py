"""Checks of a running Ray cluster before the command joins it: it answers, takes the token, and is on this
host.

Without them, Ray would wait for a minute and repeat messages. Ray's modules are arguments, because only two
files import Ray.
"""

from __future__ import annotations

import os
import socket
from typing import Any

import psutil

from schedbed.tasks.errors import BadInput

ANSWER_S = 5.0  # Time limit for a cluster to accept a connection.
NO_CLUSTER = "12" * 28
"""An id that no cluster has. A GCS asked for this id answers immediately, and refuses a wrong token."""


def gcs_address(address: str, services: Any) -> str:
    """Return host:port of the cluster's control service (GCS), after a test. Raises BadInput."""
    if "://" in address:
        raise BadInput("Ray's client is not supported, expected auto or host:port, on a host of the cluster")
    try:
        where = services.canonicalize_bootstrap_address_or_die(address)
        host, _, port = where.rpartition(":")
        socket.create_connection((host.strip("[]"), int(port)), ANSWER_S).close()
    except (OSError, ValueError) as error:
        why = str(error).partition(".")[0]
        raise BadInput(f"no Ray cluster answers ({why}), expected a running one (ray start --head)") from None
    return where


def use_the_clusters_token(raylet: Any) -> None:
    """Make Ray use the user's token, from RAY_AUTH_TOKEN or Ray's file, not the one schedbed generated."""
    if os.environ.get("RAY_AUTH_TOKEN", "").startswith("schedbed"):
        del os.environ["RAY_AUTH_TOKEN"], os.environ["RAY_AUTH_MODE"]
    loader = raylet.AuthenticationTokenLoader.instance()
    loader.reset_cache()
    if "RAY_AUTH_MODE" not in os.environ and loader.has_token(ignore_auth_mode=True):
        os.environ["RAY_AUTH_MODE"] = "token"
    raylet.Config.initialize("")  # Makes Ray read the environment variables again.


def check_cluster(where: str, raylet: Any) -> None:
    """Raise BadInput if the cluster refuses the token or has no node on this host."""
    try:
        raylet.GcsClient(address=where, cluster_id=NO_CLUSTER).internal_kv_get(b"", None, timeout=ANSWER_S)
    except Exception as error:  # Always raised, since the GCS has another id.
        if "AuthToken" in str(error):
            raise BadInput(
                "it refused the token, expected the cluster's in RAY_AUTH_TOKEN or ~/.ray/auth_token"
            ) from None
    found = raylet.GcsClient(address=where).get_all_node_info(timeout=ANSWER_S).values()
    theirs = {node.node_manager_address for node in found}
    ours = {address.address for addresses in psutil.net_if_addrs().values() for address in addresses}
    if not theirs & ours:
        raise BadInput(
            f"this host is none of its nodes, expected to be started on one of {', '.join(sorted(theirs))}"
        )
