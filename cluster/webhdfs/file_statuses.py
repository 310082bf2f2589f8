"""The status of files, directories and blocks in the JSON format of WebHDFS."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from schedbed.cluster.clock import RunClock
from schedbed.cluster.webhdfs.rest_call import USER, Json

SLACK_MS = 1e-3
"""Tolerance for rounding: times are stored as float seconds, and must return as the same millisecond."""


def file_status(entry: Mapping[str, Any], clock: RunClock, suffix: str = "") -> Json:
    """Return the FileStatus of WebHDFS for a file or directory, from its status `entry` (`NameNode.stat`).

    `clock` converts run times to times of day. `suffix` is the name of the file in its directory if the
    directory is listed, and otherwise empty.
    """
    is_file = entry["type"] == "file"
    modified_ms = _milliseconds(clock, entry["modified_s"])
    accessed_ms = modified_ms if is_file else 0
    if entry["accessed_s"] is not None:
        accessed_ms = _milliseconds(clock, entry["accessed_s"])
    return {
        "accessTime": accessed_ms,
        **({"aclBit": True} if entry["acl"] else {}),
        "blockSize": entry["block_bytes"],
        "childrenNum": entry["children"],
        "group": entry["group"] or USER,
        "length": entry["length"],
        "modificationTime": modified_ms,
        "owner": entry["owner"] or USER,
        "pathSuffix": suffix,
        "permission": permission_of(entry),
        "replication": entry["replication"],
        "type": "FILE" if is_file else "DIRECTORY",
    }


def permission_of(entry: Mapping[str, Any]) -> str:
    """Return the permission in the status `entry` as octal digits.

    If no permission was set, the result is 644 for files and 755 for directories.
    """
    return entry["permission"] or ("644" if entry["type"] == "file" else "755")


def _milliseconds(clock: RunClock, emulated_s: float) -> int:
    return math.floor(clock.time_of_day_s(emulated_s) * 1000 + SLACK_MS)  # The result is never in the future.


def block_location(block: Mapping[str, Any], nodes: Mapping[str, Any]) -> Json:
    """Return the BlockLocation of WebHDFS for a block, which is a row of `NameNode.locate`.

    `nodes` maps live nodes to their descriptions, as returned by `NameNode.nodes`.
    """
    holders = [node for node in block["nodes"] if node in nodes]
    names = [nodes[node]["url"].rpartition("/")[2] for node in holders]
    racks = [nodes[node]["rack"] for node in holders]
    return {
        "cachedHosts": [],
        "corrupt": not holders,
        "hosts": holders,
        "length": block["length"],
        "names": names,
        "offset": block["offset"],
        "storageTypes": ["DISK"] * len(holders),
        "topologyPaths": [f"/{rack}/{name}" for rack, name in zip(racks, names, strict=True)],
    }
