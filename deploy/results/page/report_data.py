"""The data that the report's script draws, as JSON: attempts in slots, time series and curves.

Plots over time show each policy's first repeat. Times of attempts and answers are whole hundredths of a
second.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from schedbed.deploy.results.measures.coded import Coded, filled
from schedbed.deploy.results.measures.row_values import row_values, texts_of
from schedbed.deploy.results.measures.series import Intervals, active_users
from schedbed.deploy.results.measures.wait_causes import SPENT
from schedbed.deploy.results.measures.waits import SIZES, job_waits
from schedbed.deploy.results.metrics import RunTables, completion_times, slowdowns, user_intervals
from schedbed.deploy.results.page.bands import Bands, band_lanes, limits, use
from schedbed.deploy.results.recorded import Key, Recorded, assign_lanes
from schedbed.deploy.results.runfile import RunFile
from schedbed.deploy.results.summary import run_keys
from schedbed.deploy.results.table import leaf_of

if TYPE_CHECKING:
    import pandas as pd

JOB_COLUMNS = ("job", "name", "user", "queue", "app")
BINS = 240
GROUPS_MAX = 14  # The most stacked areas; smaller groups are added up.
ATTEMPTS_MAX = 40_000  # Drawn for all policies; beyond it, short ones are left out.
PIXELS = 2_400  # The width of the plot; several attempts may share a pixel.
CDF_MAX = 600
STATES = ("succeeded", "failed", "killed", "lost")
PLACES = ("node", "rack", "off")


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """The plots' shared data: the end of the time axis, `jobs_of_all`, and bands of a large cluster."""

    end_s: float
    jobs: pd.DataFrame
    bands: Bands | None
    policies: int


def frame(run: RunFile, recorded: Recorded) -> Frame:
    """Return what the plots of all policies of a run share. `recorded` reads the run's tables."""
    shown = first_runs(run)
    return Frame(
        end_s=max((recorded.end_s(*key) for key in shown), default=0.0) or 1.0,
        jobs=jobs_of_all([recorded.jobs(*key) for key in shown]),
        bands=Bands.of(run.nodes),
        policies=len(shown),
    )


def build(run: RunFile, recorded: Recorded) -> dict[str, Any]:
    """Return the data that the report's script draws, apart from what `add_figures` adds."""
    made = frame(run, recorded)
    return joined(made, [of_policy(made, run, recorded, *key) for key in first_runs(run)])


def of_policy(frame: Frame, run: RunFile, recorded: Recorded, policy: str, repeat: int) -> dict[str, Any]:
    """Return the data of one policy's plots of a repeat. Its `answers` are for the page's table of decisions."""
    mine, bands = recorded.tables(policy, repeat), frame.bands
    edges = np.linspace(0.0, frame.end_s, BINS + 1)
    return (
        _policy(mine, edges)
        | (
            slot_lanes(mine, frame.jobs["job"].tolist(), frame.policies)
            if bands is None
            else {"bands": band_lanes(mine, bands, frame.end_s)}
        )
        | {
            "use": use(mine, edges, bands, simulated=run.machines == "sim"),
            "limits": limits(mine),
            "answers": [[*pair, count] for pair, count in sums(mine).items()],
            "spread": spreads([recorded.jobs(policy, each).counted for each in run_keys(run, policy)]),
        }
    )


