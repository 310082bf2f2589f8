"""The cause of a difference between two policies, for the sentences of the report.

A cause is a size class of jobs, and the part of their time that makes most of the difference. It consists of
a text and its evidence, which are both empty if no test confirms the cause. docs/statistics.md explains the
method.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from schedbed.deploy.results import stats
from schedbed.deploy.results.comparison import LEVEL, Policies
from schedbed.deploy.results.page.compared_pairs import ComparedPair
from schedbed.deploy.results.page.run_facts import RunFacts
from schedbed.deploy.results.shown_figures import percent, seconds

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
    """The cause of a difference between two policies: the end of a sentence, and the evidence for it.

    Both are empty if no cause was found.
    """

    text: str = ""
    evidence: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class _TimePart:
    """A part (such as the shuffle) of the mean completion time of a size class of jobs.

    `mine` and `others` contain its seconds in each repeat, under the better policy and under the other one.
    `gain_s` is how much the part contributes to the difference of the mean completion times of all jobs.
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
    """Return the cause of a difference of mean slowdowns between the two policies in `pair`.

    The cause names the size class of jobs that makes most of the difference. It also names the part of their
    completion time that differs most between the policies. `runs` contains the facts about each policy.
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
    """Return the cause of a difference of mean completion times between the two policies in `pair`.

    The cause names a size class of jobs and a part of their time, such as the shuffle, that together make
    most of the difference. If `size` is not None, only this size class is considered. `runs` contains the
    facts about each policy.
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
    """Return, for each array of paired differences, the p-value of a test whether their mean is zero.

    The p-values are adjusted together by Holm's method.
    """
    p_values = [stats.paired_p(each.tolist(), len(differences)) for each in differences]
    return stats.holm([1.0 if p is None else p for p in p_values])


def p_text(p: float) -> str:
    """Return a p-value as text, such as `p = 0.012`."""
    return "p < 0.001" if p < 0.001 else f"p = {p:.2g}"


def _behind(pair: ComparedPair, size: str, runs: Runs) -> Cause:
    """Return the cause that jobs of the class `size` waited behind other jobs under the worse policy.

    The text of the cause names the jobs that occupied the slots during these waits. The evidence contains the
    share of the slots that they occupied. The cause is empty if these shares add up to less than half. `runs`
    returns the facts about each policy.
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
    """Return the cause of a difference of makespans between the two policies in `pair`.

    A makespan is the attempts' total time, divided by the number of slots and by the share of time in which
    slots were in use. Under the better policy, either this share was larger, or the total time was shorter.
    The cause is the one of these two that differs more.
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
    """Return the evidence about a difference of locality between the two policies in `pair`, as a cause
    without text.

    The evidence is the mean duration of maps under both policies, and how often a job began to wait for its
    data under the better policy.
    """
    told, first = _maps_ran(pair, runs), runs.get(pair.winner)
    if first is not None and first.waits_for_data:
        told += f"; under {pair.winner}, jobs began to wait for their data {first.waits_for_data:,} times"
    return Cause(evidence=told)


def _maps_ran(pair: ComparedPair, runs: Runs) -> str:
    """Return a text with the mean duration of successful maps under both policies in the first repeat.

    The text is empty if a policy has no successful map.
    """
    means: list[str] = []
    for name in (pair.winner, pair.loser):
        first = runs.get(name)
        if first is None or first.map_s is None:
            return ""
        means.append(f"{seconds(first.map_s)} s under {name}")
    return f"; a map ran for {means[0]}, {means[1]}" + (" (first repeat)" if len(pair.mine) > 1 else "")
