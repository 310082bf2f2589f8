"""The scenarios that `schedbed policy check` simulates: small clusters with typical faults."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

NODE = {
    "cores": 2,
    "core_speed": 1.0,
    "memory": "2GiB",
    "disk": "100MB/s",
    "network": "1Gbit/s",
    "map_slots": 2,
    "reduce_slots": 1,
}


def _jobs(count: int, maps: int, **more: Any) -> dict[str, Any]:
    map_of = {"cpu": "4s", "read": "64MiB", "write": "16MiB"}
    burn = {"app": "synthetic", "maps": maps, "map": map_of, "reduces": 1, "reduce": {"cpu": "3s"}}
    return {"name": f"burn{maps}", "count": count, **burn, **more}


def _story(
    jobs: list[dict[str, Any]], *faults: Mapping[str, Any], nodes: int = 3, **more: Any
) -> dict[str, Any]:
    return {
        "name": "story",
        "seed": 1,
        "cluster": {"nodes": nodes, "racks": 2, "node": NODE},
        "blocks": {"size": "64MiB", "replication": 2},
        "workload": {"jobs": jobs},
        "policies": ["fifo"],
        "profiles": {"store": "none"},
        "faults": list(faults),
        **more,
    }


_THREE = [
    _jobs(1, 12, user="ana", deadline="5m"),
    _jobs(1, 6, user="bo", submit="5s", priority="high"),
    _jobs(1, 3, user="cy", submit="12s", reduces=0),
]
_USERS = ("ana", "bo", "cy")
_STREAM = [
    _jobs(1, 30, user="ana"),
    *(_jobs(1, 2, user="bo", submit=f"{5 + 3 * number}s") for number in range(20)),
]
STORIES: dict[str, dict[str, Any]] = {
    "a small cluster": _story(_THREE),
    "a full disk": _story(_THREE, {"at": "3s", "fill_disk": "n1"}),
    "a lost node": _story(_THREE, {"at": "8s", "kill": "n2"}),
    "a node that comes back": _story(_THREE, {"at": "8s", "partition": ["n2"], "for": "20s"}),
    "JobTracker restarts": _story(
        _THREE,
        {"at": "6s", "crash": "jobtracker", "for": "3s"},
        {"at": "15s", "crash": "jobtracker", "for": "3s"},
    ),
    "more jobs than slots": _story(
        [_jobs(7, 4, user=user, submit=f"{place}s") for place, user in enumerate(_USERS)],
        nodes=2,
    ),
    "a stream of small jobs": _story(_STREAM),
    "a slow node and copies": _story(
        _THREE,
        {"at": "1s", "slow": "n3", "cpu": 0.1},
        speculation={"late": {"cap": 0.3, "min_runtime": "5s"}},
    ),
}
"""The scenarios by name."""
