"""Conversion of durations, sizes and rates between texts written by users and numbers in seconds and bytes."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping

DURATION_UNITS: Mapping[str, float] = {"ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
SIZE_UNITS: Mapping[str, int] = {
    "B": 1,
    "kB": 10**3,
    "MB": 10**6,
    "GB": 10**9,
    "TB": 10**12,
    "KiB": 2**10,
    "MiB": 2**20,
    "GiB": 2**30,
    "TiB": 2**40,
}
RATE_UNITS: Mapping[str, float] = {
    **{f"{unit}/s": float(size) for unit, size in SIZE_UNITS.items()},
    "bit/s": 1 / 8,
    "kbit/s": 1e3 / 8,
    "Mbit/s": 1e6 / 8,
    "Gbit/s": 1e9 / 8,
}

BOUNDS: Mapping[str, tuple[float, float]] = {"s": (1e-9, 1e9), "B": (0.5, 2.0**60), "B/s": (1e-3, 1e15)}
"""Smallest value above 0 and largest value by unit. Sums and products of values in range are finite."""

_QUANTITY = re.compile(r"([0-9]+(?:\.[0-9]*)?(?:[eE][+-]?[0-9]{1,3})?|\.[0-9]+) ?([A-Za-z/]*)")


def parse_duration(value: object) -> float:
    """Return the seconds of `500ms`, `5s`, `10m`, `2h` or a plain number. Raises ValueError."""
    return _parse(value, DURATION_UNITS, "s", "a duration (such as 500ms, 5s, 10m, 2h)")


def parse_size(value: object) -> int:
    """Return the bytes of `64MiB`, `1.5GB` or a plain number. Raises ValueError."""
    return round(_parse(value, SIZE_UNITS, "B", "a size (such as 64MiB, 1GB, 512kB)"))


def parse_rate(value: object) -> float:
    """Return the bytes per second of `40MB/s`, `100Mbit/s` or a plain number. Raises ValueError."""
    return _parse(value, RATE_UNITS, "B/s", "a rate (such as 40MB/s, 100Mbit/s)")


def format_duration(seconds: float) -> str:
    """Return a duration such as `840ms`, `12.4s`, `3m05s` or `2h04m`, or `-` if it is not finite."""
    if not math.isfinite(seconds):
        return "-"
    if seconds < 0:
        return f"-{format_duration(-seconds)}"
    if round(seconds, 3) < 1:
        return f"{seconds * 1000:.0f}ms"
    if round(seconds, 1) < 60:
        return f"{seconds:.1f}s"
    minutes, rest_s = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes}m{rest_s:02d}s"
    return f"{minutes // 60}h{minutes % 60:02d}m"


def format_bytes(count: float) -> str:
    """Return a size as text for people in binary units, such as `0 B` or `64.0 MiB`."""
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if abs(count) < 1024 or unit == "TiB":
            return f"{count:.0f} B" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1024
    raise AssertionError("the last unit takes everything")


def format_rate(bytes_per_s: float) -> str:
    """Return a rate such as `38.1 MiB/s`."""
    return f"{format_bytes(bytes_per_s)}/s"


def _parse(value: object, units: Mapping[str, float], default: str, expected: str) -> float:
    number = _number(value, units, default)
    if number is None or not math.isfinite(number) or number < 0:
        raise ValueError(f"{_shown(value)} is not {expected}")
    least, most = BOUNDS[default]
    if number > most or 0 < number < least:
        bounds = f"from {least:g} to {most:g} {default}"
        raise ValueError(f"{_shown(value)} is out of bounds, expected {expected}, 0 or {bounds}")
    return number


def _number(value: object, units: Mapping[str, float], default: str) -> float | None:
    if isinstance(value, bool):
        return None
    if isinstance(value, int | float):
        return _finite(value)
    match = _QUANTITY.fullmatch(value.strip()) if isinstance(value, str) else None
    if match is None:
        return None
    factor = units.get(match[2] or default)
    return None if factor is None else float(match[1]) * factor


def _finite(value: int | float) -> float | None:
    try:
        return float(value)
    except OverflowError:
        return None


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
