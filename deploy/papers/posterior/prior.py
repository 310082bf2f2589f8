"""Models of a paper.yaml's section `posterior`: unknown parameters of a cluster, and values to match.

A random cluster is drawn by giving each parameter a random value of its range.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import exp, log
from typing import Annotated

from pydantic import Field, model_validator

from schedbed.deploy.papers.criterion import Criterion, Number, PaperPart, Text
from schedbed.tasks.chance import chance

Drawn = Mapping[str, float]
"""The parameters of a drawn cluster: values by key."""


class OpenParameter(PaperPart):
    """A parameter of the cluster that the paper does not print, with the distribution from which it is drawn.

    The distribution is uniform: between `low` and `high`, on a linear or a logarithmic scale, or over the
    values in `choices`.
    """

    what: Text
    unit: Text
    why: Text  # reason for the range
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
        """Return a random value of the parameter. The generator depends on `seed` and `names` only.

        Calls with the same seed and names therefore return the same value.
        """
        coin = chance(seed, *names)
        if self.choices is not None:
            return float(coin.choice(self.choices))
        assert self.low is not None and self.high is not None
        if self.logarithmic:
            return exp(coin.uniform(log(self.low), log(self.high)))
        return coin.uniform(self.low, self.high)


class PrintedFit(PaperPart):
    """A value that the paper prints and that the simulation of a drawn cluster must match within a tolerance.

    In contrast to a claim, the value only selects clusters.
    """

    what: Text
    where: Text
    value: Number | None = None
    unit: str = ""
    holds: Criterion
    why: Text  # reason for the tolerance

    @model_validator(mode="after")
    def _checkable(self) -> PrintedFit:
        self.holds.bounds(self.value)
        return self

    def meets(self, ours: float) -> bool:
        """Return whether the simulated value `ours` matches the printed value within the tolerance."""
        low, high = self.holds.bounds(self.value)
        return low <= ours <= high


class Posterior(PaperPart):
    """The section `posterior` of a paper.yaml: which clusters to draw, what they must match, and the claims.

    `prior` has the parameters to draw. The values in `fits` are simulated in this order, and a draw ends with
    the first value that does not match. `claims` are keys EXPERIMENT/VALUE of claims in the same file.
    """

    about: Text
    draws: Annotated[int, Field(ge=1)]
    prior: Annotated[dict[str, OpenParameter], Field(min_length=1)]
    fits: Annotated[dict[str, PrintedFit], Field(min_length=1)]
    claims: Annotated[list[str], Field(min_length=1)]

    def drawn(self, paper: str, number: int, seed: int) -> Drawn:
        """Return the randomly drawn parameters of cluster number `number`, as a dictionary by parameter name.

        Each parameter has its own random generator, so adding a parameter to the file changes no other value.
        """
        return {key: each.draw(seed, "posterior", paper, number, key) for key, each in self.prior.items()}
