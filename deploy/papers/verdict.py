"""The one rule for claims: what our repeats, simulated or live, say about a value that a paper prints."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from schedbed.deploy.papers.paper_file import Kind, Shown, Value
from schedbed.deploy.results.stats import mean_interval

HOLDS, OPEN, CONTRADICTED, COMPARED = "holds", "not reproduced", "contradicted", ""
"""The words. A value without a criterion has none (`COMPARED`)."""

WORDS = (HOLDS, OPEN, CONTRADICTED)
"""The words in the order in which counts are shown."""

SEEDS = 3
"""The seeds that a claim with randomness needs. In each of them the repeats draw their own tasks and jobs."""

Interval = tuple[float, float]
Samples = Sequence[Sequence[float | None]]
"""A list of numbers for each seed, with a number for each repeat; None if a repeat has none."""


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
    mean: float | tuple[float, ...] | None
    ci95: Interval | None  # of all repeats
    samples: Samples  # empty if nothing is random
    verdict: str
    why: str  # why the claim does not hold, or empty

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def judge(key: str, said: Value, where: str, ours: Exact | Samples, *, meets: bool = False) -> Row:
    """Return our value next to the paper's, with the word for the claim.

    A claim holds if the 95% interval of the mean (Student's t) satisfies the criterion in each of three
    seeds. It is contradicted if the interval is outside in each of them, and our set-up `meets` what the
    paper prints of its cluster and its jobs. It is not reproduced otherwise. Raises ValueError for an Exact
    `outcome`, which could not have been different.
    """
    if isinstance(ours, Exact):
        if said.kind == "outcome":
            raise ValueError(f"{key}: an outcome needs a number a repeat, got a value without chance")
        return _row(key, said, where, ours.value, _exactly(said, ours), "")
    numbers = [each for one in ours for each in _known(one)]
    word, why = _word(said, list(map(_interval, ours)), meets)
    mean = sum(numbers) / len(numbers) if numbers else None
    return _row(key, said, where, mean, word, why, ci95=mean_interval(numbers), samples=ours)


def judge_kept(
    key: str,
    said: Value,
    where: str,
    mean: float,
    intervals: Sequence[Interval | None],
    *,
    meets: bool = False,
) -> Row:
    """Judge a value by the interval of each seed, of which `mean` is the mean."""
    word, why = _word(said, intervals, meets)
    return _row(key, said, where, mean, word, why, ci95=intervals[0])


def _row(
    key: str,
    said: Value,
    where: str,
    mean: float | tuple[float, ...] | None,
    word: str,
    why: str,
    *,
    ci95: Interval | None = None,
    samples: Samples = (),
) -> Row:
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
        mean=mean,
        ci95=ci95,
        samples=samples,
        verdict=word,
        why=why,
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


def _exactly(said: Value, ours: Exact) -> str:
    if said.holds is None:
        return COMPARED
    if said.holds.equal:
        mine = list(ours.value) if isinstance(ours.value, tuple) else ours.value
        return HOLDS if mine == said.value else OPEN
    if isinstance(ours.value, tuple):
        raise ValueError(f"{said.what}: several numbers {ours.value} can only be held against `equal`")
    low, high = said.bounds()
    return HOLDS if low <= ours.value <= high else OPEN


def _word(said: Value, intervals: Sequence[Interval | None], meets: bool) -> tuple[str, str]:
    """Return the word for a claim, and the reason if it does not hold. There is an interval for each seed."""
    if said.holds is None:
        return COMPARED, ""
    sides = {_side(said, each) for each in intervals}
    few = f", {len(intervals)} of {SEEDS} seeds" if len(intervals) < SEEDS else ""
    if sides == {"inside"} and not few:
        return HOLDS, ""
    if sides == {"outside"} and meets and not few:
        return CONTRADICTED, "outside, with the printed set-up"
    return OPEN, (sides.pop() if len(sides) == 1 else "seeds disagree") + few


def _side(said: Value, interval: Interval | None) -> str:
    low, high = said.bounds()
    if interval is None:
        return "interval undecided"
    if low <= interval[0] and interval[1] <= high:
        return "inside"
    return "outside" if interval[1] < low or interval[0] > high else "interval undecided"


def _interval(repeats: Sequence[float | None]) -> Interval | None:
    """Return the interval of the mean, or None if a repeat has no number or there are too few repeats."""
    known = _known(repeats)
    return mean_interval(known) if len(known) == len(repeats) else None


def _known(repeats: Sequence[float | None]) -> list[float]:
    return [each for each in repeats if each is not None and each == each]
