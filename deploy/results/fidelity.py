"""The fidelity of a run: whether its results can be trusted, because the host provided the declared resources."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from schedbed.deploy.results.measures.heartbeat_spans import HeartbeatSpans
from schedbed.deploy.results.metrics import RESOURCES, UTIL_COLUMN

if TYPE_CHECKING:
    import pandas as pd

SATURATED_SHARE = 0.95  # Use of the host's CPU above which some process waited.
SATURATED_TIME_MAX = 0.05  # Largest share of the run's time that may be saturated.
OVER_OFTEN_MAX = 1.10  # Achieved / declared in 5% of windows; includes the emulation's work.
OVER_ONCE_MAX = 1.20  # Achieved / declared in any window.
WINDOW_S = 5.0  # A limit applies to the mean over this time, since bursts are allowed.

SIMULATED = "Simulated: no host could be too slow. How near a simulation comes to live runs, `schedbed validate` says."

UNITS = {"cpu": "host cores", "disk": "bytes/s", "network": "bytes/s", "memory": "bytes"}
NODES_TOLD = 200
NODES_NAMED = 5  # The most nodes named in a sentence.
KERNEL = "kernel"  # The name of the kernel's counter in `cluster.tasktracker`.


def assess(
    *,
    machines: str,
    host_cores: float | None,
    host_samples: Sequence[Sequence[float]],
    nodes: Sequence[Mapping[str, Any]],
    heartbeats: pd.DataFrame,
    enforced: Mapping[str, str] | None = None,
    counted: Mapping[str, str] | None = None,
    stretch: float = 1.0,
) -> dict[str, Any]:
    """Return a run's `machines`, `host_cpu_saturated` (of the time), `limits`, `trusted` and `why`
    (sentences).

    `enforced` is what limits each resource, `counted` what measures it: `kernel` or the agent. A simulated
    run is trusted unless a node exceeded a limit, and `why` says that it is simulated. Memory by an agent
    never makes a run untrusted, since shared pages count several times.
    """
    enforced, counted = enforced or {}, counted or {}
    saturated = _saturated(host_samples)
    shares = _shares(nodes, heartbeats)
    limits = {
        resource: _limit(resource, nodes, shares[resource])
        | {"enforced": enforced.get(resource), "counted": counted.get(resource)}
        for resource in UNITS
    }
    why = [] if machines == "sim" else _host_doubts(saturated, host_cores, nodes, heartbeats, stretch)
    for resource, limit in limits.items():
        if resource in RESOURCES or limit["counted"] == KERNEL:
            why += _limit_doubts(resource, shares[resource], limit["counted"])
    trusted = not why
    if machines == "sim":
        why.append(SIMULATED)
    return {
        "machines": machines,
        "host_cpu_saturated": saturated,
        "limits": limits,
        "trusted": trusted,
        "why": why,
    }


def doubt_unfinished(
    judged: dict[str, Any], planned: Sequence[str], ended: Collection[str], *, interrupted: bool = False
) -> dict[str, Any]:
    """Mark a run as not trusted if planned jobs did not end or it was interrupted.

    It cannot be compared with a run of all jobs.
    """
    missing = sum(job not in ended for job in planned)
    if missing:
        why = f"The run ended before {missing} of its {len(planned)} jobs did: its figures cover the others only."
    elif interrupted:
        why = "The run was interrupted: its figures are those of a part of it."
    else:
        return judged
    return judged | {"trusted": False, "why": [why, *judged["why"]]}


def doubts(judged: Mapping[str, Any]) -> list[str]:
    """Return why a run is not trusted, nothing for a trusted one."""
    return [] if judged["trusted"] else [sentence for sentence in judged["why"] if sentence != SIMULATED]


def combine(parts: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Merge runs' fidelity: trusted if all are, with highest values and each reason once."""
    why = list(dict.fromkeys(sentence for part in parts for sentence in part["why"]))
    saturated = [p["host_cpu_saturated"] for p in parts if p["host_cpu_saturated"] is not None]
    limits: dict[str, Any] = {}
    for part in parts:
        for resource, limit in part["limits"].items():
            limits[resource] = _higher(limits.get(resource), limit)
    impossible = list(dict.fromkeys(line for part in parts for line in part.get("impossible", ())))
    return {
        "machines": parts[0]["machines"] if parts else None,
        "host_cpu_saturated": max(saturated) if saturated else None,
        "limits": limits,
        "trusted": bool(parts) and all(part["trusted"] for part in parts),
        "why": why if parts else ["no run was measured"],
        **({"impossible": impossible} if impossible else {}),
    }


