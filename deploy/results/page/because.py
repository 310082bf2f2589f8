"""The cause of a difference between two policies, for the sentences of the report.

A cause is a size class of jobs, and the part of their time that makes most of the difference. It consists of
a text and its evidence, which are both empty if no test confirms the cause. docs/statistics.md explains the
method.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from schedbed.deploy.results import stats
from schedbed.deploy.results.comparison import LEVEL, Policies
from schedbed.deploy.results.measures.coded import filled
from schedbed.deploy.results.measures.passed_over import WAITS_FOR_DATA
from schedbed.deploy.results.measures.series import Intervals
from schedbed.deploy.results.measures.waits import SIZES, size_of
from schedbed.deploy.results.metrics import RunTables
from schedbed.deploy.results.page.compared_pairs import ComparedPair
from schedbed.deploy.results.shown_figures import percent, seconds

if TYPE_CHECKING:
    import pandas as pd

HELD, NAMED_MAX = 0.5, 2
"""The least share of used slots held by the jobs that others waited for, and the most names of such jobs."""
GROUPS_MAX = 20
"""The number of the biggest groups of jobs with the same name that others may have waited for."""
REASONS: Mapping[str, tuple[tuple[str, ...], str]] = {
    "wait": (("slot", "share", "offer", "splitting"), "wait {0} s instead of {1} s for a slot"),
    "data": (("data",), "wait {0} s instead of {1} s for a node with their data"),
    "shuffle": (("shuffle",), "shuffle for {0} s instead of {1} s"),
    "again": (("again",), "lose {0} s instead of {1} s to attempts whose result was not used"),
    "run": (("run",), "compute, read and write for {0} s instead of {1} s"),
}
"""Causes of a difference of completion times: the parts of `time_s` for each, and the sentence."""

Runs = Callable[[str], RunTables | None]
"""A function that returns the tables of a policy's first repeat, or None if the policy was not started."""


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
    completion time that differs most between the policies. `runs` contains the tables of each policy.
    """
    found = {
        size: (share, both)
        for size, share in _sizes(runs(pair.loser)).items()
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
    tables of each policy.
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
    for size, share in _sizes(runs(pair.loser)).items():
        for reason, (names, _) in REASONS.items():
            found = [pair.both(policies, ("time_s", "per_size", size, name)) for name in names]
            known = [both for both in found if both is not None]
            if len(known) == len(names):
                mine, others = (np.sum([both[which] for both in known], axis=0) for which in (0, 1))
                gain_s = share * float((others - mine).mean())
                made.append(_TimePart(size=size, reason=reason, gain_s=gain_s, mine=mine, others=others))
    return made


def _sizes(run: RunTables | None) -> dict[str, float]:
    """Return a dictionary from size class (such as `small`) to its share of all jobs of the run.

    The dictionary is empty if `run` is None.
    """
    if run is None or not len(run.jobs):
        return {}
    sizes = [size_of(count) for count in (run.counted.jobs["maps"] + run.counted.jobs["reduces"]).tolist()]
    return {size: sizes.count(size) / len(sizes) for size in SIZES if size in sizes}


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
    contains the tables of each policy.
    """
    first = runs(pair.loser)
    held = {} if first is None else held_slots(first, size)
    named = sorted(held, key=lambda name: -held[name])[:NAMED_MAX]
    named = named[: 1 + sum(np.cumsum([held[name] for name in named])[:-1] < HELD)]
    if sum(held[name] for name in named) < HELD:
        return Cause()
    told = ", ".join(f"{name} {held[name]:.0%}" for name in named) + " (first repeat)" * (len(pair.mine) > 1)
    return Cause(
        text=f", behind {' and '.join(named)}",
        evidence=f"; slots in use while they waited for their first one: {told}",
    )


def held_slots(run: RunTables, size: str) -> dict[str, float]:
    """Return a dictionary from job name to the share of the used slots that jobs of that name occupied.

    Only the time is considered in which jobs of the size class `size` waited for their first slot. Names are
    without the number at their end (see `common_names`). Only the `GROUPS_MAX` names that occupied slots
    longest in the whole run are included.
    """
    jobs = run.jobs[run.jobs["start"].notna()]
    mine = np.array([size_of(count) == size for count in (jobs["maps"] + jobs["reduces"]).tolist()], bool)
    since, until = jobs["submit"].to_numpy(float)[mine], jobs["start"].to_numpy(float)[mine]
    names = common_names(run.jobs)
    owners = run.attempts["job"].map(names).astype(object).fillna("?").to_numpy(str)
    held = Intervals.of(run.attempts.assign(start=run.attempts["assigned"]), owners, run.end_s)

    def seconds_of(name: str | None) -> float:
        area = held.running(name).integrator()
        return float((area(until) - area(since)).sum())

    total = seconds_of(None)
    return {name: seconds_of(name) / total for name in held.groups()[:GROUPS_MAX]} if total > 0 else {}


def common_names(jobs: pd.DataFrame) -> dict[str, str]:
    """Return a dictionary from job id to the job's name without the number at its end.

    The number is kept if more than half of the jobs would have the same name without it.
    """
    full = dict(zip(jobs["job"], jobs["name"].astype(str), strict=True))
    common = {job: re.sub(r"[-_ ]?\d+$", "", name) or name for job, name in full.items()}
    uses = Counter(common.values())
    return {job: name if 2 * uses[name] <= len(full) else full[job] for job, name in common.items()}


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

    The evidence is the mean duration of maps under both policies, and how often the better policy skipped a
    job to wait for its data.
    """
    told, first = _maps_ran(pair, runs), runs(pair.winner)
    if first is not None:
        data = first.tables["decisions"]
        waits = filled(data["reason"]).astype(str).str.startswith(WAITS_FOR_DATA)
        passed = int((waits & (data["answer"] == "skip")).sum())
        told += f"; {pair.winner} passed a job over {passed:,} times to wait for its data" if passed else ""
    return Cause(evidence=told)


def _maps_ran(pair: ComparedPair, runs: Runs) -> str:
    """Return a text with the mean duration of successful maps under both policies in the first repeat.

    The text is empty if a policy has no successful map.
    """
    means: list[str] = []
    for name in (pair.winner, pair.loser):
        first = runs(name)
        if first is None:
            return ""
        attempts = first.counted.attempts
        maps = attempts[(attempts["kind"] == "map") & (attempts["state"] == "succeeded")]
        if not len(maps):
            return ""
        means.append(f"{seconds(float((maps['end'] - maps['start']).mean()))} s under {name}")
    return f"; a map ran for {means[0]}, {means[1]}" + (" (first repeat)" if len(pair.mine) > 1 else "")
