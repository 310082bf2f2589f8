"""Sentences on how policies differ and why, each with its evidence; docs/statistics.md has the grounds for them.

A sentence says `beats` only if the table's test separates the two policies. Below `stats.REPEATS_LEAST` repeats
nothing is tested: the sentences then describe this run only, and state so.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from schedbed.deploy.results import stats
from schedbed.deploy.results.comparison import LEVEL, Policies, is_told_apart
from schedbed.deploy.results.measures.series import Intervals
from schedbed.deploy.results.measures.waits import SIZES, size_of
from schedbed.deploy.results.metrics import RunTables
from schedbed.deploy.results.shown_figures import FIGURES, Figure, leaf_of, seconds

SENTENCES = 3
LEAST = 0.01  # Smaller shares of difference are not told where nothing is tested.
HELD = 0.5  # A job that others waited behind held at least so much of the slots that were in use meanwhile.
SPOKEN = {
    "completion, mean": "mean completion",
    "makespan": "makespan",
    "slowdown, mean": "mean slowdown",
    "completion, p95": "the 95th percentile of completion",
    "wait of a job, mean": "the mean wait of a job",
}
"""Rows of the table that sentences speak of, the first ones first, with their names in a sentence."""
COUNTED = {
    "late deadlines": ("is late for", "of the deadlines"),
    "node-local maps": ("runs", "% of its maps beside their data"),
}
REASONS: Mapping[str, tuple[tuple[str, ...], str]] = {
    "wait": (("slot", "share", "offer", "splitting"), "wait {0} s instead of {1} s for a slot"),
    "data": (("data",), "wait {0} s instead of {1} s for a node with their data"),
    "shuffle": (("shuffle",), "shuffle for {0} s instead of {1} s"),
    "again": (("again",), "lose {0} s instead of {1} s to attempts whose result was not used"),
    "run": (("run",), "compute, read and write for {0} s instead of {1} s"),
}
"""What a difference of completion can come from: parts of `time_s`, and the words for it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Why:
    """A sentence and the numbers behind it."""

    text: str
    evidence: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedPair:
    """A policy that is better than another one in a row of the table; `tested` is whether a test confirms that."""

    figure: Figure
    winner: str
    loser: str
    tested: bool


def sentences(summary: Mapping[str, Any], runs: Mapping[str, RunTables], most: int = SENTENCES) -> list[Why]:
    """Return at most `most` sentences; an empty list if no difference is worth one. `runs` are the policies' first
    repeats."""
    policies: Policies = summary["policies"]
    made: list[Why] = []
    for pair in _pairs(policies):
        if len(made) < most:
            found = _timed(policies, pair, runs) if pair.figure.label in SPOKEN else _counted(policies, pair)
            made += [found] if found else []
    return made


def _pairs(policies: Policies) -> Iterator[ComparedPair]:
    """Yield the differences worth a sentence: in each row, the best policy against the first one.

    If the first policy is the best, it is compared with the worst one of that row.
    """
    if len(policies) < 2:
        return
    by_label = {figure.label: figure for figure in FIGURES}
    headline = ("completion, mean", "makespan", "late deadlines", "node-local maps")
    rest = [label for label in SPOKEN if label not in headline]
    told, favourite = 0, ""
    for label in (*headline, *rest):
        if label in rest and told:
            return
        pair = _pair(policies, by_label[label], favourite)
        if pair is not None:
            told += 1
            favourite = favourite or pair.winner
            yield pair


