"""The interface of an experiment: a function that measures with a bench, and a function that draws."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

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
    """The results of an experiment.

    `values` has, by the keys of paper.yaml, an Exact value or one number per repeat. `series` is further data
    for the figure, `notes` are texts that a reader of the results must know.
    """

    values: Mapping[str, Exact | Sequence[float]]
    series: Mapping[str, Any] = field(default_factory=dict)
    notes: Sequence[str] = ()

    def samples(self, key: str) -> list[float]:
        """Return the value of each repeat, or a single number for an Exact value.

        Raises ValueError if an Exact value has several numbers.
        """
        found = self.values[key]
        if not isinstance(found, Exact):
            return list(found)
        if isinstance(found.value, tuple):
            raise ValueError(f"{key}: {found.value} are several numbers")
        return [found.value]


@dataclass(frozen=True, slots=True, kw_only=True)
class Experiment:
    """One experiment of a paper.

    `takes_s`: the kinds of machines that the experiment can run on (`sim` and `process`, which includes
    containers), with the approximate seconds of all its repeats. `quick`: included in `reproduce --quick`.
    `repeats`: the default number on live machines, 1 if nothing is random; in simulations at least
    `sim_repeats`. `full_repeats`: the number of repeats in the paper, if they take hours; `reproduce --full`
    runs that number, each in the paper's own size.
    """

    name: str  # the key in paper.yaml
    measure: Callable[[Bench], Measured]
    draw: Callable[[Figure, Values, Measured], None]
    takes_s: Mapping[str, float]
    repeats: int = 3
    sim_repeats: int = SIM_REPEATS
    full_repeats: int | None = None
    quick: bool = False
    size: tuple[float, float] = (6.4, 3.2)  # size of the figure in inches

    def runs_on(self, machines: str) -> bool:
        """Return whether the experiment can run on these machines."""
        return kind(machines) in self.takes_s

    def repeats_on(self, machines: str) -> int:
        """Return the default number of repeats, which is larger in simulations because they are cheap."""
        return (
            self.repeats
            if kind(machines) != "sim" or self.repeats == 1
            else max(self.repeats, self.sim_repeats)
        )


def kind(machines: str) -> str:
    """Return the kind of the machines: `sim`, or `process` for all live machines."""
    return "sim" if machines == "sim" else "process"
