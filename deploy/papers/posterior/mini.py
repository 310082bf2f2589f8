"""A paper's small experiment: one cluster is checked against the printed values, then its claims are measured."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from schedbed.deploy.papers.bench import Bench
from schedbed.deploy.papers.posterior.prior import Drawn


@dataclass(frozen=True, slots=True, kw_only=True)
class Mini:
    """The simulations of one draw.

    `fits` yields (key, value) in the order of the yaml and simulates for each only when asked for it. `claims` returns
    a value for each claim, by EXPERIMENT/VALUE.
    """

    fits: Callable[[Bench, Drawn], Iterator[tuple[str, float]]]
    claims: Callable[[Bench, Drawn], Mapping[str, float]]
