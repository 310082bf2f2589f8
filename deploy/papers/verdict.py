"""Verdicts on claims: whether our value, or the interval of its mean, satisfies the claim's criterion."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from schedbed.deploy.papers.paper_file import Kind, Shown, Value
from schedbed.deploy.results import stats

HOLDS, FAILS, OPEN, COMPARED = "holds", "does not hold", "open", ""
"""Verdicts. `open`: the interval includes a bound of the criterion, or there are too few repeats for an interval."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Exact:
    """A value without randomness, such as the result of a formula, which needs no repeats.

    A tuple of numbers is compared as a whole.
    """

    value: float | tuple[float, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A value of a paper, the value measured here and the verdict, as printed in tables and stored in results.json."""

    key: str
    what: str
    unit: str
    where: str
    paper: Shown
    read_off: bool
    wanted: str  # the criterion as text, empty if there is none
    kind: Kind | None
    chosen: str  # choices made when results were known, or empty
    no_task: bool
    constant: str  # why all repeats are equal, or empty
    mean: float | tuple[float, ...] | None
    ci95: tuple[float, float] | None
    repeats: tuple[float | None, ...]
    verdict: str

    def to_json(self) -> dict[str, Any]:
        """Return the row as plain JSON values, as stored in results.json."""
        return asdict(self)


def judge(key: str, said: Value, where: str, ours: Exact | Sequence[float]) -> Row:
    """Compare our value with the value `said` of a paper, and return the row with the verdict.

    `key` is the value's key in paper.yaml, and `where` its place in the paper. `ours` is Exact (without
    randomness) or has one number per repeat. A claim holds if the whole 95% interval of the mean (Student's
    t) satisfies the criterion, and does not hold if the whole interval violates it. Otherwise it is open.
    A claim that something never happens does not hold if it happened once: if only the least possible value
    satisfies the criterion, and a repeat has a larger one, the true mean is larger as well.
    Raises ValueError for an Exact value of the kind `outcome`, since an outcome without randomness could not
    have been different.
    """
    if isinstance(ours, Exact):
        if said.kind == "outcome":
            raise ValueError(f"{key}: an outcome needs a number a repeat, got a value without chance")
        return judge_kept(key, said, where, mean=ours.value, exact=True)
    leaf = stats.leaf(ours)
    interval = None if leaf["ci95"] is None else tuple(leaf["ci95"])
    return judge_kept(key, said, where, mean=leaf["mean"], ci95=interval, repeats=tuple(leaf["repeats"]))


def judge_kept(
    key: str,
    said: Value,
    where: str,
    *,
    mean: float | tuple[float, ...] | None,
    ci95: tuple[float, float] | None = None,
    repeats: tuple[float | None, ...] = (),
    exact: bool = False,
) -> Row:
    """Return the row of a value that was measured earlier, with a verdict by the current criterion in `said`.

    `where` is the value's place in the paper. `mean`, `ci95` and `repeats` are the stored mean, its 95%
    interval and the numbers per repeat. `exact` says that the value has no randomness.
    """
    return Row(
        key=key,
        what=said.what,
        unit=said.unit,
        where=said.where or where,
        paper=said.value,
        read_off=said.read_off,
        wanted=wanted(said),
        kind=said.kind,
        chosen=said.chosen or "",
        no_task=said.no_task,
        constant=said.constant or "",
        mean=mean,
        ci95=ci95,
        repeats=repeats,
        verdict=_exactly(said, mean) if exact and mean is not None else _surely(said, mean, ci95),
    )


def wanted(said: Value) -> str:
    """Return the criterion of a value as text, or an empty string if it has none."""
    asked = said.holds
    if asked is None:
        return ""
    if asked.equal:
        return "the same"
    share = [] if asked.within is None else [f"within {100 * asked.within:g}%"]
    edges = [("at least", asked.at_least), ("at most", asked.at_most)]
    return ", ".join(share + [f"{word} {bound:g}" for word, bound in edges if bound is not None])


def _exactly(said: Value, ours: float | tuple[float, ...]) -> str:
    if said.holds is None:
        return COMPARED
    if said.holds.equal:
        mine = list(ours) if isinstance(ours, tuple) else ours
        return HOLDS if mine == said.value else FAILS
    if isinstance(ours, tuple):
        raise ValueError(f"{said.what}: several numbers {ours} can only be held against `equal`")
    low, high = said.bounds()
    return HOLDS if low <= ours <= high else FAILS


def _surely(said: Value, mean: float | tuple[float, ...] | None, interval: tuple[float, float] | None) -> str:
    if said.holds is None:
        return COMPARED
    if said.holds.equal:
        raise ValueError(f"{said.what}: `equal` is for figures without chance")
    if interval is None or any(math.isnan(edge) for edge in interval):
        return OPEN
    low, high = said.bounds()
    if said.least is not None and high <= said.least and isinstance(mean, float | int) and mean > said.least:
        return FAILS
    if low <= interval[0] and interval[1] <= high:
        return HOLDS
    return FAILS if interval[1] < low or interval[0] > high else OPEN
