"""The terminal output of the command `reproduce`: the list of experiments, and a table for each result."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import count, product
from string import ascii_lowercase
from textwrap import fill
from typing import TYPE_CHECKING, Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from schedbed.deploy.papers.experiment import kind
from schedbed.deploy.papers.paper_file import KINDS, Kind, Shown
from schedbed.deploy.papers.verdict import WORDS, Row

if TYPE_CHECKING:
    from schedbed.deploy.papers.catalogue import CatalogueEntry, ExperimentResult

WIDTH = 110
HEADS = ("", "kind", "paper", "ours [95%]", "claim")


def list_all(known: Mapping[str, CatalogueEntry]) -> None:
    """Print a table of all papers and experiments, with their approximate run times."""
    table = Table(header_style="bold", box=SIMPLE_HEAD)
    for head, wraps in (("experiment", False), ("in the paper", True), ("sim", False), ("live", False)):
        table.add_column(head, no_wrap=not wraps)
    paper = ""
    for entry in known.values():
        if entry.paper != paper:
            paper = entry.paper
            table.add_row(
                Text(paper, style="bold"), Text(f"{entry.said.title} ({entry.said.published})"), "", ""
            )
        about, ours = entry.about, entry.experiment
        sim, live = (_time(ours.about_s(m) if ours.runs_on(m) else None) for m in ("sim", "process"))
        if ours.quick:
            live += f", {_time(ours.about_s('process', quick=True))} quick"
        table.add_row(
            Text(f"  {entry.experiment.name}"),
            Text(f"{about.title} ({about.where})"),
            sim,
            live,
        )
    console = Console(highlight=False)
    console.print(table)
    usage = "schedbed reproduce PAPER[/EXPERIMENT] | --all | --quick  [--machines process|docker|sim]"
    console.print(usage, markup=False)


def heading(entry: CatalogueEntry, takes_s: float, number: int, of: int) -> str:
    """Return the line before an experiment: position, title and approximate run time."""
    about = _time(takes_s)
    return f"[{number}/{of}] {entry.label}: {entry.about.title} ({entry.about.where}), about {about}"


def result(done: ExperimentResult) -> str:
    """Return the text that is printed after an experiment: the table of its values, and its notes."""
    if done.note:
        return f"  broken after {done.took_s:.0f} s: {done.note}\n"
    letters = marks(row.to_json() for row in done.rows)
    lines = [
        HEADS,
        *(
            (row.what, kind_of(row), paper(row), ours(row), f"{claim(row)}{marked(row, letters)}")
            for row in done.rows
        ),
    ]
    widths = [max(len(line[i]) for line in lines) for i in range(len(HEADS))]
    table = ["  " + "  ".join(text.ljust(width) for text, width in zip(line, widths, strict=True)).rstrip()
             for line in lines]  # fmt: skip
    beside = [
        fill(text, WIDTH, initial_indent=f"  [{letter}] ", subsequent_indent="      ")
        for text, letter in letters.items()
    ]
    notes = [fill(note, WIDTH, initial_indent="  - ", subsequent_indent="    ") for note in done.notes]
    return "\n".join([*table, *beside, *notes, ""])


def tally(results: Iterable[ExperimentResult], machines: str) -> str:
    """Return the numbers of claims by word, a line per kind."""
    rows = [row.to_json() for done in results for row in done.rows]
    idle, where = without_task(rows), "simulated" if kind(machines) == "sim" else "live"
    lines = [f"Claims, {where}:"]
    for each, numbers in counted(rows).items():
        no_task = f" ({idle[each]} run no task)" if idle.get(each) else ""
        counts = ", ".join(f"{number} {word}" for word, number in zip(WORDS, numbers, strict=True))
        lines.append(f"  {each}: {counts}{no_task}")
    return "\n".join(lines)


def kind_of(row: Row) -> str:
    """Return the claim's kind, with `runs no task` if it is checked without one."""
    if not row.wanted:
        return ""
    return f"{row.kind}, runs no task" if row.no_task else str(row.kind)


def marked(row: Row, letters: Mapping[str, str]) -> str:
    """Return the footnotes of the claim's remarks, such as ` [a]`."""
    return "".join(f" [{letters[text]}]" for text in remarks(row.to_json()))


def paper(row: Row) -> str:
    """Return the paper's value as text. A value that was read off a figure has the prefix ~."""
    if row.paper is None:
        return "-"
    return f"{'~' if row.read_off else ''}{with_unit(row.paper, row.unit)}"


def ran(printed: Mapping[str, int | None], size: Mapping[str, Sequence[int]]) -> str:
    """Return the size as run against the printed one, such as `5 nodes (printed: 20)`."""
    texts = []
    for name, numbers in size.items():
        ours = "–".join(f"{number:,}" for number in sorted(set(numbers)))
        theirs = "not printed" if printed[name] is None else f"printed: {printed[name]:,}"
        texts.append(f"{ours} {name} ({theirs})")
    return ", ".join(texts)


def ours(row: Row) -> str:
    """Return our mean with its 95% interval."""
    text = "-" if row.mean is None else number(row.mean)
    return text if row.ci95 is None else f"{text} [{number(row.ci95[0])}, {number(row.ci95[1])}]"


def claim(row: Row) -> str:
    """Return the word with the criterion and the reason, or "" without a criterion."""
    return f"{row.verdict} ({row.wanted}{f'; {row.why}' if row.why else ''})" if row.wanted else ""


def number(value: Shown | tuple[float, ...]) -> str:
    """Return a number as text with about three digits. Several numbers are put in parentheses."""
    if value is None or isinstance(value, str):
        return value or "-"
    if isinstance(value, Sequence):
        return f"({', '.join(number(each) for each in value)})"
    return f"{value:.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def with_unit(value: Shown, unit: str) -> str:
    """Return a value of the paper as text with its unit. The unit is left out if the value has no digits."""
    if isinstance(value, str) and not any(map(str.isdigit, value)):
        return value
    return f"{number(value)} {unit}".strip()


def _time(seconds: float | None) -> str:
    if seconds is None:
        return "-"
    return f"{seconds:.0f} s" if seconds < 90 else f"{seconds / 60:.0f} min"


# Numbers of claims by kind and word, and footnote letters for remarks on claims.
#
# The rows that these functions receive are values of an experiment as in results.json.

Rows = Iterable[Mapping[str, Any]]
Counts = Mapping[Kind, Sequence[int]]


def counted(rows: Rows) -> Counts:
    """Return the number of claims for each word, by kind; `outcome` comes first."""
    found = Counter((row["kind"], row["verdict"]) for row in rows if row["wanted"])
    counts: dict[Kind, Sequence[int]] = {kind: [found[kind, word] for word in WORDS] for kind in KINDS}
    return {kind: numbers for kind, numbers in counts.items() if any(numbers)}


def without_task(rows: Rows) -> Mapping[Kind, int]:
    """Return how many claims of each kind are checked without a task, such as with a formula."""
    return Counter(row["kind"] for row in rows if row["wanted"] and row["no_task"])


def remarks(row: Mapping[str, Any]) -> list[str]:
    """Return a sentence that says what was chosen with results in view, or nothing."""
    return [f"Chosen with results in view: {row['chosen'].rstrip('.')}."] if row["chosen"] else []


def marks(rows: Rows) -> dict[str, str]:
    """Return a footnote letter (a, b, ..., z, aa, ab, ...) for each remark in the rows' order."""
    texts = dict.fromkeys(text for row in rows for text in remarks(row))
    letters = ("".join(each) for length in count(1) for each in product(ascii_lowercase, repeat=length))
    return dict(zip(texts, letters, strict=False))
