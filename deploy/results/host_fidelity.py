"""Whether the figures of a run over many hosts can be believed: each host is judged by itself, and named."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from schedbed.deploy.results.fidelity import assess, combine

if TYPE_CHECKING:
    import pandas as pd

CLOCK_OFFSET_MAX_S = 0.1  # beyond what asking over the network may be off by


def assess_hosts(
    *,
    machines: str,
    hosts: Mapping[str, Mapping[str, Any]],
    loads: Mapping[str, Mapping[str, Any]],
    nodes: Sequence[Mapping[str, Any]],
    heartbeats: pd.DataFrame,
    enforced: Mapping[str, str] | None = None,
    counted: Mapping[str, str] | None = None,
    stretch: float = 1.0,
) -> dict[str, Any]:
    """The `fidelity` of one run as `assess` gives it, with `hosts` beside: each with its nodes and its own verdict.

    `hosts` are those of run.json, `loads` those of the run's record. A host that had no part in the run is left out.
    """
    parts: dict[str, dict[str, Any]] = {}
    for name, host in hosts.items():
        load = loads.get(name, {})
        if not host["nodes"] and not load.get("samples"):
            continue
        part = assess(
            machines=machines,
            host_cores=host["cores"],
            host_samples=load.get("samples", []),
            nodes=[node for node in nodes if node["node"] in host["nodes"]],
            heartbeats=heartbeats[heartbeats["node"].isin(host["nodes"])],
            enforced=enforced,
            counted=counted,
            stretch=stretch,
        )
        part["why"] = [f"Host {name}: {sentence}" for sentence in part["why"] + _clock_doubts(host)]
        parts[name] = part | {"trusted": not part["why"]}
    made = combine(list(parts.values()))
    for resource, limit in made["limits"].items():
        limit["configured_total"] = sum(p["limits"][resource]["configured_total"] for p in parts.values())
    return made | {"hosts": {name: _entry(hosts[name], loads, name, part) for name, part in parts.items()}}


def combine_hosts(parts: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """As `combine`, with the worst that was seen of each host in any of the runs."""
    made = combine(parts)
    entries: dict[str, dict[str, Any]] = {}
    for part in parts:
        for name, entry in part.get("hosts", {}).items():
            worst = entries.setdefault(name, dict(entry))
            worst["trusted"] = worst["trusted"] and entry["trusted"]
            for key in ("host_cpu_saturated", "lost_s"):
                seen = [value for value in (worst[key], entry[key]) if value is not None]
                worst[key] = max(seen, default=None)
    return made | ({"hosts": entries} if entries else {})


def _entry(
    host: Mapping[str, Any], loads: Mapping[str, Mapping[str, Any]], name: str, part: Mapping[str, Any]
) -> dict[str, Any]:
    return {
        "nodes": host["nodes"],
        "cores": host["cores"],
        "clock_offset_s": host["clock_offset_s"],
        "host_cpu_saturated": part["host_cpu_saturated"],
        "lost_s": loads.get(name, {}).get("lost_s"),
        "trusted": part["trusted"],
    }


def _clock_doubts(host: Mapping[str, Any]) -> list[str]:
    offset_s = host["clock_offset_s"]
    if abs(offset_s) <= CLOCK_OFFSET_MAX_S:
        return []
    way = "ahead of" if offset_s > 0 else "behind"
    return [
        f"Its clock is {abs(offset_s):.2f} s {way} the driver's, and the times of its attempts are off by that: "
        "keep the hosts' clocks in step (chrony)."
    ]
