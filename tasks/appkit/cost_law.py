"""Costs of an application for the simulator: laws fitted to measurements, declared beside its code.

CPU is in core-seconds of the host. A map's work is the bytes of its split, or, for an application without input, the
value of its `work` parameter (pi: samples).
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Law:
    """An amount: `factor` times the work to the power of `exponent`. The exponent is 1 for sorting, less where equal
    keys are combined."""

    factor: float
    exponent: float = 1.0

    def of(self, work: float) -> float:
        """Return the amount for that much work. With exponent 0 the amount is the same for any work, also none."""
        return self.factor * work**self.exponent if work > 0 or not self.exponent else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class AppCosts:
    """The costs of one application. Reading and computing are concurrent; then a map sorts what it has collected."""

    map_start_s: float  # whatever the work
    map_cpu_s: float  # for each unit of work
    map_sort_s: float  # for each byte of its output
    map_output: Law  # bytes
    map_records: float  # read, for each unit of work
    reduce_start_s: float
    reduce_sort_s: float  # for each byte fetched
    reduce_cpu_s: float  # for each byte fetched
    output: Law  # bytes of all parts, by the work of all maps
    note: str = ""


@dataclass(frozen=True, slots=True)
class Work:
    """The parameter for the amount of work of a map without input. `shared`: the amount is for all maps together, in
    equal shares."""

    parameter: str
    shared: bool = False
