"""Sentences of the report that say which policy was best and why, each with its evidence.

They claim only what a statistical test has confirmed. With fewer than `stats.REPEATS_LEAST` repeats there are
no tests, and they say that they describe this run only (docs/statistics.md).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from schedbed.deploy.results import stats
from schedbed.deploy.results.comparison import LEVEL, Policies, leaf_of, percent, seconds
from schedbed.deploy.results.measures.waits import SIZES, sizes_of
from schedbed.deploy.results.page.compared_pairs import (
    HEADLINES,
    LEAST,
    ComparedPair,
    headline,
    repeats_needed,
    rows_between,
)
from schedbed.deploy.results.page.run_facts import RunFacts

if TYPE_CHECKING:
    import pandas as pd

COMPLETION, SLOWDOWN, LOCALITY = HEADLINES[0], HEADLINES[1], "node-local maps"
SPOKEN = {
    COMPLETION: "mean completion",
    "makespan": "makespan",
    SLOWDOWN: "mean slowdown",
    "completion, p95": "the 95th percentile of completion",
    "wait of a job, mean": "the mean wait of a job",
}
"""The text for a row in a sentence about a difference in percent."""
COUNTED = {
    "late deadlines": "{winner} is late for {mine} of the deadlines, {loser} for {others}",
    LOCALITY: "{winner} runs {mine}% of its maps beside their data, {loser} {others}%",
    "fairness (Jain)": "{winner} shares the slots more evenly among users: Jain's index is {mine} instead of {others}",
}
"""Sentence templates of rows for which both values are given instead of a percentage."""

JobsOf = Mapping[str, Mapping[int, "pd.DataFrame"]]
"""The tables of counted jobs, by policy and repeat."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Why:
    """A sentence of the explanation, and its evidence, which is a text with numbers."""

    text: str
    evidence: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """The explanation of a run's result: sentences about the best policy, and further comparisons.

    `rest` compares each other policy with the run's first, unfolded if `is_open`, as when no policy was best.
    """

    title: str
    sentences: Sequence[Why]
    rest: Mapping[str, Sequence[Why]]
    is_open: bool


def explanation(summary: Mapping[str, Any], runs: Runs, jobs: JobsOf) -> Explanation:
    """Return the explanation from summary.json, facts of first repeats and all repeats' tables of jobs.

    Policies are named without their parameters if the names stay unique.
    """
    short = short_names(list(summary["policies"]))
    named = {short[name]: policy for name, policy in summary["policies"].items()}
    return _explanation(
        {**summary, "policies": named},
        {short[name]: facts for name, facts in runs.items()},
        {short[name]: tables for name, tables in jobs.items()},
    )


def short_names(policies: Sequence[str]) -> dict[str, str]:
    """Return each policy's name without parameters, or with them if it would not be unique."""
    names = [policy.partition(":")[0] for policy in policies]
    return {
        policy: name if names.count(name) == 1 else policy
        for policy, name in zip(policies, names, strict=True)
    }


def _explanation(summary: Mapping[str, Any], runs: Runs, jobs: JobsOf) -> Explanation:
    first, pair = next(iter(summary["policies"]), ""), headline(summary["policies"])
    if pair is None:
        title, told, other = "No policy did best", _undecided(summary), ""
    else:
        other = pair.winner if pair.loser == first else pair.loser
        title, told = f"Why {pair.winner} did best", _between(summary, other, runs, jobs)
        if not _is_trusted(summary):
            title = f"Why {pair.winner} may have done best: the figures are not trusted"
    rest = {
        name: _between(summary, name, runs, jobs)
        for name in summary["policies"]
        if name not in (first, other)
    }
    return Explanation(
        title=title,
        sentences=told,
        rest={name: sentences for name, sentences in rest.items() if sentences},
        is_open=pair is None,
    )


