"""The fidelity of a run on several hosts. Each host is judged separately, and the reasons name the host."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from schedbed.deploy.results.fidelity import assess, combine

if TYPE_CHECKING:
    import pandas as pd

CLOCK_BOUND_MAX_S = 0.05  # Largest error of a corrected time: a tenth of a usual heartbeat.


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
    """Return the fidelity of one run on several hosts, with an entry for each host.

    Fidelity is whether the results can be trusted, because the hosts provided the declared resources.
    `hosts` maps host names to their descriptions in run.json, and `loads` to the load measured during the
    run. `nodes` are the declared nodes of all hosts. The other arguments are passed to `fidelity.assess`.
    Hosts that have neither nodes nor load samples are left out.
    """
    parts: dict[str, dict[str, Any]] = {}
    for name, host in hosts.items():
        load = loads.get(name, {})
        if not host["nodes"] and not load.get("samples"):
            continue
        part = assess(
            machines=machines,
            host_cores=host["cores"] * host.get("core_speed_ratio", 1.0),
            host_samples=load.get("samples", []),
            nodes=[node for node in nodes if node["node"] in host["nodes"]],
            heartbeats=heartbeats[heartbeats["node"].isin(host["nodes"])],
            enforced=enforced,
            counted=counted,
            stretch=stretch,
        )
        part["why"] = [f"Host {name}: {sentence}" for sentence in part["why"] + _clock_doubts(load)]
        parts[name] = part | {"trusted": not part["why"]}
    made = combine(list(parts.values()))
    for resource, limit in made["limits"].items():
        limit["configured_total"] = sum(p["limits"][resource]["configured_total"] for p in parts.values())
    return made | {"hosts": {name: _entry(hosts[name], loads, name, part) for name, part in parts.items()}}


def combine_hosts(parts: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Merge the fidelity of several runs into one, with the worst values of each host.

    Calls `fidelity.combine` for everything except the hosts.
    """
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
        "core_speed_ratio": host.get("core_speed_ratio", 1.0),
        **_clock(host, loads.get(name, {})),
        "host_cpu_saturated": part["host_cpu_saturated"],
        "lost_s": loads.get(name, {}).get("lost_s"),
        "trusted": part["trusted"],
    }


def _clock(host: Mapping[str, Any], load: Mapping[str, Any]) -> dict[str, float]:
    """Return the last measured offset of the host's clock, and the largest error bound, both in seconds.

    Without measurements during the run, the values from before the run are returned.
    """
    readings = load.get("clock") or [[0.0, host["clock_offset_s"], host.get("clock_bound_s", 0.0)]]
    return {
        "clock_offset_s": readings[-1][1],
        "clock_bound_s": max(bound_s for _, _, bound_s in readings),
    }


def _clock_doubts(load: Mapping[str, Any]) -> list[str]:
    """Return a list with a sentence if the host's clock was measured too imprecisely or not at all.

    Otherwise the list is empty. The clock matters because times from another host are corrected by the
    measured difference of the clocks.
    """
    if "clock" not in load:
        return []
    if not load["clock"]:
        return ["Its clock was never compared with the driver's, and the times of its attempts are its own."]
    bound_s = min(bound_s for _, _, bound_s in load["clock"])
    if bound_s <= CLOCK_BOUND_MAX_S:
        return []
    return [
        f"Its clock could be compared with the driver's to {bound_s:.2f} s only, and the times of its attempts may be "
        "off by that: the way between the hosts is slow or busy."
    ]
