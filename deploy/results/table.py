"""The table that compares policies, made from summary.json, as colored text, plain text or cells."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from textwrap import fill
from typing import TYPE_CHECKING, Any

from schedbed.deploy.results.comparison import (
    FIGURES,
    QUEUE_FIGURES,
    Figure,
    Policies,
    best,
    differs_from_first,
    leaf_of,
    queues_of,
    verdicts,
)
from schedbed.deploy.results.fidelity import doubts
from schedbed.deploy.results.measures.approximate_rates import rate_notes
from schedbed.deploy.results.measures.window import sentence

if TYPE_CHECKING:
    from rich.console import Console

POLICIES_ABREAST = 4
NAME_WIDTH = 60
COLUMN_GAP = 3  # Width between two columns on a terminal.
NOTE_WIDTH = 110
STAR = "* differs from the first policy."
SKEWED = "An interval with a percent sign behind it covers so much, not 95%: its repeats scatter by a large factor."


def cell(figure: Figure, policies: Policies, name: str) -> str:
    """Return a policy's value of the metric as text, or `-` if it is not known.

    It is like `57.2`, or `57.2 [55.0, 59.1]` with an interval over repeats, followed by the coverage if below
    95%: `57.2 [12.0, 102] 88%`. A final `*` marks a significant difference from the first policy.
    """
    leaf = leaf_of(policies[name], figure.path)
    if leaf is None or leaf["mean"] is None:
        return "-"
    star = ("*",) if differs_from_first(policies, name, figure) else ()
    return " ".join((figure.show(leaf["mean"]), *interval(figure, leaf), *star))


def interval(figure: Figure, leaf: Mapping[str, Any]) -> tuple[str, ...]:
    """Return a metric's interval as text, and its coverage if below 95%; empty without an interval."""
    if leaf["ci95"] is None:
        return ()
    low, high = (figure.show(bound) for bound in leaf["ci95"])
    covers = (f"{100 * leaf['covers']:.0f}%",) if "covers" in leaf else ()
    return (f"[{low}, {high}]", *covers)


def rows(policies: Policies) -> list[list[str]]:
    """Return the rows: a label, then a cell per policy, for metrics that any policy has. The last is `trusted`."""
    made: list[list[str]] = []
    for figure in FIGURES:
        cells = [cell(figure, policies, name) for name in policies]
        if any(text != "-" for text in cells):
            starred = any(text.endswith("*") for text in cells)
            cells = [text if text.endswith("*") or not starred else f"{text}  " for text in cells]
            made.append([f"{figure.label} [{figure.unit}]" if figure.unit else figure.label, *cells])
    trusted = ["yes" if policy["fidelity"]["trusted"] else "NO" for policy in policies.values()]
    return [*made, ["trusted", *trusted]]


def plain(summary: Mapping[str, Any]) -> str:
    """Return the table as aligned text, followed by notes and by the reasons why a run is not trusted."""
    policies = summary["policies"]
    lines = [["", *heads(policies)], *rows(policies)]
    widths = [max(len(line[i]) for line in lines) for i in range(len(lines[0]))]
    text = [
        "  ".join(
            [line[0].ljust(widths[0]), *(c.rjust(w) for c, w in zip(line[1:], widths[1:], strict=True))]
        )
        for line in lines
    ]
    text += queue_lines(policies)
    told = [fill(note, NOTE_WIDTH, break_on_hyphens=False) for note in notes(summary)]
    return "\n".join([*(line.rstrip() for line in text), *told, *_doubts(summary)])


def heads(policies: Policies) -> list[str]:
    """Return the policies' names, without the settings of one that has many and no namesake."""
    first = [name.partition(":")[0] for name in policies]
    return [
        f"{base}:..." if len(name) > NAME_WIDTH and first.count(base) == 1 else name
        for name, base in zip(policies, first, strict=True)
    ]


