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
    """A value without randomness, such as of a formula. A tuple is compared as a whole."""

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
        return asdict(self)


def judge(key: str, said: Value, where: str, ours: Exact | Sequence[float]) -> Row:
    """Compare our value, Exact or one number per repeat, with a paper's, and return the verdict.

    A claim holds if the whole 95% interval of the mean (Student's t) satisfies the criterion, does not if the
    whole interval violates it, and is otherwise open. If only the least possible value satisfies it, one
    repeat with a larger one refutes it, as the true mean is then larger too. Raises ValueError for an Exact
    `outcome`, which could not have been different.
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
    """Judge a value measured earlier by the current criterion. `exact` has no randomness."""
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