def joined(frame: Frame, policies: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the data of the plots of all policies. `policies` are the results of `of_policy`."""
    named = None if frame.bands is None else _named_jobs(policies)
    return {
        "end": round(frame.end_s, 3),
        "bins": BINS,
        "spent": list(SPENT),
        "jobs": shown_jobs(frame.jobs, named),
        "users": sorted(frame.jobs["user"].unique().tolist()),
        "policies": policies,
    }


def add_figures(data: dict[str, Any], summary: Mapping[str, Any]) -> None:
    """Add each policy's locality, makespan and parts of jobs' times, from summary.json, to the result of `build`."""
    for policy in data["policies"]:
        figures = summary["policies"][policy["name"]]
        policy["locality"] = places(figures)
        policy["makespan"] = (leaf_of(figures, ("makespan_s",)) or {"mean": None})["mean"]
        policy["time"] = times(figures)


def _policy(mine: RunTables, edges: np.ndarray) -> dict[str, Any]:
    return {
        "name": mine.policy,
        "end": round(mine.end_s, 3),
        "areas": areas(mine, edges),
        "shares": shares(mine, edges),
        "faults": faults(mine),
    }


def _named_jobs(policies: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the ids, once each, of jobs drawn separately in the plots of racks and running tasks."""
    return list(
        dict.fromkeys(
            name
            for policy in policies
            for plot in ("bands", "areas")
            for name in policy[plot]["job"]["names"]
        )
    )


def times(figures: Mapping[str, Any]) -> dict[str, list[float | None]]:
    """Return a job's mean seconds in each part of `SPENT`, for `all` and each size class with jobs."""
    found = figures.get("time_s", {})
    groups = {"all": found} | {
        size: found["per_size"][size] for size in SIZES if size in found.get("per_size", {})
    }
    return {name: [_mean_of(group.get(part)) for part in SPENT] for name, group in groups.items()}


def _mean_of(leaf: Mapping[str, Any] | None) -> float | None:
    return None if leaf is None or leaf["mean"] is None else round(leaf["mean"], 4)


def first_runs(run: RunFile) -> list[Key]:
    """Return the first repeat of each policy that was started, as (policy, repeat)."""
    keys = {policy: run_keys(run, policy) for policy in run.policies}
    return [(policy, repeats[0]) for policy, repeats in keys.items() if repeats]


def jobs_of_all(shown: Sequence[RunTables]) -> pd.DataFrame:
    """Return the jobs of all runs, in order of submission. Equal names get the id added."""
    import pandas as pd

    if not shown:
        return pd.DataFrame({column: [] for column in JOB_COLUMNS})
    rows = [mine.jobs.sort_values(["submit", "job"], kind="stable")[list(JOB_COLUMNS)] for mine in shown]
    jobs = pd.concat(rows, ignore_index=True).drop_duplicates("job", ignore_index=True)
    several = jobs["name"].duplicated(keep=False)
    return jobs.assign(name=jobs["name"].where(~several, jobs["name"] + " (" + jobs["job"] + ")"))


def shown_jobs(jobs: pd.DataFrame, named: Sequence[str] | None) -> list[dict[str, Any]]:
    """Return the rows of the table `jobs` as dictionaries: of all jobs, or of those whose ids are `named`."""
    if named is None:
        return list(row_values(jobs))
    rows = {row["job"]: row for row in row_values(jobs[jobs["job"].isin(named)].reset_index(drop=True))}
    return [rows[job] for job in named if job in rows]


def slot_lanes(mine: RunTables, jobs: list[str], policies: int) -> dict[str, Any]:
    """Return the plot of slots: rows, attempts and offers. More `policies` leave fewer attempts for each."""
    most = ATTEMPTS_MAX // max(policies, 1)
    placed = _thinned(assign_lanes(mine.attempts, mine.end_s), mine.end_s, most)
    rows = _lane_rows(placed, mine)
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
        "offers": of_attempts(mine, placed, jobs),
        "left_out": len(mine.attempts) - len(placed),
    }


def _lane_rows(placed: pd.DataFrame, mine: RunTables) -> list[tuple[str, str, int]]:
    used: dict[tuple[str, str], int] = {}
    for node, kind, lane in zip(placed["node"], placed["kind"], placed["lane"], strict=True):
        used[(node, kind)] = max(used.get((node, kind), 0), int(lane) + 1)
    rows: list[tuple[str, str, int]] = []
    for node in mine.nodes:
        for kind in ("map", "reduce"):
            slots = max(int(node[f"{kind}_slots"]), used.pop((str(node["node"]), kind), 0))
            rows += [(str(node["node"]), kind, lane) for lane in range(slots)]
    return rows + [(*key, lane) for key in sorted(used) for lane in range(used[key])]


def _thinned(placed: pd.DataFrame, end_s: float, most: int) -> pd.DataFrame:
    """Return at most `most` attempts, preferably long. Of the short ones, a slot keeps one per pixel."""
    if len(placed) <= most:
        return placed
    spot = max(end_s, 1e-9) / PIXELS
    long = (placed["to_s"] - placed["from_s"]) >= spot
    keys = placed.assign(spot=(placed["from_s"] / spot).astype(int))[["node", "kind", "lane", "spot"]]
    kept = placed[long | ~keys.duplicated()]
    if len(kept) > most:
        longest = (kept["to_s"] - kept["from_s"]).nlargest(most).index
        kept = kept.loc[sorted(longest)]
    return kept.reset_index(drop=True)


