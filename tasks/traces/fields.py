"""The fields of a JSON object of a trace, by name. An unexpected value becomes one clear line."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from schedbed.tasks.errors import BadInput

_MOST = 1e15


@dataclass(frozen=True, slots=True)
class Fields:
    """An object with its place: file, number and path. A null field counts as missing."""

    raw: Mapping[str, Any]
    where: str

    def __contains__(self, key: str) -> bool:
        return self.raw.get(key) is not None

    def fail(self, what: str) -> BadInput:
        """Return an error about this object."""
        return BadInput(f"{self.where}: {what}")

    def number(self, key: str, default: float | None = None, least: float = 0.0) -> float:
        """Return a number, also from text. Raises BadInput if it is missing without default, or below `least`."""
        value = self.raw.get(key)
        if value is None and default is not None:
            return default
        try:
            number = float(value) if isinstance(value, int | float | str) else math.nan
        except (ValueError, OverflowError):
            number = math.nan
        if isinstance(value, bool) or not least <= number <= _MOST:
            raise self.fail(f"{key}: {_shown(value)} is not a number of {least:g} or more")
        return number

    def whole(self, key: str, default: int, most: int) -> int:
        """Return a whole number from 0 to `most`. Raises BadInput for another value."""
        number = self.number(key, default)
        if number != int(number) or number > most:
            raise self.fail(f"{key}: {_shown(self.raw.get(key))} is not a whole number of 0 to {most}")
        return int(number)

    def text(self, key: str, default: str) -> str:
        """Return a text, or a number as text, at most 200 characters. Raises BadInput for another value."""
        value = self.raw.get(key)
        if value is None:
            return default
        if isinstance(value, bool) or not isinstance(value, str | int | float):
            raise self.fail(f"{key}: {_shown(value)} is not a text")
        return str(value).strip()[:200] or default

    def objects(self, key: str) -> list[Fields]:
        """Return the objects of a list; none if it is missing."""
        value = self.raw.get(key)
        if value is None:
            return []
        if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
            raise self.fail(f"{key} is not a list of objects")
        return [Fields(item, f"{self.where}: {key}[{index}]") for index, item in enumerate(value)]


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
