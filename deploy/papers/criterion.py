"""The criterion that our value must satisfy so that a paper's claim holds, as given in a `paper.yaml`.

Here, our value is the one measured with schedbed.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, model_validator

Number = int | float
Text = Annotated[str, Field(min_length=1)]


class PaperPart(BaseModel):
    """The base class of the pydantic models that represent a `paper.yaml` and its sections.

    Unknown keys and infinite numbers are errors.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class Criterion(PaperPart):
    """The condition that our value must satisfy so that a claim holds.

    `equal` requires the value that the paper prints, and is meant for values without randomness. It cannot be
    combined with bounds. Otherwise all given bounds must be satisfied: `at_least`, `at_most`, and `within`,
    the allowed deviation as a share of the paper's value.
    """

    at_least: Number | None = None
    at_most: Number | None = None
    within: Annotated[Number, Field(gt=0)] | None = None
    equal: bool = False

    @model_validator(mode="after")
    def _one(self) -> Criterion:
        ranged = any(each is not None for each in (self.at_least, self.at_most, self.within))
        if ranged == self.equal:
            raise ValueError("expected equal: true, or at_least, at_most and/or within")
        return self

    def bounds(self, paper: Number | None) -> tuple[float, float]:
        """Return the least and the largest value that satisfy the criterion. `paper` is the paper's value.

        Raises ValueError if the criterion is `equal`, or if it is `within` and the paper has no number.
        """
        if self.equal:
            raise ValueError("equal: has no range")
        low = float("-inf") if self.at_least is None else self.at_least
        high = float("inf") if self.at_most is None else self.at_most
        if self.within is not None:
            if paper is None:
                raise ValueError("within: needs a number of the paper")
            slack = abs(paper) * self.within
            low, high = max(low, paper - slack), min(high, paper + slack)
        return (low, high)
