"""The open parameters of a paper's cluster: ranges to draw from, and the printed values that a draw must meet."""

from __future__ import annotations

from collections.abc import Mapping
from math import exp, log
from typing import Annotated

from pydantic import Field, model_validator

from schedbed.deploy.papers.criterion import Criterion, Number, PaperPart, Text
from schedbed.tasks.chance import chance

Drawn = Mapping[str, float]
"""A cluster: the value of each parameter by its key."""


class OpenParameter(PaperPart):
    """A parameter that the paper does not print: a range, even on a linear or a logarithmic scale, or some choices."""

    what: Text
    unit: Text
    why: Text  # this range
    low: Number | None = None
    high: Number | None = None
    logarithmic: bool = False
    choices: Annotated[list[Number], Field(min_length=2)] | None = None

    @model_validator(mode="after")
    def _one(self) -> OpenParameter:
        if (self.choices is None) != (self.low is not None and self.high is not None):
            raise ValueError("expected low and high, or choices")
        if self.low is not None and self.high is not None:
            if self.low >= self.high:
                raise ValueError(f"expected low below high, got {self.low} and {self.high}")
            if self.logarithmic and self.low <= 0:
                raise ValueError(f"expected low above 0 on a logarithmic scale, got {self.low}")
        return self

    def draw(self, seed: int, *names: str | int) -> float:
        """Return a value by chance; the same seed and names give the same value."""
        coin = chance(seed, *names)
        if self.choices is not None:
            return float(coin.choice(self.choices))
        assert self.low is not None and self.high is not None
        if self.logarithmic:
            return exp(coin.uniform(log(self.low), log(self.high)))
        return coin.uniform(self.low, self.high)


class PrintedFit(PaperPart):
    """A value that the paper prints about its cluster beside the claims, and how near to it a cluster must come."""

    what: Text
    where: Text
    value: Number | None = None
    unit: str = ""
    holds: Criterion
    why: Text  # this tolerance

    @model_validator(mode="after")
    def _checkable(self) -> PrintedFit:
        self.holds.bounds(self.value)
        return self

    def meets(self, ours: float) -> bool:
        """Return whether a cluster with this value fits."""
        low, high = self.holds.bounds(self.value)
        return low <= ours <= high


class Posterior(PaperPart):
    """The clusters to try: how many, from which ranges, what they must fit, and the claims to look at.

    `fits` are in the order in which they are simulated: a draw ends with the first that it misses. `claims` are
    EXPERIMENT/VALUE of the same file, with the criteria that stand there.
    """

    about: Text
    draws: Annotated[int, Field(ge=1)]
    prior: Annotated[dict[str, OpenParameter], Field(min_length=1)]
    fits: Annotated[dict[str, PrintedFit], Field(min_length=1)]
    claims: Annotated[list[str], Field(min_length=1)]

    def drawn(self, paper: str, number: int, seed: int) -> Drawn:
        """Return the parameters of one draw. A new parameter does not change the others: each has its own generator."""
        return {key: each.draw(seed, "posterior", paper, number, key) for key, each in self.prior.items()}