def _shuffle_ends(placed: pd.DataFrame) -> list[int]:
    """Return each attempt's shuffle in hundredths of a second, or -1 without one."""
    took = (placed["shuffle_end"] - placed["from_s"]).clip(lower=0.0) * 100
    return took.fillna(-1.0).round().astype(int).tolist()


def areas(mine: RunTables, edges: np.ndarray) -> dict[str, Any]:
    """Return the mean number of running tasks per time bin by job, user and queue; all but the biggest are `others`."""
    made: dict[str, Any] = {}
    for key in ("job", "user", "queue"):
        known = mine.jobs[mine.jobs[key].notna()]
        group = Coded.mapped(
            mine.attempts["job"], dict(zip(texts_of(known["job"]), texts_of(known[key]), strict=True))
        )
        tasks = Intervals.of(mine.attempts, group, mine.end_s)
        names = tasks.groups()[:GROUPS_MAX]
        series = [tasks.binned(name, edges) for name in names]
        rest = tasks.binned(None, edges) - np.sum(series, axis=0) if series else np.zeros(len(edges) - 1)
        if rest.max(initial=0.0) > 1e-6:
            names, series = [*names, "others"], [*series, rest]
        made[key] = {"names": names, "series": [_rounded(s, 2) for s in series]}
    return made


def shares(mine: RunTables, edges: np.ndarray) -> dict[str, Any]:
    """Return users' ratios of running slots to slots / active users, and Jain's index, per time bin.

    Only users with the longest running time are included. A ratio is null while the user is not active.
    """
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
        "jain": _masked(tasks.jain_at(active, middles), (users > 0)),
    }


def _active_bins(jobs: pd.DataFrame, end_s: float, edges: np.ndarray) -> np.ndarray:
    return np.diff(active_users(jobs, end_s).integral(edges)) > 1e-9


def faults(mine: RunTables) -> list[list[Any]]:
    """Return [t, kind, target, until] in seconds for each fault; `until` is null if it has no end."""
    rows = mine.tables["faults"].to_dict("records")
    return [[r["t"], r["kind"], r["target"], r["until"] if r["until"] == r["until"] else None] for r in rows]


def spreads(repeats: Sequence[RunTables]) -> dict[str, list[float]]:
    """Return sorted lists of the completion times, waits and slowdowns of the jobs of all repeats."""
    return {
        "completion": quantiles([completion_times(mine.jobs) for mine in repeats]),
        "wait": quantiles([job_waits(mine.jobs) for mine in repeats]),
        "slowdown": quantiles([slowdowns(mine.jobs, mine.isolated_s) for mine in repeats]),
    }


def quantiles(repeats: Sequence[np.ndarray]) -> list[float]:
    """Return all repeats' values sorted, without NaN, or `CDF_MAX` quantiles if there are more."""
    values = np.sort(np.concatenate(repeats)) if repeats else np.zeros(0)
    values = values[~np.isnan(values)]
    if len(values) > CDF_MAX:
        values = np.quantile(values, np.linspace(0, 1, CDF_MAX))
    return _rounded(values, 3)


def places(policy: Mapping[str, Any]) -> dict[str, list[float | None]]:
    """Return the shares of node-local, rack-local and off-rack maps, by number and by size of input."""
    made: dict[str, list[float | None]] = {}
    for by in ("tasks", "bytes"):
        leaves = [leaf_of(policy, ("locality", by, place)) for place in PLACES]
        made[by] = [leaf["mean"] if leaf else None for leaf in leaves]
    return made


def _rounded(values: np.ndarray, digits: int) -> list[float]:
    return np.round(values, digits).tolist()


def _masked(values: np.ndarray, mask: np.ndarray) -> list[float | None]:
    """Return rounded numbers, with None for NaN and where the mask is false."""
    keep = mask & ~np.isnan(values)
    return [round(v, 3) if k else None for v, k in zip(values.tolist(), keep.tolist(), strict=True)]


# The policies' answers to offers of slots, for the report: counts by reason, and reasons for each attempt.

PASSES_MAX = 3_000
"""The most runs of equal answers per policy in the page; those with the fewest answers are left out."""
NUMBER = re.compile(r"\d+(?:\.\d+)?")


