"""What the report draws, as compact JSON values: lanes, series on a common grid, and curves of every policy.

Times are in hundredths of a second where there are many of them. Time plots show each policy's first repeat.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence, Set
from typing import TYPE_CHECKING, Any

import numpy as np

from schedbed.deploy.results.lanes import assign_lanes, drawn_nodes
from schedbed.deploy.results.measures.series import Intervals, Steps, active_users
from schedbed.deploy.results.metrics import RunTables, beat_intervals, completion_times, user_intervals
from schedbed.deploy.results.recorded import Key, Recorded
from schedbed.deploy.results.runfile import RunFile
from schedbed.deploy.results.summary import run_keys
from schedbed.deploy.results.table import leaf_of

if TYPE_CHECKING:
    import pandas as pd

BINS = 240
GROUPS_MAX = 14  # stacked areas: the biggest, and the rest as one
ATTEMPTS_MAX = 60_000  # drawn per policy; above that the shortest are left out where they crowd
PIXELS = 2_400  # attempts shorter than the run's end over this are not all told apart
CDF_MAX = 600
STATES = ("succeeded", "failed", "killed", "lost")
PLACES = ("node", "rack", "off")


def build(run: RunFile, recorded: Recorded, summary: Mapping[str, Any]) -> dict[str, Any]:
    """All that the page's script needs."""
    shown = first_runs(run)
    end = max((recorded.end_s(*key) for key in shown), default=0.0) or 1.0
    edges = np.linspace(0.0, end, BINS + 1)
    jobs = job_index([recorded.jobs(*key) for key in shown])
    return {
        "end": round(end, 3),
        "bins": BINS,
        "jobs": list(jobs.values()),
        "users": sorted({job["user"] for job in jobs.values()}),
        "policies": [
            _policy(recorded.tables(*key), list(jobs), edges)
            | {
                "cdf": cdf([recorded.jobs(key[0], repeat) for repeat in run_keys(run, key[0])]),
                "locality": places(summary["policies"][key[0]]),
            }
            for key in shown
        ],
    }


def _policy(mine: RunTables, jobs: list[str], edges: np.ndarray) -> dict[str, Any]:
    return {
        "name": mine.policy,
        "end": round(mine.end_s, 3),
        **lanes(mine, jobs),
        "areas": areas(mine, edges, jobs),
        "util": heat(mine, edges),
        "shares": shares(mine, edges),
        "faults": faults(mine),
    }


def first_runs(run: RunFile) -> list[Key]:
    """The first repeat of every policy that was started."""
    keys = {policy: run_keys(run, policy) for policy in run.policies}
    return [(policy, repeats[0]) for policy, repeats in keys.items() if repeats]


def job_index(shown: Sequence[RunTables]) -> dict[str, dict[str, Any]]:
    """Every job of any policy once, in order of submission; names that several jobs share get the job's id."""
    jobs: dict[str, dict[str, Any]] = {}
    for mine in shown:
        for row in mine.jobs.sort_values(["submit", "job"], kind="stable").to_dict("records"):
            jobs.setdefault(row["job"], {key: row[key] for key in ("job", "name", "user", "queue", "app")})
    uses = Counter(job["name"] for job in jobs.values())
    for job in jobs.values():
        job["name"] = job["name"] if uses[job["name"]] == 1 else f"{job['name']} ({job['job']})"
    return jobs


