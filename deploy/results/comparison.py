"""The comparison of policies by paired tests of all pairs and metrics, with p-values adjusted by Holm's
method.

A pair with equal values in all repeats is not tested. A policy is never called different if its runs are not
trusted (the host did not provide the declared resources).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

from schedbed.deploy.results import stats

# Paired comparison
#
# The makespan of one workload may differ by 20% from that of another, and by 2% between two policies.
# Compared as two samples, the differences between workloads hide those between policies. All policies of a
# repeat therefore get the same jobs, blocks and faults, the differences are formed within each repeat, and
# the test asks whether their mean is zero. Repeats alternate the order of the policies, since a host that
# warms up or slows down would favor a place in the order. With many metrics and pairs, some difference
# looks large by chance: Holm's method makes the probability of at least one false star in the whole table
# at most 5%.

Policies = Mapping[str, Mapping[str, Any]]
CLOSE = 0.01
IDLE = 0.1  # Share of the slots' time in use, below which nearly every task finds a free slot.
LEVEL = round(1 - stats.LEVEL, 9)


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyPair:
    """Two policies by one metric. `differences` are `one` minus `other` in common repeats."""

    figure: Figure
    one: str
    other: str
    differences: tuple[float, ...]

    @property
    def key(self) -> tuple[str, frozenset[str]]:
        """Return the metric's label and the set of both policies."""
        return (self.figure.label, frozenset((self.one, self.other)))


def compare(policies: dict[str, Any], repeats_of: Mapping[str, Sequence[int]]) -> dict[str, Any]:
    """Return summary.json's `comparison`, and add `p` and `p_holm` below each policy's `paired`."""
    pairs = [pair for figure in FIGURES if figure.tested for pair in _pairs(figure, policies, repeats_of)]
    p_values = [stats.paired_p(pair.differences, len(pairs)) or 0.0 for pair in pairs]
    adjusted = {
        pair.key: found
        for pair, found in zip(pairs, zip(p_values, stats.holm(p_values), strict=True), strict=True)
    }
    first = next(iter(policies), "")
    for pair in pairs:
        if first in (pair.one, pair.other):
            _note(policies[pair.other if pair.one == first else pair.one], pair, adjusted[pair.key])
    by_key = {pair.key: pair for pair in pairs}
    rows = [_row(figure, policies, by_key, adjusted) for figure in FIGURES if figure.better]
    return {
        "level": LEVEL,
        "comparisons": len(pairs),
        "repeats": min((len(repeats) for repeats in repeats_of.values()), default=0),
        "rows": [row for row in rows if row is not None],
    }


def _pairs(figure: Figure, policies: Policies, repeats_of: Mapping[str, Sequence[int]]) -> list[PolicyPair]:
    """Return the pairs with enough common repeats, and a difference in one of them."""
    numbers: dict[str, dict[int, float]] = {}
    for name, policy in policies.items():
        leaf = leaf_of(policy, figure.path)
        found = zip(repeats_of[name], leaf["repeats"] if leaf else (), strict=False)
        numbers[name] = {repeat: value for repeat, value in found if value is not None}
    made: list[PolicyPair] = []
    for one, other in combinations(policies, 2):
        both = [repeat for repeat in numbers[one] if repeat in numbers[other]]
        differences = tuple(numbers[one][repeat] - numbers[other][repeat] for repeat in both)
        if len(both) >= stats.REPEATS_LEAST and any(differences):
            made.append(PolicyPair(figure=figure, one=one, other=other, differences=differences))
    return made


def _note(policy: Mapping[str, Any], pair: PolicyPair, p_values: tuple[float, float]) -> None:
    leaf = leaf_of(policy.get("paired", {}), pair.figure.path)
    if isinstance(leaf, dict):
        leaf["p"], leaf["p_holm"] = p_values


def _row(
    figure: Figure,
    policies: Policies,
    pairs: Mapping[tuple[str, frozenset[str]], PolicyPair],
    adjusted: Mapping[tuple[str, frozenset[str]], tuple[float, float]],
) -> dict[str, Any] | None:
    """Compare the leader by a metric with all others: whether it is better, or the repeats to confirm that.

    Return None if it could not be tested against every other. `adjusted` has (p, adjusted p) by pair's key.
    """
    means = {
        name: leaf["mean"] for name, policy in policies.items() if (leaf := leaf_of(policy, figure.path))
    }
    known = {name: mean for name, mean in means.items() if mean is not None}
    if len(known) < 2:
        return None
    leader = max(known, key=lambda name: figure.better * known[name])
    keys = [(figure.label, frozenset((leader, other))) for other in known if other != leader]
    if not all(key in pairs for key in keys):
        return None
    p_holm = max(adjusted[key][1] for key in keys)
    trusted = all(policies[name]["fidelity"]["trusted"] for name in known)
    wins = all(_gains(pairs[key], leader) > 0 for key in keys)
    needed = [stats.repeats_needed(pairs[key].differences, len(pairs)) for key in keys]
    return {
        "figure": figure.label,
        "leader": leader,
        "best": leader if trusted and wins and p_holm <= LEVEL else None,
        "p_holm": p_holm,
        "repeats_needed": None if None in needed else max(filter(None, needed)),
    }


