"""The interface of the small simulations that a paper runs on each randomly drawn cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from schedbed.deploy.papers.bench import Bench
from schedbed.deploy.papers.posterior.prior import Drawn


@dataclass(frozen=True, slots=True, kw_only=True)
class Mini:
    """The small simulations that a paper runs on one randomly drawn cluster.

    `fits` is a function that yields the values to match as pairs of key and number, in the order of
    paper.yaml, and simulates each value only when it is requested. `claims` is a function that returns our
    value for each claim, by EXPERIMENT/VALUE.
    """

    fits: Callable[[Bench, Drawn], Iterator[tuple[str, float]]]
    claims: Callable[[Bench, Drawn], Mapping[str, float]]
