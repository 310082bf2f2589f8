"""An experiment of a paper: what it measures with a bench, what it draws; one small file each."""

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
"""The least number of repeats that is simulated by default, where there is chance in an experiment."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """What an experiment found. `values` by the keys of paper.yaml: Exact, or one number a repeat.

    `series` is what the figure needs beside them, `notes` what the reader has to know of this run.
    """

    values: Mapping[str, Exact | Sequence[float]]
    series: Mapping[str, Any] = field(default_factory=dict)
    notes: Sequence[str] = ()

    def samples(self, key: str) -> list[float]:
        """Return the value of each repeat; of an Exact one number, once."""
        found = self.values[key]
        if not isinstance(found, Exact):
            return list(found)
        if isinstance(found.value, tuple):
            raise ValueError(f"{key}: {found.value} are several numbers")
        return [found.value]


@dataclass(frozen=True, slots=True, kw_only=True)
class Experiment:
    """`takes_s` says on which kinds of machines it can run and about how long all its repeats take there, in s.

    `sim` and `process`; what runs in processes runs in containers as well. `quick`: part of `reproduce --quick`.
    `repeats` is the default of live machines, 1 where there is no chance in it; simulated it is `SIM_REPEATS` at least.
    `full_repeats` is the paper's own number, where that takes hours: `reproduce --full` plays that number, each of the
    paper's own size.
    """

    name: str  # the key in paper.yaml
    measure: Callable[[Bench], Measured]
    draw: Callable[[Figure, Values, Measured], None]
    takes_s: Mapping[str, float]
    repeats: int = 3
    full_repeats: int | None = None
    quick: bool = False
    size: tuple[float, float] = (6.4, 3.2)  # of the figure, inches

    def runs_on(self, machines: str) -> bool:
        """Tell whether the experiment can run on that kind of machines."""
        return kind(machines) in self.takes_s

    def repeats_on(self, machines: str) -> int:
        """Return the default number of repeats: simulated repeats are cheap, live ones are not."""
        return (
            self.repeats if kind(machines) != "sim" or self.repeats == 1 else max(self.repeats, SIM_REPEATS)
        )


def kind(machines: str) -> str:
    """`sim`, or `process` for all that is live."""
    return "sim" if machines == "sim" else "process"
