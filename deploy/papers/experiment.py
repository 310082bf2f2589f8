"""The interface of an experiment: a function that measures values, and a function that draws a figure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from schedbed.deploy.papers.paper_file import Value
from schedbed.deploy.papers.verdict import SEEDS, Exact

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from schedbed.deploy.papers.bench import Bench

Values = Mapping[str, Value]

SEEDS_APART = 1000
"""The distance of the seeds of a command: each repeat has the next integer as its seed."""

SIM_REPEATS = 20
"""The number of simulated repeats for each seed, fixed before the results are known."""

FEW_REPEATS = 5
"""The number for experiments that take many minutes with 20 repeats."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """Values that an experiment measured, by key in paper.yaml: `Exact`, or one number per repeat.

    `series` is for the figure. `notes` are sentences that a reader of the results must know.
    """

    values: Mapping[str, Exact | Sequence[float]]
    series: Mapping[str, Any] = field(default_factory=dict)
    notes: Sequence[str] = ()

    def samples(self, key: str) -> list[float]:
        """Return a value per repeat, an `Exact` one as a single number. Raises ValueError if that has several."""
        found = self.values[key]
        if not isinstance(found, Exact):
            return list(found)
        if isinstance(found.value, tuple):
            raise ValueError(f"{key}: {found.value} are several numbers")
        return [found.value]


@dataclass(frozen=True, slots=True)
class Experiment:
    """An experiment of a paper. `takes_s` has seconds of all repeats by machines: `sim`, or `process` for
    live.

    `quick` ones are part of `reproduce --quick`, with one seed, for which their `takes_s` is. `repeats` are live;
    simulations have `sim_repeats`; both for each seed, where 1 simulated repeat says that nothing is random.
    `full_repeats` is for `reproduce --full`.
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
        """Return whether the experiment runs on such machines."""
        return kind(machines) in self.takes_s

    def repeats_on(self, machines: str) -> int:
        """Return the repeats for each seed."""
        return self.sim_repeats if kind(machines) == "sim" else self.repeats

    def seeds_on(self, machines: str, seed: int, *, quick: bool = False) -> list[int]:
        """Return the seeds: one if nothing is random, and with `quick` for a live run, which is soon done."""
        several = self.sim_repeats > 1 and not (quick and kind(machines) != "sim")
        return [seed + SEEDS_APART * number for number in range(SEEDS if several else 1)]

    def about_s(self, machines: str, *, quick: bool = False) -> float:
        """Return the approximate seconds on machines on which it runs, with the default repeats."""
        seeds = SEEDS if self.quick and not quick and kind(machines) != "sim" else 1
        return seeds * self.takes_s[kind(machines)]


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
    """Return `sim`, or `process` for all machines of live runs."""
    return "sim" if machines == "sim" else "process"
