"""The interface of an experiment: a function that measures values, and a function that draws a figure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from schedbed.deploy.papers.paper_file import Value
from schedbed.deploy.papers.verdict import Exact

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from schedbed.deploy.papers.bench import Bench

Values = Mapping[str, Value]

SIM_REPEATS = 10
"""The least default number of simulated repeats of an experiment with randomness."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """The values that an experiment measured.

    `values` is a dictionary from a key in paper.yaml to an `Exact` value, which needs no repeats, or to one
    number per repeat. `series` is additional data for the figure. `notes` are sentences that a reader of the
    results must know.
    """

    values: Mapping[str, Exact | Sequence[float]]
    series: Mapping[str, Any] = field(default_factory=dict)
    notes: Sequence[str] = ()

    def samples(self, key: str) -> list[float]:
        """Return the value with the key `key` as a list of one number per repeat.

        A value without randomness (`Exact`) is returned as a list of a single number. Raises ValueError if
        such a value consists of several numbers.
        """
        found = self.values[key]
        if not isinstance(found, Exact):
            return list(found)
        if isinstance(found.value, tuple):
            raise ValueError(f"{key}: {found.value} are several numbers")
        return [found.value]


@dataclass(frozen=True, slots=True)
class Experiment:
    """An experiment of a paper.

    `takes_s` is a dictionary from the machines on which the experiment can run (`sim`, or `process` for live
    runs) to the approximate duration of all repeats in s. `quick` experiments are part of `reproduce
    --quick`. `repeats` is the default number of live repeats, or 1 if nothing is random. Simulations have at
    least `sim_repeats` repeats unless `repeats` is 1. `full_repeats`, if given, is the default number of
    repeats for `reproduce --full`.
    """

    name: str  # the key in paper.yaml
    measure: Callable[[Bench], Measured]
    draw: Callable[[Figure, Values, Measured], None]
    takes_s: Mapping[str, float]
    _: KW_ONLY
    repeats: int = 3
    sim_repeats: int = SIM_REPEATS
    full_repeats: int | None = None
    quick: bool = False
    size: tuple[float, float] = (6.4, 3.2)  # size of the figure in inches

    def runs_on(self, machines: str) -> bool:
        """Return whether the experiment can run on machines of this kind (`sim`, `process` or `docker`)."""
        return kind(machines) in self.takes_s

    def repeats_on(self, machines: str) -> int:
        """Return the default number of repeats on `machines`, such as `sim` or `process`.

        Simulations are cheap and have more repeats than live runs.
        """
        return (
            self.repeats
            if kind(machines) != "sim" or self.repeats == 1
            else max(self.repeats, self.sim_repeats)
        )


Key = TypeVar("Key", bound=Hashable)


def by_repeat(repeats: Iterable[Mapping[Key, float]]) -> dict[Key, list[float]]:
    """Return the values of all repeats as a dictionary from key to one number per repeat."""
    found: dict[Key, list[float]] = defaultdict(list)
    for values in repeats:
        for key, value in values.items():
            found[key].append(value)
    return found


def minus(mine: Sequence[float], theirs: Sequence[float]) -> list[float]:
    """Return mine - theirs for each repeat."""
    return [a - b for a, b in zip(mine, theirs, strict=True)]


def percent_less(mine: float, than: float) -> float:
    """Return by how many percent `mine` is smaller than `than`."""
    return 100 * (1 - mine / than)


def kind(machines: str) -> str:
    """Return `sim` for simulated machines, and `process` for machines of live runs, such as `docker`."""
    return "sim" if machines == "sim" else "process"