def queue_lines(policies: Policies) -> list[str]:
    """Return a line per queue with its figures under each policy, none with one queue."""
    names = queues_of(policies)
    lines = [f"By queue, each figure under {', '.join(heads(policies))}:"] if names else []
    for name in names:
        cells: list[str] = []
        for label, place, form in QUEUE_FIGURES:
            leaves = [leaf_of(policy, ("per_queue", name, *place)) for policy in policies.values()]
            shown = [form(leaf["mean"]) if leaf and leaf["mean"] is not None else "-" for leaf in leaves]
            if set(shown) != {"-"}:
                cells.append(f"{label} {' / '.join(shown)}")
        lines.append(f"  {name}: {'; '.join(cells)}")
    return lines


def show(summary: Mapping[str, Any], console: Console) -> None:
    """Print the table, with colors and lines if the output is a terminal, and as plain text otherwise."""
    if not console.is_terminal:
        console.file.write(plain(summary) + "\n")
        return
    for names in _abreast(summary["policies"], console.width):
        _show_some(summary, names, console)
    for line in queue_lines(summary["policies"]):
        console.print(line, markup=False, highlight=False)
    for note in notes(summary):
        console.print(note, style="dim", markup=False, highlight=False)
    for doubt in _doubts(summary):
        console.print(doubt, style="yellow", markup=False)


def _abreast(policies: Policies, width: int) -> Iterator[list[str]]:
    """Yield groups of policies whose columns fit into `width`, at least one policy each."""
    every, shown, table = list(policies), heads(policies), rows(policies)
    label = max(len(line[0]) for line in table)
    group: list[str] = []
    used = label
    for place, name in enumerate(every, start=1):
        needs = max(len(shown[place - 1]), *(len(line[place]) for line in table)) + COLUMN_GAP
        if group and (len(group) == POLICIES_ABREAST or used + needs > width):
            yield group
            group, used = [], label
        group.append(name)
        used += needs
    if group:
        yield group


def _show_some(summary: Mapping[str, Any], names: Sequence[str], console: Console) -> None:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(
        title=f"{summary['scenario']} on {summary['machines']}", box=box.SIMPLE_HEAD, pad_edge=False
    )
    table.add_column("", style="dim", no_wrap=True)
    shown = dict(zip(summary["policies"], heads(summary["policies"]), strict=True))
    for name in names:
        table.add_column(Text(shown[name], overflow="fold"), justify="right", overflow="fold")
    every = list(summary["policies"])
    winners = {figure.label: best(summary, figure) for figure in FIGURES}
    for label, *all_cells in rows(summary["policies"]):
        cells = [all_cells[every.index(name)] for name in names]
        won = winners.get(label.split(" [")[0])
        texts = [
            Text(text, style=_style(label, text, name == won))
            for name, text in zip(names, cells, strict=True)
        ]
        table.add_row(Text(label), *texts)
    console.print(table)


def _style(label: str, text: str, won: bool) -> str:
    if label == "trusted":
        return "green" if text == "yes" else "bold red"
    return "bold green" if won else ""


def notes(summary: Mapping[str, Any]) -> list[str]:
    """Return the sentences below the table."""
    policies = summary["policies"]
    leaves = [leaf_of(policy, figure.path) for policy in policies.values() for figure in FIGURES]
    starred = any(differs_from_first(policies, name, figure) for name in policies for figure in FIGURES)
    skewed = any(leaf is not None and "covers" in leaf for leaf in leaves)
    return [
        *_stretch_notes(summary.get("stretch", 1)),
        *rate_notes(summary),
        *([sentence(summary["measure"])] if "measure" in summary else []),
        *([STAR] if starred else []),
        *verdicts(summary),
        *(
            f"{name}: {policy['evidence']}."
            for name, policy in policies.items()
            if policy.get("record_error") is not None
        ),
        *([SKEWED] if skewed else []),
    ]


def _stretch_notes(stretch: float) -> list[str]:
    if stretch == 1:
        return []
    return [f"An emulated second lasted {stretch:g} s of this host: all times are emulated."]


def _doubts(summary: Mapping[str, Any]) -> list[str]:
    return [f"not trusted: {sentence}" for sentence in doubts(summary["fidelity"])]