def _pair(policies: Policies, figure: Figure, favourite: str = "") -> ComparedPair | None:
    """Return the better policy of a row and its rival, or None if they cannot be told apart; `favourite` wins a
    tie."""
    means = {
        name: leaf["mean"]
        for name, policy in policies.items()
        if (leaf := leaf_of(policy, figure.path)) is not None and leaf["mean"] is not None
    }
    first = next(iter(policies))
    if len(means) < 2 or first not in means:
        return None
    ordered = sorted(means, key=lambda name: (-figure.better * means[name], name != favourite))
    winner, loser = (ordered[0], first) if ordered[0] != first else (first, ordered[-1])
    if means[winner] == means[loser]:
        return None
    other = loser if winner == first else winner
    if _repeats(policies, (winner, loser), figure) < stats.REPEATS_LEAST:
        enough = abs(means[winner] - means[loser]) >= LEAST * max(abs(means[winner]), abs(means[loser]))
        return ComparedPair(figure=figure, winner=winner, loser=loser, tested=False) if enough else None
    told = is_told_apart(policies, other, figure)
    return ComparedPair(figure=figure, winner=winner, loser=loser, tested=True) if told else None


def _repeats(policies: Policies, names: Sequence[str], figure: Figure) -> int:
    leaves = [leaf_of(policies[name], figure.path) for name in names]
    return min(len([v for v in leaf["repeats"] if v is not None]) if leaf else 0 for leaf in leaves)


def _both(
    policies: Policies, pair: ComparedPair, path: Sequence[str]
) -> tuple[np.ndarray, np.ndarray] | None:
    """Return the values of winner and loser at a path, one per repeat; None unless both have the same repeats."""
    leaves = [leaf_of(policies[name], path) for name in (pair.winner, pair.loser)]
    if any(leaf is None or None in leaf["repeats"] for leaf in leaves):
        return None
    mine, others = (np.array(leaf["repeats"], float) for leaf in leaves if leaf is not None)
    return (mine, others) if len(mine) == len(others) and len(mine) else None


def _timed(policies: Policies, pair: ComparedPair, runs: Mapping[str, RunTables]) -> Why | None:
    both = _both(policies, pair, pair.figure.path)
    if both is None or not both[1].all():
        return None
    mine, others = both
    gains = 100 * (others - mine) / others
    interval = stats.mean_interval(gains.tolist())
    if pair.tested and (interval is None or interval[0] <= 0):
        return None
    what = SPOKEN[pair.figure.label]
    if pair.tested and interval is not None:
        by = f"{gains.mean():.0f}% [{interval[0]:.0f}, {interval[1]:.0f}]"
        head = f"{pair.winner} beats {pair.loser} on {what} by {by}"
    else:
        head = f"{what[0].upper()}{what[1:]} is {gains.mean():.0f}% less under {pair.winner} than under {pair.loser}"
    because, proof = _because(policies, pair, runs) if pair.figure.label != "makespan" else ("", "")
    return Why(text=f"{head}{because}.", evidence=_numbers(policies, pair) + proof)


def _counted(policies: Policies, pair: ComparedPair) -> Why | None:
    verb, of = COUNTED[pair.figure.label]
    values = [leaf_of(policies[name], pair.figure.path) for name in (pair.winner, pair.loser)]
    winner, loser = (pair.figure.show(leaf["mean"]) for leaf in values if leaf is not None)
    space = "" if of.startswith("%") else " "
    text = f"{pair.winner} {verb} {winner}{space}{of}, {pair.loser} {loser}{'%' if not space else ''}."
    return Why(text=text, evidence=_numbers(policies, pair))


def _numbers(policies: Policies, pair: ComparedPair) -> str:
    """Return both policies' values as the table shows them, and the adjusted p-value."""
    shown: list[str] = []
    for name in (pair.winner, pair.loser):
        leaf = leaf_of(policies[name], pair.figure.path) or {"mean": 0.0, "ci95": None}
        ends = "" if leaf["ci95"] is None else " [{}, {}]".format(*map(pair.figure.show, leaf["ci95"]))
        shown.append(f"{name} {pair.figure.show(leaf['mean'])}{ends}")
    unit = f" {pair.figure.unit}" if pair.figure.unit else ""
    told = f"{pair.figure.label}: {', '.join(shown)}{unit}"
    for name in (pair.winner, pair.loser):
        paired = leaf_of(policies[name].get("paired", {}), pair.figure.path)
        if pair.tested and paired is not None and paired.get("p_holm") is not None:
            told += f"; adjusted p {paired['p_holm']:.2g} with {len(paired['repeats'])} repeats"
    return told


