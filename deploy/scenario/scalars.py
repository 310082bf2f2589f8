"""What values in a scenario file may be, units parsed; `Part` is a mapping of the file."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from schedbed.tasks.units import parse_duration, parse_rate, parse_size

Duration = Annotated[float, BeforeValidator(parse_duration)]
Size = Annotated[int, BeforeValidator(parse_size)]
Rate = Annotated[float, BeforeValidator(parse_rate)]
Positive = Annotated[int, Field(strict=True, ge=1, le=1_000_000)]
Count = Annotated[int, Field(strict=True, ge=0, le=1_000_000)]
Text = Annotated[str, Field(min_length=1, max_length=200)]


def _real_number(value: object) -> object:
    if isinstance(value, bool | str):
        raise ValueError(f"{value!r} is not a number")
    return value


Number = BeforeValidator(_real_number)
Factor = Annotated[float, Number, Field(gt=0, le=1)]
Share = Annotated[float, Number, Field(ge=0, lt=1)]


class Part(BaseModel):
    """A mapping of the scenario file."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


def as_list(value: object) -> object:
    """One text is a list of one."""
    return [value] if isinstance(value, str) else value