def sums(mine: RunTables) -> dict[tuple[str, str], int]:
    """Count answers to offers by (answer, reason), with numbers in reasons ignored."""
    data = mine.tables["decisions"]
    if not len(data):
        return {}
    answers, reasons = Coded.of(data["answer"]), _kinds(data["reason"])
    pairs, counts = np.unique(answers.codes * len(reasons.names) + reasons.codes, return_counts=True)
    places = zip(*np.divmod(pairs, len(reasons.names)), strict=True)
    return {
        (str(answers.names[answer]), str(reasons.names[reason])): count
        for (answer, reason), count in zip(places, counts.tolist(), strict=True)
    }


def of_attempts(mine: RunTables, drawn: pd.DataFrame, jobs: Sequence[str]) -> dict[str, Any]:
    """Return why the attempts in `drawn` were launched, and when the policy skipped or rejected whole jobs.

    `launched` has each attempt's index in `reasons`, or -1. `passes` has skips and rejections in columns,
    with consecutive equal answers about a job in one row: `job` (index in `jobs`), `kind` (0 map, 1 reduce),
    `from` and `to` in hundredths of a second, `count` (of answers), `nodes` (their number) and `reason`
    (index in `reasons`). `left_out` is the number of other answers.
    """
    reasons: dict[str, int] = {}
    launched = [-1 if not why else reasons.setdefault(why, len(reasons)) for why in _launches(mine, drawn)]
    passes = _stretches(mine.tables["decisions"])
    kept = passes.nlargest(PASSES_MAX, "count").sort_values("first", kind="stable")
    places = {job: place for place, job in enumerate(jobs)}
    return {
        "launched": launched,
        "passes": {
            "job": [places.get(job, -1) for job in kept["job"]],
            "kind": (kept["kind"] == "reduce").astype(int).tolist(),
            "from": (kept["first"] * 100).round().astype(int).tolist(),
            "to": (kept["last"] * 100).round().astype(int).tolist(),
            "count": kept["count"].tolist(),
            "nodes": kept["nodes"].tolist(),
            "reason": [
                reasons.setdefault(f"{answer}: {why}" if why else answer, len(reasons))
                for answer, why in zip(kept["answer"], kept["reason"], strict=True)
            ],
        },
        "reasons": list(reasons),
        "left_out": int(passes["count"].sum() - kept["count"].sum()),
    }


def _launches(mine: RunTables, drawn: pd.DataFrame) -> list[str]:
    """Return each attempt's reason or "": that of the last answer before it that launched its task on its node."""
    data = mine.tables["decisions"]
    data = data[data["answer"].isin(["launch", "split"])].sort_values("t", kind="stable")
    found: dict[tuple[str, str], list[tuple[float, str]]] = {}
    why = filled(data["reason"]).astype(str)
    for task, node, t, reason in zip(data["task"], data["node"], data["t"], why, strict=True):
        found.setdefault((task, node), []).append((t, reason))
    made: list[str] = []
    for task, node, assigned in zip(drawn["task"], drawn["node"], drawn["assigned"], strict=True):
        before = [reason for t, reason in found.get((task, node), ()) if t <= assigned + 1e-6]
        made.append(before[-1] if before else "")
    return made


def _stretches(decisions: pd.DataFrame) -> pd.DataFrame:
    """Return a row (answer, reason, first and last time, counts) per span of equal answers about whole jobs."""
    import pandas as pd

    whole = decisions["task"].isna() | (decisions["task"] == "")
    data = decisions[whole & decisions["answer"].isin(["skip", "reject"])]
    kinds = _kinds(data["reason"])
    reason = pd.Series(kinds.names.astype(object)[kinds.codes], index=data.index, dtype="str")
    data = data.assign(reason=reason).sort_values(["job", "kind", "t"], kind="stable")
    keys = data[["job", "kind", "answer", "reason"]]
    changes = (keys != keys.shift()).any(axis=1).to_numpy() if len(data) else np.zeros(0, bool)
    return (
        data.assign(stretch=np.cumsum(changes))
        .groupby("stretch", sort=False)
        .agg(
            job=("job", "first"),
            kind=("kind", "first"),
            answer=("answer", "first"),
            reason=("reason", "first"),
            first=("t", "min"),
            last=("t", "max"),
            count=("t", "size"),
            nodes=("node", "nunique"),
        )
    )


def _kinds(reasons: pd.Series) -> Coded:
    """Replace numbers in reasons by `…`, so that similar ones become equal."""
    coded = Coded.of(filled(reasons))
    return coded.renamed({name: NUMBER.sub("…", name) for name in coded.names.tolist()})
