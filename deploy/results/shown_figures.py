"""The metrics of the comparison table in order, each with its label, unit and place in summary.json."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from schedbed.deploy.results import stats


@dataclass(frozen=True, slots=True)
class Figure:
    """A metric that is a row of the comparison table.

    `path` leads from a policy's entry in summary.json to the metric, a dictionary with `mean`, `ci95` and
    `repeats`. `better` is -1 if smaller values are better, 1 if larger values are better, and 0 if neither
    is. `show` formats a value. `tested` is False for rows that are only parts of another row, since each
    further test would weaken the tests of the other rows.
    """

    label: str
    unit: str
    path: tuple[str, ...]
    better: int
    show: Callable[[float], str]
    tested: bool = True


def unsigned(text: str) -> str:
    """Remove the minus sign from a formatted number if all its digits are zero."""
    return text if text.strip("-0.") else text.removeprefix("-")


def seconds(value: float) -> str:
    """Return seconds as text with about three digits and without an exponent."""
    return unsigned(
        f"{value:.0f}" if abs(value) >= 100 else f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"
    )


def percent(value: float) -> str:
    """Return a share (0 to 1) as the text of a percentage with one decimal, without the percent sign."""
    return unsigned(f"{100 * value:.1f}")


def count(value: float) -> str:
    """Return a count as text. A mean of counts that is not a whole number has one decimal."""
    return unsigned(f"{value:.0f}" if value == int(value) else f"{value:.1f}")


def ratio(value: float) -> str:
    """Return a ratio as text with three decimals."""
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
            ("share", "fair share"),
            ("data", "data"),
            ("splitting", "splitting"),
            ("offer", "no offer yet"),
        )
    ),
    Figure("node-local maps", "%", ("locality", "tasks", "node"), 1, percent),
    Figure("rack-local maps", "%", ("locality", "tasks", "rack"), 0, percent),
    Figure("off-rack maps", "%", ("locality", "tasks", "off"), -1, percent),
    Figure("fairness (Jain)", "", ("fair_share_ratio", "jain"), 1, ratio),
    Figure("late deadlines", "jobs", ("deadlines", "late"), -1, count),
    Figure("CPU used", "%", ("utilisation", "cpu"), 0, percent),
    Figure("running tasks a node", "", ("concurrency",), 0, seconds),
    Figure("wasted CPU", "core-s", ("waste_cpu_s",), -1, seconds),
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


def leaf_of(policy: Mapping[str, Any], path: Sequence[str]) -> Mapping[str, Any] | None:
    """Return the metric at `path` in a policy's entry of summary.json, or None if there is none.

    The metric is a dictionary with `mean`, `ci95` and `repeats`.
    """
    if path[0] == "findings":
        values = [_below(each, path[1:]) for each in policy.get("findings", {}).get("repeats", ())]
        return stats.leaf(values) if any(value is not None for value in values) else None
    found = _below(policy, path)
    return found if isinstance(found, Mapping) and "repeats" in found else None


def _below(found: Any, path: Sequence[str]) -> Any:
    for key in path:
        found = found.get(key) if isinstance(found, Mapping) else None
    return found
