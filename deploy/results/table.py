"""The table that compares policies, from summary.json's content: for a terminal, as plain text, and as cells."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console

POLICIES_ABREAST = 4


@dataclass(frozen=True, slots=True)
class Figure:
    """A row. `path` leads to its leaf below a policy; `better` is -1 when less is better, 0 if neither is."""

    label: str
    unit: str
    path: tuple[str, ...]
    better: int
    show: Callable[[float], str]


def seconds(value: float) -> str:
    """Three digits or so, without an exponent."""
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"


def percent(value: float) -> str:
    """A share as per cent, without the sign."""
    return f"{100 * value:.1f}"


def milliseconds(value: float) -> str:
    """Seconds as milliseconds."""
    return f"{1000 * value:.2f}"


def count(value: float) -> str:
    """A number of things; a mean of repeats may have a fraction."""
    return f"{value:.0f}" if value == int(value) else f"{value:.1f}"


def ratio(value: float) -> str:
    """A number around one."""
    return f"{value:.3f}"


FIGURES: tuple[Figure, ...] = (
    Figure("makespan", "s", ("makespan_s",), -1, seconds),
    Figure("completion, mean", "s", ("completion_s", "mean"), -1, seconds),
    Figure("completion, median", "s", ("completion_s", "median"), -1, seconds),
    Figure("completion, p95", "s", ("completion_s", "p95"), -1, seconds),
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
"""What the table shows, in this order; the last of policies that predict their nodes' loads (lakshmi2019, Table 3)."""


def leaf_of(policy: Mapping[str, Any], path: Sequence[str]) -> Mapping[str, Any] | None:
    """The `{"mean", "ci95", "repeats"}` at `path` below a policy's summary, or None."""
    if path[0] == "findings":
        values = [_below(each, path[1:]) for each in policy.get("findings", {}).get("repeats", ())]
        known = [value for value in values if value is not None]
        return {"mean": sum(known) / len(known), "ci95": (None, None), "repeats": values} if known else None
    found = _below(policy, path)
    return found if isinstance(found, Mapping) and "repeats" in found else None


def _below(found: Any, path: Sequence[str]) -> Any:
    for key in path:
        found = found.get(key) if isinstance(found, Mapping) else None
    return found


def cell(figure: Figure, policy: Mapping[str, Any]) -> str:
    """`57.2` or, with more than one repeat, `57.2 [55.0, 59.1]`; `-` when it is not known."""
    leaf = leaf_of(policy, figure.path)
    if leaf is None or leaf["mean"] is None:
        return "-"
    low, high = leaf["ci95"]
    interval = f" [{figure.show(low)}, {figure.show(high)}]" if low is not None and high is not None else ""
    return figure.show(leaf["mean"]) + interval


def best(figure: Figure, policies: Mapping[str, Mapping[str, Any]]) -> set[str]:
    """The policies with the best mean as shown; empty when all look alike or no direction is better."""
    shown: dict[str, str] = {}
    means: dict[str, float] = {}
    for name, policy in policies.items():
        leaf = leaf_of(policy, figure.path)
        if leaf is not None and leaf["mean"] is not None:
            means[name], shown[name] = leaf["mean"], figure.show(leaf["mean"])
    if not figure.better or len(set(shown.values())) < 2:
        return set()
    top = max(means, key=lambda name: figure.better * means[name])
    return {name for name in shown if shown[name] == shown[top]}


def rows(policies: Mapping[str, Mapping[str, Any]]) -> list[list[str]]:
    """Label and a cell for each policy; the row of trust comes last. Figures that nobody has are left out."""
    made: list[list[str]] = []
    for figure in FIGURES:
        cells = [cell(figure, policy) for policy in policies.values()]
        if any(text != "-" for text in cells):
            made.append([f"{figure.label} [{figure.unit}]" if figure.unit else figure.label, *cells])
    trusted = ["yes" if policy["fidelity"]["trusted"] else "NO" for policy in policies.values()]
    return [*made, ["trusted", *trusted]]


def plain(summary: Mapping[str, Any]) -> str:
    """The table as aligned text of any width, with the reasons for distrust below."""
    policies = summary["policies"]
    lines = [["", *policies], *rows(policies)]
    widths = [max(len(line[i]) for line in lines) for i in range(len(lines[0]))]
    text = [
        "  ".join(
            [line[0].ljust(widths[0]), *(c.rjust(w) for c, w in zip(line[1:], widths[1:], strict=True))]
        )
        for line in lines
    ]
    return "\n".join([*(line.rstrip() for line in text), *_doubts(summary)])


def show(summary: Mapping[str, Any], console: Console) -> None:
    """Prints the table: in colour and boxes on a terminal, as plain text elsewhere."""
    if not console.is_terminal:
        console.file.write(plain(summary) + "\n")
        return
    names = list(summary["policies"])
    for at in range(0, len(names), POLICIES_ABREAST):
        _show_some(summary, names[at : at + POLICIES_ABREAST], console)
    for doubt in _doubts(summary):
        console.print(doubt, style="yellow", markup=False)


def _show_some(summary: Mapping[str, Any], names: Sequence[str], console: Console) -> None:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(
        title=f"{summary['scenario']} on {summary['machines']}", box=box.SIMPLE_HEAD, pad_edge=False
    )
    table.add_column("", style="dim", no_wrap=True)
    for name in names:
        table.add_column(Text(name), justify="right")
    policies = {name: summary["policies"][name] for name in names}
    winners = {f.label: best(f, summary["policies"]) for f in FIGURES}
    for label, *cells in rows(policies):
        won = winners.get(label.split(" [")[0], set())
        texts = [
            Text(text, style=_style(label, text, name in won))
            for name, text in zip(names, cells, strict=True)
        ]
        table.add_row(Text(label), *texts)
    console.print(table)


def _style(label: str, text: str, won: bool) -> str:
    if label == "trusted":
        return "green" if text == "yes" else "bold red"
    return "bold green" if won else ""


def _doubts(summary: Mapping[str, Any]) -> list[str]:
    fidelity = summary["fidelity"]
    return [] if fidelity["trusted"] else [f"not trusted: {sentence}" for sentence in fidelity["why"]]