def _higher(one: Mapping[str, Any] | None, other: Mapping[str, Any]) -> dict[str, Any]:
    """Return the limit of the run that used more, with each node's higher use."""
    if one is None:
        return dict(other)
    higher = dict(max(one, other, key=lambda limit: limit["achieved_max"] or 0.0))
    if "nodes" in one and "nodes" in other:
        both = {**other["nodes"], **one["nodes"]}
        for name, node in other["nodes"].items():
            both[name] = max(both[name], node, key=lambda each: each["achieved_max"] or 0.0)
        higher["nodes"] = both
    return higher


def _saturated(samples: Sequence[Sequence[float]]) -> float | None:
    """Return the share of the time with a saturated CPU. A sample is for the time since the last one."""
    if not samples:
        return None
    t = np.array([float(sample[0]) for sample in samples])
    busy = np.array([float(sample[1]) for sample in samples]) >= SATURATED_SHARE
    gaps = np.diff(t, prepend=t[0] - (np.median(np.diff(t)) if len(t) > 1 else 1.0))
    return float(np.average(busy, weights=np.clip(gaps, 1e-9, None)))


def _host_doubts(
    saturated: float | None,
    host_cores: float | None,
    nodes: Sequence[Mapping[str, Any]],
    heartbeats: pd.DataFrame,
    stretch: float,
) -> list[str]:
    why: list[str] = []
    declared = sum(_rate("cpu", node) for node in nodes) / stretch
    if host_cores is not None and declared > host_cores * 1.001:
        why.append(
            f"The nodes together are declared {declared:.3g} host cores and the host has {host_cores:g}: "
            "lower core_speed, cores or nodes, or say stretch: auto."
        )
    if saturated is None:
        why.append("The load of the host was not sampled, so nobody knows whether it kept up.")
    elif saturated > SATURATED_TIME_MAX:
        why.append(
            f"The host's CPU was saturated (above {SATURATED_SHARE:.0%}) for {saturated:.0%} of the time; "
            f"more than {SATURATED_TIME_MAX:.0%} is not trusted."
        )
        if host_cores is not None:
            used = _used_cores(nodes, heartbeats) / stretch
            why[-1] += (
                f" Tasks used {used:.1f} of its {host_cores:g} cores on average, other programs and the emulation the "
                "rest: end other programs, or declare fewer or slower nodes."
            )
    return why


def _used_cores(nodes: Sequence[Mapping[str, Any]], heartbeats: pd.DataFrame) -> float:
    """Return the host cores that all attempts would use on average at full speed (a stretch of 1)."""
    shares = window_shares(heartbeats, ["cpu"])["cpu"]
    return sum(
        _rate("cpu", node) * float(shares[str(node["node"])].mean())
        for node in nodes
        if str(node["node"]) in shares
    )


def _limit(
    resource: str, nodes: Sequence[Mapping[str, Any]], shares: Mapping[str, np.ndarray]
) -> dict[str, Any]:
    """Return declared and measured rate of the node that used most of its rate.

    Up to `NODES_TOLD` nodes, `nodes` has every one's. One that lived too briefly has no measured rate.
    """
    rates = {str(node["node"]): _rate(resource, node) for node in nodes}
    made = {"unit": UNITS[resource], "configured_total": sum(rates.values())}
    most = {
        name: (float(np.percentile(shares[name], 95)), float(shares[name].max()))
        for name, rate in rates.items()
        if rate > 0 and len(shares.get(name, ()))
    }
    if len(rates) <= NODES_TOLD:
        made["nodes"] = {
            name: _achieved(rate, *most.get(name, ())) for name, rate in rates.items() if rate > 0
        }
    if not most:
        return made | {"node": None} | _achieved(max(rates.values(), default=0.0))
    worst = max(most, key=lambda name: (most[name], name))
    return made | {"node": worst} | _achieved(rates[worst], *most[worst])