def _undecided(summary: Mapping[str, Any]) -> list[Why]:
    """Return a list with a sentence for a run in which no test finds a difference between policies."""
    evidence = _means(summary["policies"])
    found = repeats_needed(summary, COMPLETION)
    if found is None:
        return [Why(text="Nothing separates the policies in this run.", evidence=evidence)]
    leader, needed = found
    if not _is_trusted(summary):
        more = "the figures are not trusted"
    elif needed is None:
        more = f"{stats.REPEATS_MOST} repeats would not settle it"
    else:
        more = f"about {needed} repeats may settle it"
    return [
        Why(
            text=f"{leader} has the least mean completion, but no test confirms it: {more}.",
            evidence=evidence,
        )
    ]


def _is_trusted(summary: Mapping[str, Any]) -> bool:
    return all(policy["fidelity"]["trusted"] for policy in summary["policies"].values())


def _means(policies: Policies) -> str:
    leaves = {name: leaf_of(policy, ("completion_s", "mean")) for name, policy in policies.items()}
    known = [f"{name} {seconds(leaf['mean'])}" for name, leaf in leaves.items() if leaf and leaf["mean"]]
    return f"{COMPLETION}: {', '.join(known)} s"


def _between(summary: Mapping[str, Any], other: str, runs: Runs, jobs: JobsOf) -> list[Why]:
    """Return up to three sentences that compare `other` with the first policy.

    First a metric by which they differ, with the cause; if that is a completion time or slowdown, then which
    jobs end earlier or later; then another metric.
    """
    policies: Policies = summary["policies"]
    pairs = rows_between(policies, next(iter(policies)), other)
    begun = next(pairs, None)
    if begun is None:
        return []
    made = [_row(summary, begun, runs)]
    if begun.figure.label in (COMPLETION, SLOWDOWN):
        made += _who_pays(policies, begun, jobs)
    also = next(
        (pair for pair in pairs if begun.figure.label != COMPLETION or pair.figure.label != SLOWDOWN), None
    )
    return made if also is None else [*made, _row(summary, also, runs, but=also.winner != begun.winner)]


def _row(summary: Mapping[str, Any], pair: ComparedPair, runs: Runs, *, but: bool = False) -> Why:
    """Return a sentence about one metric: the better policy, the difference, the cause. `but` begins it with "But"."""
    head, cause = "", Cause()
    if pair.figure.label in COUNTED:
        mine, others = (pair.figure.show(float(values.mean())) for values in (pair.mine, pair.others))
        shown = {"winner": pair.winner, "loser": pair.loser, "mine": mine, "others": others}
        head = COUNTED[pair.figure.label].format(**shown)
        cause = of_locality(pair, runs) if pair.figure.label == LOCALITY else cause
    else:
        head = _comparison(pair)
        if pair.figure.label == COMPLETION:
            cause = of_completion(summary["policies"], pair, runs)
        elif pair.figure.label == SLOWDOWN:
            cause = of_slowdown(summary["policies"], pair, runs)
        elif pair.figure.label == "makespan" and "measure" not in summary:
            cause = of_makespan(summary["policies"], pair)
    if but:
        head = f"But {head}"
    elif not pair.tested and pair.figure.label in SPOKEN:
        head = head[0].upper() + head[1:]
    return Why(text=f"{head}{cause.text}.", evidence=_numbers(summary["policies"], pair) + cause.evidence)


def _comparison(pair: ComparedPair) -> str:
    what, gain = SPOKEN[pair.figure.label], float(pair.gains.mean())
    interval = stats.mean_interval(pair.gains.tolist()) if pair.tested else None
    if interval is None:
        return f"{what} is {gain:.0f}% less under {pair.winner} than under {pair.loser}"
    return f"{pair.winner} beats {pair.loser} on {what} by {gain:.0f}% [{interval[0]:.0f}, {interval[1]:.0f}]"


def _numbers(policies: Policies, pair: ComparedPair) -> str:
    """Return a text with the values of both policies, formatted as in the table, and the adjusted p-value."""
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
            told += f"; adjusted {p_text(paired['p_holm'])} with {len(paired['repeats'])} repeats"
    return told