def lanes(mine: RunTables, jobs: list[str]) -> dict[str, Any]:
    """The rows of the swim-lane (one a slot) and its attempts, column by column."""
    nodes = drawn_nodes([str(node["node"]) for node in mine.nodes], len(mine.attempts))
    shown = mine.attempts[mine.attempts["node"].isin(nodes)]
    placed = _thinned(assign_lanes(shown, mine.end_s), mine.end_s)
    rows = _lane_rows(placed, mine, set(nodes))
    numbers = {row: i for i, row in enumerate(rows)}
    keys = zip(placed["node"], placed["kind"], placed["lane"], strict=True)
    index = {job: i for i, job in enumerate(jobs)}
    start = (placed["from_s"] * 100).round().astype(int)
    reasons = list(dict.fromkeys(r for r in placed["reason"].dropna() if r))
    known = {reason: i for i, reason in enumerate(reasons)}
    tries = placed["attempt"].str.extract(r"_(\d+)_(\d+)$").fillna("0").astype(int)
    return {
        "rows": [[node, kind, int(lane)] for node, kind, lane in rows],
        "racks": {str(node["node"]): str(node["rack"]) for node in mine.nodes},
        "attempts": {
            "row": [numbers[key] for key in keys],
            "start": start.tolist(),
            "lasts": ((placed["to_s"] * 100).round().astype(int) - start).tolist(),
            "job": [index.get(job, -1) for job in placed["job"]],
            "index": tries[0].tolist(),
            "number": tries[1].tolist(),
            "state": [STATES.index(s) if s in STATES else 0 for s in placed["state"]],
            "place": [PLACES.index(p) if p in PLACES else -1 for p in placed["locality"]],
            "shuffled": _shuffle_ends(placed),
            "extra": placed["speculative"].astype(int).tolist(),
            "reason": [known.get(reason, -1) for reason in placed["reason"]],
        },
        "reasons": reasons,
        "left_out": len(shown) - len(placed),
        "nodes_drawn": len(nodes) if len(nodes) < len(mine.nodes) else None,
    }


def _lane_rows(placed: pd.DataFrame, mine: RunTables, drawn: Set[str]) -> list[tuple[str, str, int]]:
    used: dict[tuple[str, str], int] = {}
    for node, kind, lane in zip(placed["node"], placed["kind"], placed["lane"], strict=True):
        used[(node, kind)] = max(used.get((node, kind), 0), int(lane) + 1)
    rows: list[tuple[str, str, int]] = []
    for node in mine.nodes:
        if str(node["node"]) not in drawn:
            continue
        for kind in ("map", "reduce"):
            slots = max(int(node[f"{kind}_slots"]), used.pop((str(node["node"]), kind), 0))
            rows += [(str(node["node"]), kind, lane) for lane in range(slots)]
    return rows + [(*key, lane) for key in sorted(used) for lane in range(used[key])]


def _thinned(placed: pd.DataFrame, end_s: float) -> pd.DataFrame:
    """Every attempt that is wide enough to see, and of the others one for each spot on the screen."""
    if len(placed) <= ATTEMPTS_MAX:
        return placed
    spot = max(end_s, 1e-9) / PIXELS
    long = (placed["to_s"] - placed["from_s"]) >= spot
    keys = placed.assign(spot=(placed["from_s"] / spot).astype(int))[["node", "kind", "lane", "spot"]]
    kept = placed[long | ~keys.duplicated()]
    if len(kept) > ATTEMPTS_MAX:
        longest = (kept["to_s"] - kept["from_s"]).nlargest(ATTEMPTS_MAX).index
        kept = kept.loc[sorted(longest)]
    return kept.reset_index(drop=True)


def _shuffle_ends(placed: pd.DataFrame) -> list[int]:
    """How long a reduce's shuffle took, in hundredths; -1 when there was none."""
    took = (placed["shuffle_end"] - placed["from_s"]).clip(lower=0.0) * 100
    return took.fillna(-1.0).round().astype(int).tolist()


def areas(mine: RunTables, edges: np.ndarray, jobs: list[str]) -> dict[str, Any]:
    """Mean running tasks in each bin, by job, user and queue: the biggest groups, the rest as `others`."""
    made: dict[str, Any] = {}
    for key in ("job", "user", "queue"):
        owner = dict(zip(mine.jobs["job"], mine.jobs[key], strict=True))
        group = mine.attempts["job"].map(owner).astype(object).fillna("?").to_numpy(str)
        tasks = Intervals.of(mine.attempts, group, mine.end_s)
        names = tasks.groups()[:GROUPS_MAX]
        series = [tasks.binned(name, edges) for name in names]
        rest = tasks.binned(None, edges) - np.sum(series, axis=0) if series else np.zeros(len(edges) - 1)
        if rest.max(initial=0.0) > 1e-6:
            names, series = [*names, "others"], [*series, rest]
        made[key] = {"names": names, "series": [_rounded(s, 2) for s in series]}
    return made