def _achieved(rate: float, p95: float | None = None, most: float | None = None) -> dict[str, float | None]:
    """Return declared and measured rates, None if unknown; `p95` and `most` are shares of the rate."""
    return {
        "configured": rate,
        "achieved_p95": None if p95 is None else p95 * rate,
        "achieved_max": None if most is None else most * rate,
    }


def _shares(nodes: Sequence[Mapping[str, Any]], heartbeats: pd.DataFrame) -> dict[str, dict[str, np.ndarray]]:
    """Return, by resource and node, the used share of the declared rate in each time window."""
    sizes = {str(node["node"]): _rate("memory", node) for node in nodes}
    return {**window_shares(heartbeats, RESOURCES), "memory": _memory_shares(sizes, heartbeats)}


def _memory_shares(sizes: Mapping[str, float], heartbeats: pd.DataFrame) -> dict[str, np.ndarray]:
    """Return each node's used share of memory by heartbeat; agents count shared pages several times."""
    held = heartbeats["memory_bytes"].fillna(0.0).groupby(heartbeats["node"], sort=True)
    return {str(node): rows.to_numpy(float) / sizes[str(node)] for node, rows in held if sizes.get(str(node))}


def window_shares(heartbeats: pd.DataFrame, resources: Sequence[str]) -> dict[str, dict[str, np.ndarray]]:
    """Return mean shares by resource and node in windows of WINDOW_S, at least half covered by heartbeats."""
    spans = HeartbeatSpans.of(heartbeats)
    areas = [
        heartbeats[UTIL_COLUMN[each]].fillna(0.0).to_numpy(float)[spans.order] * spans.covered
        for each in resources
    ]
    nodes, (covered, *sums) = spans.sums(WINDOW_S, [spans.covered, *areas])
    kept = np.flatnonzero(covered > WINDOW_S / 2)
    rows = nodes[kept].rows()
    shares = {each: area[kept] / covered[kept] for each, area in zip(resources, sums, strict=True)}
    return {each: {node: values[mine] for node, mine in rows.items()} for each, values in shares.items()}


def _limit_doubts(resource: str, shares: Mapping[str, np.ndarray], counted: str | None) -> list[str]:
    """Return a sentence about nodes above their limit often or by far, if any."""
    over: dict[str, float] = {}
    for node, windows in shares.items():
        often, most = (
            (float(np.percentile(windows, 95)), float(windows.max())) if len(windows) else (0.0, 0.0)
        )
        if often > OVER_OFTEN_MAX or most > OVER_ONCE_MAX:
            over[node] = most
    if not over:
        return []
    worst = sorted(over, key=lambda node: (-over[node], node))
    told = ", ".join(f"{node} ({over[node]:.2f})" for node in worst[1:NODES_NAMED])
    others = f", and so did {told}" if told else ""
    others += f" and {len(worst) - NODES_NAMED} more" if len(worst) > NODES_NAMED else ""
    by = f" by the {counted}'s count" if counted else ""
    what = "memory" if resource == "memory" else f"{resource} rate over {WINDOW_S:g} s"
    return [
        f"Node {worst[0]} used {over[worst[0]]:.2f} times its declared {what}{by}{others}: the limit did not hold."
    ]


def _rate(resource: str, node: Mapping[str, Any]) -> float:
    if resource == "cpu":
        return float(node["cores"]) * float(node["core_speed"])
    key = {"disk": "disk_bps", "network": "network_bps", "memory": "memory_bytes"}[resource]
    return float(node[key] or 0.0)


# The fidelity of a run on several hosts. Each host is judged separately, and the reasons name the host.

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
    """Return the fidelity of a run on several hosts, each with an entry unless it had neither nodes nor
    samples.

    `hosts` is as in run.json, and `loads` was measured. For the rest see `fidelity.assess`.
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
    """Merge runs' fidelity, with the worst values of each host."""
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
    """Return the clock's last offset and largest bound, by default those before the run."""
    readings = load.get("clock") or [[0.0, host["clock_offset_s"], host.get("clock_bound_s", 0.0)]]
    return {
        "clock_offset_s": readings[-1][1],
        "clock_bound_s": max(bound_s for _, _, bound_s in readings),
    }


def _clock_doubts(load: Mapping[str, Any]) -> list[str]:
    """Return a sentence if the clock, which corrects the host's times, was measured badly or not at all."""
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
