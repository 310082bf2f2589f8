"""The content of a `paper.yaml`: the values that a paper prints, with their places and criteria."""

from __future__ import annotations

from functools import cache
from importlib import resources
from typing import Annotated, Literal, get_args

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

# The criterion that our value must satisfy so that a paper's claim holds, as given in a `paper.yaml`.
#
# Here, our value is the one measured with schedbed.

Number = int | float
Text = Annotated[str, Field(min_length=1)]


class PaperPart(BaseModel):
    """The base of the models of a `paper.yaml`. Unknown keys and infinite numbers are errors."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class Criterion(PaperPart):
    """A condition on our value: `equal` to the paper's, without randomness, or all given bounds.

    `within` is the allowed deviation as a share of the paper's value.
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
        """Return least and largest value. Raises ValueError if `equal`, or `within` without a paper's number."""
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


Shown = Number | list[Number] | str | None

Kind = Literal["outcome", "consistency", "input", "ours"]
"""The kind of a claim. `outcome`: a measured or simulated result that could have come out otherwise. `consistency`: a
formula, a model or a constructed input gives what the paper prints. `input`: the paper's own inputs, read back. `ours`:
measured, but the paper prints no value and no bound, so that the criterion or the measure is ours.
"""

KINDS: tuple[Kind, ...] = get_args(Kind)
"""The kinds in the order in which they are shown."""


class Value(PaperPart):
    """A value that a paper prints or shows in a figure.

    The value is a claim if it has a criterion (`holds`). Otherwise it is only shown next to our value. With
    `read_off`, the value was read off a figure. `chosen` lists parameters, seeds, etc. that were chosen when
    results were known. With `no_task`, our value is computed without running a task. `constant` says why all
    repeats give the same value. `least` is the least possible value, such as 0 for a count.
    """

    what: Text
    value: Shown = None  # None: the paper shows the value without a number
    unit: str = ""
    where: str | None = None  # if the place differs from that of the experiment
    read_off: bool = False
    holds: Criterion | None = None
    kind: Kind | None = None
    chosen: Text | None = None
    no_task: bool = False
    constant: Text | None = None
    least: Number | None = None

    @model_validator(mode="after")
    def _of_a_kind(self) -> Value:
        if self.holds and self.kind is None:
            raise ValueError(f"a value with a criterion (holds) needs a kind: {', '.join(KINDS)}")
        if self.kind == "outcome" and self.no_task:
            raise ValueError("an outcome needs tasks that ran, not no_task: true")
        return self

    @model_validator(mode="after")
    def _checkable(self) -> Value:
        if self.holds and self.holds.within is not None and not isinstance(self.value, int | float):
            raise ValueError("within needs a number as value")
        if self.holds and self.holds.equal and (self.value is None or isinstance(self.value, str)):
            raise ValueError("equal needs a number, or a list of them, as value")
        return self

    @property
    def number(self) -> float:
        """Return the value as a number. Raises ValueError if it is not a single number."""
        if not isinstance(self.value, int | float):
            raise ValueError(f"{self.what}: {self.value!r} is not a number")
        return self.value

    @property
    def numbers(self) -> list[float]:
        """Return the value as a list of numbers. Raises ValueError if it is not a list."""
        if not isinstance(self.value, list):
            raise ValueError(f"{self.what}: {self.value!r} is not a list of numbers")
        return list(self.value)

    def bounds(self) -> tuple[float, float]:
        """Return least and largest value with which the claim holds. Raises ValueError without a range."""
        asked = self.holds
        if asked is None or asked.equal:
            raise ValueError(f"{self.what}: has no range")
        return asked.bounds(None if asked.within is None else self.number)


class About(PaperPart):
    """The description of one experiment of a paper. `setup` says how our setup differs from the paper's."""

    title: str
    where: str
    setup: str
    values: Annotated[dict[str, Value], Field(min_length=1)]


class Paper(PaperPart):
    """The whole content of a `paper.yaml`."""

    title: str
    authors: str
    published: str
    experiments: dict[str, About]


def parse(text: str, file: str) -> Paper:
    """Parse a paper.yaml. Raises ValueError with file, key and reason of each error."""
    try:
        return Paper.model_validate(yaml.safe_load(text))
    except ValidationError as error:
        faults = (f"{file}: {'.'.join(map(str, each['loc']))}: {each['msg']}" for each in error.errors())
        raise ValueError("\n".join(faults)) from None


@cache
def load(paper: str) -> Paper:
    """Read a paper's `paper.yaml`. Raises ValueError."""
    text = resources.files("schedbed.deploy.papers").joinpath(paper, "paper.yaml").read_text(encoding="utf-8")
    return parse(text, f"{paper}/paper.yaml")