def heat(mine: RunTables, edges: np.ndarray) -> dict[str, Any]:
    """Use of each node's declared rates in each bin, in per cent; null where the node said nothing."""
    beats = mine.heartbeats
    covered, t = beat_intervals(beats), beats["t"].to_numpy(float)
    by_node = beats.groupby("node").indices
    made: dict[str, Any] = {"nodes": drawn_nodes([str(node["node"]) for node in mine.nodes], 0)}
    for name, column in (("cpu", "cpu_util"), ("disk", "disk_util"), ("network", "net_util")):
        value = beats[column].fillna(0.0).to_numpy(float)
        rows = [by_node.get(node, np.zeros(0, int)) for node in made["nodes"]]
        made[name] = [_node_heat(t[row], covered[row], value[row], edges) for row in rows]
    return made


def _node_heat(t: np.ndarray, lasts: np.ndarray, value: np.ndarray, edges: np.ndarray) -> list[int | None]:
    """A beat speaks for the time since the one before, unless that is long ago: then the node was away."""
    usual = float(np.median(lasts[lasts > 0])) if (lasts > 0).any() else 1.0
    spoken = np.where(lasts > max(4 * usual, 3.0), usual, lasts)
    area = _spread(t - spoken, t, value, edges)
    cover = _spread(t - spoken, t, np.ones(len(t)), edges)
    known = cover > 0.25 * np.diff(edges)
    share = np.divide(area, cover, out=np.zeros(len(area)), where=known & (cover > 0))
    return [round(100 * s) if k else None for s, k in zip(share.tolist(), known.tolist(), strict=True)]


def _spread(start: np.ndarray, end: np.ndarray, value: np.ndarray, edges: np.ndarray) -> np.ndarray:
    """The area of boxes of height `value` in each bin."""
    steps = Steps.of(np.concatenate([start, end]), np.concatenate([value, -value]))
    return np.diff(steps.integral(edges))


def shares(mine: RunTables, edges: np.ndarray) -> dict[str, Any]:
    """Running slots over (slots / active users), per user and bin, and Jain's index; null while not active."""
    tasks, active = user_intervals(mine), active_users(mine.jobs, mine.end_s)
    widths = np.diff(edges)
    users = np.diff(active.integral(edges)) / widths
    names = tasks.groups()[:GROUPS_MAX]
    series = [tasks.binned(name, edges) * users / max(mine.slots, 1) for name in names]
    there = [_active_bins(mine.jobs[mine.jobs["user"] == name], mine.end_s, edges) for name in names]
    middles = (edges[:-1] + edges[1:]) / 2
    return {
        "users": names,
        "series": [_masked(s, mask) for s, mask in zip(series, there, strict=True)],
        "jain": _masked(tasks.jain_steps(active).at(middles), (users > 0)),
    }


def _active_bins(jobs: pd.DataFrame, end_s: float, edges: np.ndarray) -> np.ndarray:
    return np.diff(active_users(jobs, end_s).integral(edges)) > 1e-9


def faults(mine: RunTables) -> list[list[Any]]:
    """[t, kind, target, until or null] of every injected fault."""
    rows = mine.tables["faults"].to_dict("records")
    return [[r["t"], r["kind"], r["target"], r["until"] if r["until"] == r["until"] else None] for r in rows]


def cdf(repeats: Sequence[RunTables]) -> list[float]:
    """Completion times of all repeats in order; of very many, evenly chosen quantiles."""
    times = np.sort(np.concatenate([completion_times(mine.jobs) for mine in repeats]))
    if len(times) > CDF_MAX:
        times = np.quantile(times, np.linspace(0, 1, CDF_MAX))
    return _rounded(times, 3)


def places(policy: Mapping[str, Any]) -> dict[str, list[float | None]]:
    """Shares of node, rack and off-rack maps by tasks and by bytes."""
    made: dict[str, list[float | None]] = {}
    for by in ("tasks", "bytes"):
        leaves = [leaf_of(policy, ("locality", by, place)) for place in PLACES]
        made[by] = [leaf["mean"] if leaf else None for leaf in leaves]
    return made


def _rounded(values: np.ndarray, digits: int) -> list[float]:
    return np.round(values, digits).tolist()


def _masked(values: np.ndarray, mask: np.ndarray) -> list[float | None]:
    """Rounded, with null where there is nothing to say."""
    keep = mask & ~np.isnan(values)
    return [round(v, 3) if k else None for v, k in zip(values.tolist(), keep.tolist(), strict=True)]