def _who_pays(policies: Policies, pair: ComparedPair, jobs: JobsOf) -> list[Why]:
    """Return a sentence about which jobs end earlier and which later, if there are two jobs."""
    both = _in_both(jobs[pair.winner], jobs[pair.loser])
    if both is None or len(both) < 2:
        return []
    change_s = both["mine"] - both["others"]
    later = change_s > LEAST * both["others"]
    sooner = int((change_s < -LEAST * both["others"]).sum())
    repeats = both["repeat"].nunique()
    counted = f"{len(both)} jobs" + (f" of {repeats} repeats" if repeats > 1 else "")
    text = f"{sooner} of {counted} end sooner under {pair.winner}, {later.sum() or 'none'} later"
    payers = [
        (f"{change.size} jobs pay", change.mine, change.others)
        for change in _class_changes(policies, pair)
        if change.pays
    ] or _job_that_pays(both, tested=pair.tested)
    told = [f"{who}: {seconds(mine)} s instead of {seconds(others)} s" for who, mine, others in payers]
    sizes = {size: both[both["size"] == size] for size in SIZES}
    means = [
        f"{size} ({len(rows)} jobs) {seconds(rows['mine'].mean())} s instead of {seconds(rows['others'].mean())} s"
        for size, rows in sizes.items()
        if len(rows)
    ]
    return [Why(text="; ".join([text, *told]) + ".", evidence=f"mean completion: {', '.join(means)}")]


@dataclass(frozen=True, slots=True, kw_only=True)
class _ClassChange:
    """A size class's mean completion times in seconds, under the better policy (`mine`) and the other.

    `pays` is whether its jobs take longer under the better one, as a test confirms with enough repeats.
    """

    size: str
    mine: float
    others: float
    pays: bool


def _class_changes(policies: Policies, pair: ComparedPair) -> Iterator[_ClassChange]:
    found = {
        size: both
        for size in SIZES
        if (both := pair.both(policies, ("completion_s", "per_size", size, "mean"))) is not None
    }
    p_holm = adjusted_p([mine - others for mine, others in found.values()])
    for (size, (mine, others)), p in zip(found.items(), p_holm, strict=True):
        longer = mine.mean() - others.mean() > LEAST * others.mean()
        sure = p <= LEVEL or not pair.tested
        yield _ClassChange(size=size, mine=mine.mean(), others=others.mean(), pays=bool(longer) and sure)


def _job_that_pays(both: pd.DataFrame, *, tested: bool) -> list[tuple[str, float, float]]:
    """Find the job that the better policy delays most. Return a text about it and both mean completion times.

    The list is empty without such a job, or if repeats do not have the same jobs. With `tested`, a test
    adjusted for all jobs must confirm the delay.
    """
    import pandas as pd

    codes, jobs = pd.factorize(both["job"])
    repeats = both["repeat"].nunique()
    names = both[["job", "name"]].drop_duplicates()
    if len(names) > len(jobs) or len(both) != repeats * len(jobs):
        return []
    order = np.argsort(codes, kind="stable")
    changes = (both["mine"] - both["others"]).to_numpy(float)[order].reshape(len(jobs), repeats)
    worst = int(np.argmax(changes.mean(axis=1)))
    rows = both[codes == worst]
    mine, others = float(rows["mine"].mean()), float(rows["others"].mean())
    sure = not tested or adjusted_p(list(changes))[worst] <= LEVEL
    return (
        [(f"{rows['name'].iloc[0]} pays most", mine, others)]
        if sure and mine - others > LEAST * others
        else []
    )


def _in_both(mine: Mapping[int, pd.DataFrame], others: Mapping[int, pd.DataFrame]) -> pd.DataFrame | None:
    """Return the jobs that succeeded under both policies in the same repeat, with both completion times.

    Return None if no repeat is common. The arguments map each repeat to its table of jobs.
    """
    import pandas as pd

    made: list[pd.DataFrame] = []
    for repeat in mine:
        if repeat in others:
            rows = mine[repeat].merge(others[repeat], on="job", suffixes=("", "_other"))
            rows = rows[(rows["state"] == "succeeded") & (rows["state_other"] == "succeeded")]
            sizes = sizes_of(rows)
            mine_s, others_s = rows["finish"] - rows["submit"], rows["finish_other"] - rows["submit_other"]
            columns = {"job": rows["job"], "name": rows["name"], "size": sizes, "repeat": repeat}
            made.append(pd.DataFrame({**columns, "mine": mine_s, "others": others_s}))
    return pd.concat(made, ignore_index=True) if made else None