def _gains(pair: PolicyPair, leader: str) -> float:
    """Return the sum of the leader's advantages in common repeats.

    It can be negative, since the leader has the best mean of all its repeats.
    """
    return (1 if leader == pair.one else -1) * pair.figure.better * sum(pair.differences)


def best(summary: Mapping[str, Any], figure: Figure) -> str | None:
    """Return the policy significantly better than all others, or None, also if runs are not trusted."""
    rows = summary.get("comparison", {}).get("rows", ())
    return next((row["best"] for row in rows if row["figure"] == figure.label), None)


def differs_from_first(policies: Policies, name: str, figure: Figure) -> bool:
    """Return whether a policy differs significantly from the first, if both are trusted."""
    paired = leaf_of(policies[name].get("paired", {}), figure.path)
    both = (policies[name], next(iter(policies.values())))
    sure = paired is not None and paired.get("p_holm") is not None and paired["p_holm"] <= LEVEL
    return sure and all(policy["fidelity"]["trusted"] for policy in both)


def verdicts(summary: Mapping[str, Any]) -> list[str]:
    """Return sentences on the best policy by each metric, or the repeats that would confirm one."""
    found = summary.get("comparison")
    if not found or len(summary["policies"]) < 2:
        return []
    return [*_idle(summary["policies"]), *_told_apart(summary, found)]


def _idle(policies: Policies) -> list[str]:
    """Return a sentence that policies can hardly differ in a nearly idle cluster, if it is."""
    leaves = [leaf_of(policy, ("slots_busy",)) for policy in policies.values()]
    busy = [leaf["mean"] for leaf in leaves if leaf is not None and leaf["mean"] is not None]
    if not busy or not (max(busy) <= IDLE or _are_close(policies)):
        return []
    why = "tasks find free slots at once, so policies can hardly differ"
    if max(busy) > IDLE:
        why = f"the policies' mean completion times are within {CLOSE:.0%}"
    said = f"The cluster is {max(busy):.0%} busy: {why}."
    busiest = [
        leaf_of(next(iter(policies.values())), ("busiest", key))
        for key in ("from_s", "until_s", "slots_busy")
    ]
    start_s, end_s, most = (None if leaf is None else leaf["mean"] for leaf in busiest)
    if most is not None:
        said += f" The busiest time is {start_s:.0f} to {end_s:.0f} s, with {most:.0%}: bring a busier one."
    return [said]


def _are_close(policies: Policies) -> bool:
    """Return whether mean completion times hardly differ."""
    leaves = [leaf_of(policy, ("completion_s", "mean")) for policy in policies.values()]
    means = [leaf["mean"] for leaf in leaves if leaf is not None and leaf["mean"] is not None]
    return len(means) > 1 and max(means) <= min(means) * (1 + CLOSE)


def _told_apart(summary: Mapping[str, Any], found: Mapping[str, Any]) -> list[str]:
    repeats = found["repeats"]
    if repeats < stats.REPEATS_LEAST:
        many = f"{repeats} repeat{'' if repeats == 1 else 's'}"
        return [
            f"With {many} there are no intervals, and nothing is called best: "
            f"--repeats {stats.REPEATS_LEAST} is the least."
        ]
    said: list[str] = []
    sure = [f"{row['figure']} ({row['best']})" for row in found["rows"] if row["best"]]
    if sure:
        said.append(f"Best with {repeats} repeats: {'; '.join(sure)}.")
    trusted = all(policy["fidelity"]["trusted"] for policy in summary["policies"].values())
    if not trusted:
        said.append("Nothing is called best where one of the compared policies is not trusted.")
    open_rows = [row for row in found["rows"] if not row["best"]] if trusted else []
    if open_rows:
        told = "; ".join(f"{row['figure']} ({_takes(row['repeats_needed'], repeats)})" for row in open_rows)
        said.append(
            f"Cannot tell with {repeats} repeats which policy is best (how many may be enough): {told}."
        )
    return said


def _takes(needed: int | None, repeats: int) -> str:
    """Return the repeats for a test, `about 12`: more than now; None is more than were tried."""
    if needed is None:
        return f"over {stats.REPEATS_MOST}"
    return f"about {max(needed, repeats + 1)}"


# The metrics of the comparison table in order, each with its label, unit and place in summary.json.


