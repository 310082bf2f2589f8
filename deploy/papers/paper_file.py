"""What a paper says, read from its `paper.yaml`: each value with where it stands, and what would confirm it."""

from __future__ import annotations

from functools import cache
from importlib import resources
from typing import Annotated

import yaml
from pydantic import BaseModel, ConfigDict, Field, model_validator

Number = int | float
Shown = Number | list[Number] | str | None


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class Criterion(_Part):
    """What our value must be for the claim to hold; exactly one of these, or `at_least` with `at_most`.

    `within` is a share of the paper's value; `equal` asks for the paper's value itself, of figures without chance.
    """

    at_least: Number | None = None
    at_most: Number | None = None
    within: Annotated[Number, Field(gt=0)] | None = None
    equal: bool = False

    @model_validator(mode="after")
    def _one(self) -> Criterion:
        ranged = self.at_least is not None or self.at_most is not None
        if ranged + (self.within is not None) + self.equal != 1:
            raise ValueError("expected at_least and/or at_most, within, or equal: true")
        return self


class Value(_Part):
    """One value of a paper. `read_off` marks one that was read off a figure; without `holds` it is only compared."""

    what: Annotated[str, Field(min_length=1)]
    value: Shown = None  # None: the paper shows it without a number
    unit: str = ""
    where: str | None = None  # when it is not where the experiment is
    read_off: bool = False
    holds: Criterion | None = None

    @model_validator(mode="after")
    def _checkable(self) -> Value:
        if self.holds and self.holds.within is not None and not isinstance(self.value, int | float):
            raise ValueError("within needs a number as value")
        if self.holds and self.holds.equal and (self.value is None or isinstance(self.value, str)):
            raise ValueError("equal needs a number, or a list of them, as value")
        return self

    @property
    def number(self) -> float:
        """The value; ValueError when it is no number."""
        if not isinstance(self.value, int | float):
            raise ValueError(f"{self.what}: {self.value!r} is not a number")
        return self.value

    @property
    def numbers(self) -> list[float]:
        """The values; ValueError when they are no list."""
        if not isinstance(self.value, list):
            raise ValueError(f"{self.what}: {self.value!r} is not a list of numbers")
        return list(self.value)

    def bounds(self) -> tuple[float, float]:
        """The range that our value must be in; ValueError for `equal`, and when there is no criterion."""
        asked = self.holds
        if asked is None or asked.equal:
            raise ValueError(f"{self.what}: has no range")
        if asked.within is not None:
            slack = abs(self.number) * asked.within
            return (self.number - slack, self.number + slack)
        low = float("-inf") if asked.at_least is None else asked.at_least
        return (low, float("inf") if asked.at_most is None else asked.at_most)


class About(_Part):
    """One experiment as the paper has it. `setup` says what the paper ran it on and how ours differs."""

    title: str
    where: str
    setup: str
    values: Annotated[dict[str, Value], Field(min_length=1)]


class Paper(_Part):
    """A `paper.yaml`."""

    title: str
    authors: str
    published: str
    experiments: dict[str, About]


@cache
def load(paper: str) -> Paper:
    """The values of a paper. ValueError when its file is not as this module says."""
    text = resources.files("schedbed.deploy.papers").joinpath(paper, "paper.yaml").read_text(encoding="utf-8")
    return Paper.model_validate(yaml.safe_load(text))