def _because(policies: Policies, pair: ComparedPair, runs: Mapping[str, RunTables]) -> tuple[str, str]:
    """Return where most of the difference comes from, and the evidence; two empty texts if no test confirms it."""
    shares = _sizes(runs.get(pair.loser))
    found: list[tuple[float, str, str, np.ndarray, np.ndarray]] = []
    for size, share in shares.items():
        for reason, (parts, _) in REASONS.items():
            sums = [_both(policies, pair, ("time_s", "per_size", size, part)) for part in parts]
            known = [both for both in sums if both is not None]
            if len(known) == len(parts):
                mine = np.sum([both[0] for both in known], axis=0)
                others = np.sum([both[1] for both in known], axis=0)
                found.append((share * float((others - mine).mean()), size, reason, mine, others))
    moved = [each for each in found if (each[4] - each[3]).any()]
    if not moved:
        return "", ""
    place = max(range(len(moved)), key=lambda place: moved[place][0])
    gain, size, reason, mine, others = moved[place]
    if gain <= 0:
        return "", ""
    proof = ""
    if pair.tested:
        differences = [(each[4] - each[3]).tolist() for each in moved]
        p_holm = stats.holm([stats.paired_p(each, len(moved)) or 1.0 for each in differences])[place]
        if p_holm > LEVEL:
            return "", ""
        proof = f"; that difference: adjusted p {p_holm:.2g} of {len(moved)}"
    words = REASONS[reason][1].format(seconds(float(mine.mean())), seconds(float(others.mean())))
    behind = blocker(runs[pair.loser], size) if reason == "wait" else None
    text = f": {size} jobs {words}"
    if behind is not None:
        text += f", behind {behind[0]}"
        proof += f"; {behind[0]} held {behind[1]:.0%} of the slots in use while they waited (first repeat)"
    whole = sum(each[0] for each in found)
    if whole > 0:
        proof = f"; {min(gain / whole, 1.0):.0%} of the difference" + proof
    return text, proof


def _sizes(run: RunTables | None) -> dict[str, float]:
    """Return the share of each class of size among the jobs."""
    if run is None or not len(run.jobs):
        return {}
    sizes = [size_of(count) for count in (run.counted.jobs["maps"] + run.counted.jobs["reduces"]).tolist()]
    return {size: sizes.count(size) / len(sizes) for size in SIZES if size in sizes}


def blocker(run: RunTables, size: str) -> tuple[str, float] | None:
    """Return the jobs that held most of the slots in use while jobs of a size waited for their first, and their
    share.

    Jobs with names that differ only in a number at the end count as one. None if no job held at least `HELD`.
    """
    jobs = run.jobs
    mine = np.array([size_of(count) == size for count in (jobs["maps"] + jobs["reduces"]).tolist()], bool)
    waited = jobs[mine & jobs["start"].notna().to_numpy()]
    since, until = waited["submit"].to_numpy(float), waited["start"].to_numpy(float)
    names = {
        job: re.sub(r"[-_ ]?\d+$", "", str(name)) or str(name)
        for job, name in zip(jobs["job"], jobs["name"], strict=True)
    }
    owners = run.attempts["job"].map(names).astype(object).fillna("?").to_numpy(str)
    held = Intervals.of(run.attempts.assign(start=run.attempts["assigned"]), owners, run.end_s)
    seconds_held: dict[str, float] = {}
    for name in held.groups():
        area = held.running(name).integrator()
        seconds_held[name] = float((area(until) - area(since)).sum())
    total = sum(seconds_held.values())
    if not total > 0:
        return None
    name = max(seconds_held, key=lambda name: seconds_held[name])
    return (name, seconds_held[name] / total) if seconds_held[name] >= HELD * total else None
