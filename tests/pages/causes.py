"""Check why claims do not hold: each cause in causes.yaml names results that must show it.

A claim that does not hold counts as refuted if its cause is shown by results, and as open otherwise. A cause
is shown in one of two ways:

- `changed`: for each claim, the same value of another run in which one thing of our setup was changed. That
  value holds by the claim's own criterion. Or its mean does, and the change moved the value there by more
  than the uncertainty of the difference.
- `claims` with `shown`: values of the results whose whole intervals must meet the criteria that the cause
  states.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import hypot
from pathlib import Path

import yaml
from pydantic import TypeAdapter, model_validator

from schedbed.deploy.papers import paper_file, terminal
from schedbed.deploy.papers.paper_file import Criterion, PaperPart, Text, Value
from schedbed.deploy.papers.verdict import FAILS, HOLDS, OPEN, Row, judge_kept

CAUSES = "causes.yaml"

Rows = Mapping[str, Row]
"""By PAPER/EXPERIMENT/VALUE."""


class Cause(PaperPart):
    """An entry of causes.yaml: a reason, the claims that it explains, and the results that show it."""

    because: Text
    changed: dict[str, str] = {}
    claims: list[str] = []
    shown: dict[str, Criterion] = {}

    @model_validator(mode="after")
    def _one_way(self) -> Cause:
        if bool(self.changed) == bool(self.claims and self.shown) or bool(self.claims) != bool(self.shown):
            raise ValueError(
                "expected changed: {CLAIM: VALUE}, or claims: [...] and shown: {VALUE: criterion}"
            )
        return self

    @property
    def explained(self) -> Sequence[str]:
        """Return the names of the claims that this cause explains."""
        return list(self.changed) or self.claims

    def evidence(self, claim: str) -> Sequence[str]:
        """Return the names of the results that show this cause of `claim`."""
        return [self.changed[claim]] if self.changed else list(self.shown)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tally:
    """The numbers of claims that hold, are refuted with a shown cause, are refuted without a cause, and are
    undecided.
    """

    hold: int
    caused: int
    without: int
    undecided: int

    @property
    def open(self) -> int:
        """Return the number of claims that are undecided or refuted without a cause."""
        return self.without + self.undecided


Checked = Mapping[str, Cause]
"""The cause of each claim that has one."""


def load(folder: Path, rows: Rows) -> Checked:
    """Read causes.yaml in `folder`, and return a dictionary from claims to causes.

    `rows` are the kept results. Raise ValueError with a line for each fault: an unknown claim or result, a
    claim that is not refuted or has two causes, and results that do not show the cause.
    """
    parsed = yaml.safe_load((folder / CAUSES).read_text(encoding="utf-8"))
    causes = TypeAdapter(list[Cause]).validate_python(parsed)
    found: dict[str, Cause] = {}
    faults: list[str] = []
    for cause in causes:
        for claim in cause.explained:
            faults += _faults(cause, claim, rows)
            if claim in found:
                faults.append(f"{CAUSES}: {claim}: has two causes")
            found[claim] = cause
    if faults:
        raise ValueError("\n".join(faults))
    return found


def _faults(cause: Cause, claim: str, rows: Rows) -> Iterator[str]:
    missing = [key for key in (claim, *cause.evidence(claim)) if key not in rows]
    if missing:
        yield f"{CAUSES}: {claim}: there is no result of {', '.join(missing)}"
        return
    if rows[claim].verdict != FAILS:
        yield f"{CAUSES}: {claim}: {rows[claim].verdict or 'is no claim'}, expected one that does not hold"
    for key in cause.evidence(claim):
        said = _said(claim) if cause.changed else _wanting(_said(key), cause.shown[key])
        row = judged(key, said, rows[key])
        if rows[key].ci95 is None and rows[key].kind != "consistency":
            yield f"{CAUSES}: {claim}: {key} has no interval, expected three repeats or more"
        elif row.verdict == FAILS or (row.verdict == OPEN and not cause.changed):
            yield f"{CAUSES}: {claim}: not shown by {key}, which is {terminal.ours(row)}, expected {row.wanted}"
        elif row.verdict == OPEN and not _moved(rows[claim], row, said):
            yield (
                f"{CAUSES}: {claim}: not shown by {key}, which is {terminal.ours(row)}, expected {row.wanted} of its "
                "mean at least, and a whole interval from the unchanged value"
            )


def _moved(claim: Row, changed: Row, said: Value) -> bool:
    """Return whether a changed setup moved an undecided value to where the claim's criterion `said` is met.

    The mean of `changed` must meet the criterion, and the interval of its difference from `claim` must lie on
    that side of zero. The interval is that of independent repeats, as kept results are not paired.
    """
    low, high = said.bounds()
    (mean, width), (mean_before, width_before) = map(_interval, (changed, claim))
    difference = mean - mean_before
    towards = difference if mean_before < low else -difference
    return low <= mean <= high and towards > hypot(width, width_before)


def _interval(row: Row) -> tuple[float, float]:
    """Return the mean of a result, and half the width of its 95% interval.

    Raise ValueError if it has no interval.
    """
    if row.ci95 is None or not isinstance(row.mean, float | int):
        raise ValueError(f"{row.key}: has no interval")
    return row.mean, (row.ci95[1] - row.ci95[0]) / 2


def judged(key: str, said: Value, kept: Row) -> Row:
    """Return the result `kept`, judged by the criterion of `said`."""
    return judge_kept(key, said, "", mean=kept.mean, ci95=kept.ci95, exact=kept.ci95 is None)


def _said(claim: str) -> Value:
    paper, experiment, value = claim.split("/")
    return paper_file.load(paper).experiments[experiment].values[value]


def _wanting(said: Value, criterion: Criterion) -> Value:
    return said.model_copy(update={"holds": criterion, "kind": "ours"})


def tally(keys: Iterable[str], rows: Rows, checked: Checked) -> Tally:
    """Return how many of the claims `keys` hold, are refuted with and without a cause, and are undecided."""
    verdicts = [(key, rows[key].verdict) for key in keys]
    return Tally(
        hold=sum(verdict == HOLDS for _, verdict in verdicts),
        caused=sum(verdict == FAILS and key in checked for key, verdict in verdicts),
        without=sum(verdict == FAILS and key not in checked for key, verdict in verdicts),
        undecided=sum(verdict == OPEN for _, verdict in verdicts),
    )


def table(papers: Mapping[str, Sequence[str]], rows: Rows, checked: Checked) -> str:
    """Return a Markdown table that counts, for each paper, the settled and the open outcomes.

    `papers` lists each paper's claims.
    """
    lines = [
        "| simulated outcomes | hold | refuted, cause shown | refuted, no cause | interval undecided | open of all |",
        "|---|---|---|---|---|---|",
    ]
    total: list[str] = []
    for paper, keys in papers.items():
        mine = [key for key in keys if rows[key].kind == "outcome" and rows[key].wanted]
        total += mine
        lines.append(_line(f"[{paper}](results/papers/{paper}.md)", tally(mine, rows, checked)))
    return "\n".join([*lines, _line("**all**", tally(total, rows, checked))]) + "\n"


def _line(name: str, counts: Tally) -> str:
    of = counts.hold + counts.caused + counts.open
    return (
        f"| {name} | {counts.hold} | {counts.caused} | {counts.without} | {counts.undecided} "
        f"| {counts.open} of {of} |"
    )


def texts(keys: Sequence[str], rows: Rows, checked: Checked) -> list[str]:
    """Return a paragraph for each cause of the claims `keys`, and one that lists the refuted claims without a
    cause.
    """
    by_cause: dict[int, list[str]] = {}
    for key in keys:
        if rows[key].verdict == FAILS and key in checked:
            by_cause.setdefault(id(checked[key]), []).append(key)
    found = [_text(checked[mine[0]], mine, rows) for mine in by_cause.values()]
    without = [rows[key].what for key in keys if rows[key].verdict == FAILS and key not in checked]
    if without:
        told = "; ".join(f'"{what}"' for what in without)
        found.append(f"No cause is shown, so these count as open: {told}.")
    return found


def _text(cause: Cause, claims: Sequence[str], rows: Rows) -> str:
    shown = dict.fromkeys(key for claim in claims for key in cause.evidence(claim))
    results = "; ".join(
        f"{key.rpartition('/')[0]}, {rows[key].what}: {terminal.ours(rows[key])}" for key in shown
    )
    whats = "; ".join(f'"{rows[claim].what}"' for claim in claims)
    return f"**Cause** of: {whats}. {cause.because.strip()} Shown by {results}."
