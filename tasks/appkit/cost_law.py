"""The costs of an application in the simulator: formulas that are fitted to measurements.

CPU is in core-seconds of the host. A map's work is its split in bytes or, without input, a parameter such as
pi's samples.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Law:
    """`factor` times the work to the power of `exponent`, which is below 1 if equal keys are combined."""

    factor: float
    exponent: float = 1.0

    def of(self, work: float) -> float:
        """Return the amount for the given work. With exponent 0 the amount is `factor` for any work, including 0."""
        return self.factor * work**self.exponent if work > 0 or not self.exponent else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class AppCosts:
    """The costs of one application. A map first reads and computes at the same time, then sorts its output."""

    map_start_s: float  # For any amount of work.
    map_cpu_s: float  # For each unit of work.
    map_sort_s: float  # For each byte of the map's output.
    map_output: Law  # Bytes.
    map_records: float  # Records read for each unit of work.
    reduce_start_s: float
    reduce_sort_s: float  # For each byte fetched.
    reduce_cpu_s: float  # For each byte fetched.
    output: Law  # Bytes of all parts, from the work of all maps.
    note: str = ""

    @staticmethod
    def from_json(raw: Mapping[str, Any]) -> AppCosts:
        laws = {name: Law(**raw[name]) for name in ("map_output", "output")}
        return AppCosts(**{**raw, **laws})


@dataclass(frozen=True, slots=True)
class Work:
    """A parameter that sets a map's work without input. `shared` divides it among all maps."""

    parameter: str
    shared: bool = False