@dataclass(frozen=True, slots=True)
class Figure:
    """A row of the comparison table. `path` leads to its `mean`, `ci95` and `repeats` in summary.json.

    `better` is -1 for smaller, 1 for larger, 0 for neither. Parts of another row are not `tested`, since each
    test weakens the others.
    """

    label: str
    unit: str
    path: tuple[str, ...]
    better: int
    show: Callable[[float], str]
    tested: bool = True


def unsigned(text: str) -> str:
    """Remove the minus sign from a formatted zero."""
    return text if text.strip("-0.") else text.removeprefix("-")


def seconds(value: float) -> str:
    """Return seconds as text with about three digits and without an exponent."""
    return unsigned(
        f"{value:.0f}" if abs(value) >= 100 else f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"
    )


def percent(value: float) -> str:
    return unsigned(f"{100 * value:.1f}")


def count(value: float) -> str:
    """Return a count, with a decimal if it is not whole."""
    return unsigned(f"{value:.0f}" if value == int(value) else f"{value:.1f}")


def ratio(value: float) -> str:
    return f"{value:.3f}"


FIGURES: tuple[Figure, ...] = (
    Figure("makespan", "s", ("makespan_s",), -1, seconds),
    Figure("completion, mean", "s", ("completion_s", "mean"), -1, seconds),
    Figure("completion, median", "s", ("completion_s", "median"), -1, seconds),
    Figure("completion, p95", "s", ("completion_s", "p95"), -1, seconds),
    Figure("slowdown, mean", "x", ("slowdown", "mean"), -1, seconds),
    Figure("wait of a job, mean", "s", ("wait_s", "jobs", "mean"), -1, seconds),
    Figure("wait of a job, p95", "s", ("wait_s", "jobs", "p95"), -1, seconds),
    Figure("wait of a task, mean", "s", ("wait_s", "tasks", "mean"), -1, seconds),
    *(
        Figure(f"- {shown}", "s", ("wait_s", "tasks", "causes", cause), 0, seconds, tested=False)
        for cause, shown in (
            ("slot", "no slot"),
            ("share", "held by the policy"),
            ("data", "data"),
            ("splitting", "splitting"),
            ("offer", "no offer yet"),
        )
    ),
    Figure("node-local maps", "%", ("locality", "tasks", "node"), 1, percent),
    Figure("rack-local maps", "%", ("locality", "tasks", "rack"), 0, percent),
    Figure("off-rack maps", "%", ("locality", "tasks", "off"), -1, percent),
    Figure("maps with no location", "%", ("locality", "tasks", "none"), 0, percent),
    Figure("fairness (Jain)", "", ("fair_share_ratio", "jain"), 1, ratio),
    Figure("late deadlines", "jobs", ("deadlines", "late"), -1, count),
    Figure("CPU used", "%", ("utilisation", "cpu"), 0, percent),
    Figure("running tasks a node", "", ("concurrency",), 0, seconds),
    Figure("wasted CPU", "core-s", ("waste_cpu_s",), -1, seconds),
    Figure("energy", "Wh", ("energy_wh",), -1, seconds),
    Figure("jobs succeeded", "", ("jobs", "succeeded"), 1, count),
    *(
        Figure(
            f"predicted {shown} load, {error.upper()}", "%", ("findings", "predictor", key, error), 0, percent
        )
        for shown, key in (("CPU", "cpu"), ("IO", "io"))
        for error in ("mae", "rmse")
    ),
)
"""The rows of the table, in order. The last rows are for policies that predict loads (lakshmi2019, Table 3)."""


QUEUE_FIGURES: tuple[tuple[str, tuple[str, ...], Callable[[float], str]], ...] = (
    ("completion, mean [s]", ("completion_s", "mean"), seconds),
    ("wait, p95 [s]", ("wait_s", "p95"), seconds),
    ("share held [%]", ("share_held",), percent),
    ("guaranteed [%]", ("guarantee",), percent),
    ("killed", ("killed",), count),
    ("wasted CPU [core-s]", ("waste_cpu_s",), seconds),
    ("late jobs", ("late",), count),
)
"""The figures shown for each queue: label, path below the queue's entry in `per_queue`, and formatter."""


def queues_of(policies: Policies) -> list[str]:
    """Return the queues that have figures, none if there is only one."""
    names = sorted({queue for policy in policies.values() for queue in policy.get("per_queue", {})})
    return names if len(names) > 1 else []


def leaf_of(policy: Mapping[str, Any], path: Sequence[str]) -> Mapping[str, Any] | None:
    """Return a policy's metric at `path` in summary.json, or None."""
    if path[0] == "findings":
        values = [_below(each, path[1:]) for each in policy.get("findings", {}).get("repeats", ())]
        return stats.leaf(values) if any(value is not None for value in values) else None
    found = _below(policy, path)
    return found if isinstance(found, Mapping) and "repeats" in found else None


def _below(found: Any, path: Sequence[str]) -> Any:
    for key in path:
        found = found.get(key) if isinstance(found, Mapping) else None
    return found
