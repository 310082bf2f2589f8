"""Checked access to the fields of a JSON object in a trace. Wrong values raise errors with one-line
messages.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from schedbed.tasks.errors import BadInput

_MOST = 1e15


@dataclass(frozen=True, slots=True)
class Fields:
    """A JSON object of a trace. `where` is its position for messages: the file, its number and its path.

    A field with the value null is treated as missing.
    """

    raw: Mapping[str, Any]
    where: str

    def __contains__(self, key: str) -> bool:
        return self.raw.get(key) is not None

    def fail(self, what: str) -> BadInput:
        """Return an error about this object. Its message is the object's position and `what`."""
        return BadInput(f"{self.where}: {what}")

    def number(self, key: str, default: float | None = None, least: float = 0.0) -> float:
        """Return the field `key` as a number, converted from text if necessary.

        Raises BadInput if the field is missing and has no default, is not a number, or is below `least`.
        """
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
        """Return the field `key` as an integer from 0 to `most`, or `default` if it is missing.

        Raises BadInput for any other value.
        """
        number = self.number(key, default)
        if number != int(number) or number > most:
            raise self.fail(f"{key}: {_shown(self.raw.get(key))} is not a whole number of 0 to {most}")
        return int(number)

    def text(self, key: str, default: str) -> str:
        """Return the field `key` as text of at most 200 characters, or `default` if it is missing.

        Raises BadInput if the field is neither text nor a number.
        """
        value = self.raw.get(key)
        if value is None:
            return default
        if isinstance(value, bool) or not isinstance(value, str | int | float):
            raise self.fail(f"{key}: {_shown(value)} is not a text")
        return str(value).strip()[:200] or default

    def objects(self, key: str) -> list[Fields]:
        """Return the field `key`, which is a list of objects, or [] if it is missing.

        Raises BadInput for any other value.
        """
        value = self.raw.get(key)
        if value is None:
            return []
        if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
            raise self.fail(f"{key} is not a list of objects")
        return [Fields(item, f"{self.where}: {key}[{index}]") for index, item in enumerate(value)]


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