# The cause of a difference between two policies, for the sentences of the report.
#
# A cause is a size class of jobs, and the part of their time that makes most of the difference. It consists
# of a text and its evidence, which are both empty if no test confirms the cause. docs/statistics.md
# explains the method.

HELD, NAMED_MAX = 0.5, 2
"""The least share of used slots held by the jobs that others waited for, and the most names of such jobs."""
REASONS: Mapping[str, tuple[tuple[str, ...], str]] = {
    "wait": (("slot", "share", "offer", "splitting"), "wait {0} s instead of {1} s for a slot"),
    "data": (("data",), "wait {0} s instead of {1} s for a node with their data"),
    "shuffle": (("shuffle",), "shuffle for {0} s instead of {1} s"),
    "again": (("again",), "lose {0} s instead of {1} s to attempts whose result was not used"),
    "run": (("run",), "compute, read and write for {0} s instead of {1} s"),
}
"""Causes of a difference of completion times: the parts of `time_s` for each, and the sentence."""

Runs = Mapping[str, RunFacts]
"""The facts about each policy's first repeat. Policies that were not started are left out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cause:
    """The cause of a difference of two policies: the end of a sentence, and evidence; empty if none was found."""

    text: str = ""
    evidence: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class _TimePart:
    """A part (such as the shuffle) of a size class's mean completion time: its seconds per repeat.

    `gain_s` is its contribution to the difference of the mean completion times of all jobs.
    """

    size: str
    reason: str
    gain_s: float
    mine: np.ndarray
    others: np.ndarray

    @property
    def differences(self) -> np.ndarray:
        return self.others - self.mine


def of_slowdown(policies: Policies, pair: ComparedPair, runs: Runs) -> Cause:
    """Return the cause of different mean slowdowns: the size class that makes most of the difference.

    It also names the part of their completion time that differs most.
    """
    found = {
        size: (share, both)
        for size, share in _sizes(pair, runs).items()
        if (both := pair.both(policies, ("slowdown", "per_size", size, "mean"))) is not None
    }
    if not found:
        return Cause()
    size = max(found, key=lambda size: found[size][0] * float((found[size][1][1] - found[size][1][0]).mean()))
    cause, (mine, others) = of_completion(policies, pair, runs, size), found[size][1]
    told = f"; {size} jobs {seconds(mine.mean())} x instead of {seconds(others.mean())} x"
    return Cause(text=cause.text, evidence=told + cause.evidence) if cause.text else Cause()


def of_completion(policies: Policies, pair: ComparedPair, runs: Runs, size: str | None = None) -> Cause:
    """Return the cause of different mean completion times: the size class and part of time that make most of
    it.

    With `size`, only this class is considered.
    """
    parts = [
        part
        for part in _parts(policies, pair, runs)
        if part.differences.any() and (size is None or part.size == size)
    ]
    best = max(parts, key=lambda part: part.gain_s, default=None)
    if best is None or best.gain_s <= 0:
        return Cause()
    whole_s = sum(part.gain_s for part in parts)
    share = f"{best.gain_s / whole_s:.0%}" if best.gain_s <= whole_s else "all"
    proof = f"; {share} of the difference" + (f" of {size} jobs" if size else "")
    if pair.tested:
        p_holm = adjusted_p([part.differences for part in parts])[parts.index(best)]
        if p_holm > LEVEL:
            return Cause()
        proof += f" (adjusted {p_text(p_holm)}, one of {len(parts)} tests)"
    mine, others = (seconds(float(values.mean())) for values in (best.mine, best.others))
    text = f": {best.size} jobs {REASONS[best.reason][1].format(mine, others)}"
    if best.reason == "wait":
        behind = _behind(pair, best.size, runs)
        return Cause(text=text + behind.text, evidence=proof + behind.evidence)
    return Cause(text=text, evidence=proof + (_maps_ran(pair, runs) if best.reason == "run" else ""))


def _parts(policies: Policies, pair: ComparedPair, runs: Runs) -> list[_TimePart]:
    made: list[_TimePart] = []
    for size, share in _sizes(pair, runs).items():
        for reason, (names, _) in REASONS.items():
            found = [pair.both(policies, ("time_s", "per_size", size, name)) for name in names]
            known = [both for both in found if both is not None]
            if len(known) == len(names):
                mine, others = (np.sum([both[which] for both in known], axis=0) for which in (0, 1))
                gain_s = share * float((others - mine).mean())
                made.append(_TimePart(size=size, reason=reason, gain_s=gain_s, mine=mine, others=others))
    return made


def _sizes(pair: ComparedPair, runs: Runs) -> Mapping[str, float]:
    first = runs.get(pair.loser)
    return {} if first is None else first.sizes


def adjusted_p(differences: Sequence[np.ndarray]) -> list[float]:
    """Return Holm-adjusted p-values of tests whether each array's mean is zero."""
    p_values = [stats.paired_p(each.tolist(), len(differences)) for each in differences]
    return stats.holm([1.0 if p is None else p for p in p_values])


