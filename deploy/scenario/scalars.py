"""Types of the values in a scenario file, such as durations with units, and `Section`, the base of all models."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema
from pydantic.fields import FieldInfo

from schedbed.tasks.units import parse_duration, parse_rate, parse_size

STRETCH_MAX = 1000
AUTO = "auto"
"""The value of `stretch` that lets this host decide."""


def _in_units(unit: str, *examples: str) -> WithJsonSchema:
    """Return the JSON Schema of a text with a unit, or a number in `unit`, with valid examples."""
    return WithJsonSchema({"type": ["string", "number"], "unit": unit, "examples": list(examples)})


def one_or_more(item: str) -> WithJsonSchema:
    """Return the JSON Schema of a value that is one item of type `item`, or a list of such items."""
    return WithJsonSchema(
        {"anyOf": [{"type": item}, {"type": "array", "items": {"type": item}, "minItems": 1}]}
    )


Duration = Annotated[float, BeforeValidator(parse_duration), _in_units("s", "500ms", "30s", "10m", "1h")]
Size = Annotated[int, BeforeValidator(parse_size), _in_units("bytes", "64MiB", "1GB")]
Rate = Annotated[float, BeforeValidator(parse_rate), _in_units("bytes per second", "40MB/s", "100Mbit/s")]
Positive = Annotated[int, Field(strict=True, ge=1, le=1_000_000)]
Count = Annotated[int, Field(strict=True, ge=0, le=1_000_000)]
Text = Annotated[str, Field(min_length=1, max_length=200)]
DiskName = Annotated[str, Field(max_length=100, pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")]
HostName = Annotated[str, Field(max_length=253, pattern=r"^[A-Za-z0-9]([A-Za-z0-9_.:-]*[A-Za-z0-9])?$")]


def _real_number(value: object) -> object:
    if isinstance(value, bool | str):
        raise ValueError(f"{value!r} is not a number")
    return value


def _stretch(value: object) -> object:
    if value == AUTO:
        return value
    if isinstance(value, int | float) and not isinstance(value, bool) and 1 <= value <= STRETCH_MAX:
        return float(value)
    raise ValueError(f"{value!r} is not auto or a number from 1 to {STRETCH_MAX}")


Number = BeforeValidator(_real_number)
Stretch = Annotated[
    float | Literal["auto"],
    BeforeValidator(_stretch),
    WithJsonSchema({"anyOf": [{"type": "number", "minimum": 1, "maximum": STRETCH_MAX}, {"enum": [AUTO]}]}),
]
Factor = Annotated[float, Number, Field(ge=1e-4, le=1)]
Heartbeat = Annotated[Duration, Field(le=86_400)]
Latency = Annotated[Duration, Field(le=60)]
Slots = Annotated[int, Field(strict=True, ge=0, le=10_000)]
Share = Annotated[float, Number, Field(ge=0, lt=1)]


class Section(BaseModel):
    """The base class of the models of all mappings in a scenario file. Unknown keys are errors."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


def says(text: str, unit: str = "") -> FieldInfo:
    """Return a field with this description, and the unit of plain numbers, for the JSON Schema."""
    return Field(description=text, json_schema_extra={"unit": unit} if unit else None)


def as_list(value: object) -> object:
    """Return a text or mapping as a list with one item, and others unchanged."""
    return [value] if isinstance(value, str | dict) else value
