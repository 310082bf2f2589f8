"""The content of a `paper.yaml`: the values that a paper prints, with their places and criteria."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import resources
from typing import Annotated, Any, Literal, get_args

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

# The criterion that our value must satisfy so that a paper's claim holds, as given in a `paper.yaml`.
#
# Here, our value is the one measured with schedbed.

SLACK = 0.25
"""The share by which our value may be off a printed number."""

NUMBER = re.compile(r"\d+(?:\.\d+)?")

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

Kind = Literal["outcome", "fitted", "consistency", "input", "implied", "ours"]
"""The kind of a claim.

- `outcome`: a measured or simulated result that could have come out otherwise.
- `fitted`: our set-up was chosen with this value in view (`Paper.fitted`).
- `consistency`: a formula, a model or a constructed input gives what the paper prints.
- `input`: the paper's own inputs, read back.
- `implied`: other claims imply it, or it is one of them again.
- `ours`: measured, but the paper prints no value and no bound, so that the criterion or the measure is ours.
"""

KINDS: tuple[Kind, ...] = get_args(Kind)
"""The kinds in the order in which they are shown."""


class Value(PaperPart):
    """A value that a paper prints or shows in a figure.

    The value is a claim if it has a criterion (`holds`). Otherwise it is only shown next to our value. With
    `read_off`, the value was read off a figure. `chosen` lists parameters, seeds, etc. that were chosen when
    results were known. With `no_task`, our value is computed without running a task.
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
        if self.holds and not self.holds.equal and not printed_bounds(self.value, self.bounds()):
            raise ValueError(f"the paper prints {self.value}, which the criterion does not ask for")
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


def printed_bounds(value: Shown, bounds: tuple[float, float]) -> bool:
    """Return whether a criterion asks for what the paper prints: a number within 25%, or a printed bound.

    `bounds` are the least and the largest value with which the claim holds. Words print no bound.
    """
    texts = NUMBER.findall(value) if isinstance(value, str) else [value]
    numbers = [float(each) for each in texts if isinstance(each, int | float | str)]
    if not numbers:
        return True
    low, high = bounds
    inside = all(math.isinf(edge) or any(_near(edge, each) for each in numbers) for edge in bounds)
    one_sided = math.isinf(low) != math.isinf(high) and any(abs(edge) in numbers for edge in bounds)
    return inside and (one_sided or not math.isinf(high - low))


def _near(edge: float, printed: float) -> bool:
    """Return whether a bound is within 25% of a printed number, on either side of 0."""
    return abs(abs(edge) - abs(printed)) <= SLACK * abs(printed) + 1e-9


class PrintedSize(PaperPart):
    """The numbers of nodes, of jobs and of tasks that a paper prints of its set-up, None if not printed."""

    nodes: int | None = None
    jobs: int | None = None
    tasks: int | None = None


class About(PaperPart):
    """The description of one experiment of a paper.

    `setup` says how our set-up differs from the paper's, and `printed` what the paper prints of its size.
    """

    title: str
    where: str
    setup: str
    printed: PrintedSize = PrintedSize()
    values: Annotated[dict[str, Value], Field(min_length=1)]


class FittedChoice(PaperPart):
    """A choice of our set-up that was made with values of the paper in view.

    `constants` are names MODULE.NAME and their values in this paper's folder, and `gives` names the values
    (EXPERIMENT/KEY) that the choice was made for, or that follow from it.
    """

    choice: Text
    constants: dict[str, Any] = {}
    gives: Annotated[list[str], Field(min_length=1)]


class Paper(PaperPart):
    """The whole content of a `paper.yaml`. Exactly the values that `fitted` names are of the kind `fitted`.

    `differs` has each thing of our set-ups that is not as printed, or is not printed, with the experiments that
    it concerns. Those that nothing concerns are listed in `as_printed`, so that no experiment is forgotten.
    """

    title: str
    authors: str
    published: str
    fitted: list[FittedChoice] = []
    differs: dict[Text, list[str] | Literal["all"]]
    as_printed: list[str] = []
    experiments: dict[str, About]

    @model_validator(mode="after")
    def _what_was_fitted(self) -> Paper:
        named = {name for fit in self.fitted for name in fit.gives}
        values = {f"{e}/{key}": v for e, about in self.experiments.items() for key, v in about.values.items()}
        marked = {name for name, value in values.items() if value.kind == "fitted"}
        if named != marked:
            raise ValueError(f"fitted: and kind: fitted differ in {', '.join(sorted(named ^ marked))}")
        return self

    @model_validator(mode="after")
    def _what_differs(self) -> Paper:
        """Refuse a name that is no experiment, and an experiment that is in both lists or in neither."""
        named = {name for names in self.differs.values() if names != "all" for name in names}
        unlike = {name for name in self.experiments if self.unlike(name)}
        wrong = sorted(
            (named - set(self.experiments)) | (set(self.as_printed) ^ (set(self.experiments) - unlike))
        )
        if wrong:
            raise ValueError(f"expected each experiment in differs or as_printed, not so {', '.join(wrong)}")
        return self

    def unlike(self, experiment: str) -> list[str]:
        """Return what of an experiment's set-up is not as printed, or is not printed."""
        return [text for text, names in self.differs.items() if names == "all" or experiment in names]

    def meets(self, experiment: str, ran: Mapping[str, Sequence[int]]) -> bool:
        """Return whether what ran is what the paper prints. `ran` has the least and the largest numbers."""
        asked = self.experiments[experiment].printed.model_dump(exclude_none=True)
        return not self.unlike(experiment) and all(set(ran[name]) == {size} for name, size in asked.items())


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