def p_text(p: float) -> str:
    return "p < 0.001" if p < 0.001 else f"p = {p:.2g}"


def _behind(pair: ComparedPair, size: str, runs: Runs) -> Cause:
    """Return the cause that jobs of this class waited behind others under the worse policy.

    It names the jobs that occupied the slots meanwhile, and is empty if their shares add up to less than
    half.
    """
    first = runs.get(pair.loser)
    held = {} if first is None else first.held.get(size, {})
    named = sorted(held, key=lambda name: -held[name])[:NAMED_MAX]
    named = named[: 1 + sum(np.cumsum([held[name] for name in named])[:-1] < HELD)]
    if sum(held[name] for name in named) < HELD:
        return Cause()
    told = ", ".join(f"{name} {held[name]:.0%}" for name in named) + " (first repeat)" * (len(pair.mine) > 1)
    return Cause(
        text=f", behind {' and '.join(named)}",
        evidence=f"; slots in use while they waited for their first one: {told}",
    )


def of_makespan(policies: Policies, pair: ComparedPair) -> Cause:
    """Return the cause of different makespans.

    A makespan is the attempts' total time / slots / share of time with slots in use. The cause is the larger
    share or the shorter total time, depending on which of them differs more.
    """
    busy = pair.both(policies, ("slots_busy",))
    if busy is None or not (busy[0].all() and busy[1].all()):
        return Cause()
    fuller = np.log(busy[0] / busy[1])
    less = np.log(pair.others / pair.mine) - fuller
    if pair.tested and min(adjusted_p([fuller, less])) > LEVEL:
        return Cause()
    mine, others = (float(values.mean()) for values in busy)
    told = f"; slots in use: {pair.winner} {percent(mine)}%, {pair.loser} {percent(others)}% of the time"
    if fuller.mean() >= less.mean():
        return Cause(
            text=f": its slots are in use for {percent(mine)}% of the time instead of {percent(others)}%"
        )
    saved = 100 * (1 - np.exp(-float(less.mean())))
    return Cause(text=f": its attempts take {saved:.0f}% less of the slots' time", evidence=told)


def of_locality(pair: ComparedPair, runs: Runs) -> Cause:
    """Return evidence on a difference of locality, as a cause without text.

    It is the mean duration of maps, and how often a job began to wait for its data under the better policy.
    """
    told, first = _maps_ran(pair, runs), runs.get(pair.winner)
    if first is not None and first.waits_for_data:
        told += f"; under {pair.winner}, jobs began to wait for their data {first.waits_for_data:,} times"
    return Cause(evidence=told)


def _maps_ran(pair: ComparedPair, runs: Runs) -> str:
    """Return both mean durations of successful maps in the first repeat as text, empty if one has none."""
    means: list[str] = []
    for name in (pair.winner, pair.loser):
        first = runs.get(name)
        if first is None or first.map_s is None:
            return ""
        means.append(f"{seconds(first.map_s)} s under {name}")
    return f"; a map ran for {means[0]}, {means[1]}" + (" (first repeat)" if len(pair.mine) > 1 else "")
