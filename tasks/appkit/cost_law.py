"""Costs of an application in the simulator: formulas fitted to measurements, declared in the application's
module.

CPU is in core-seconds of the host. The work of a map is the size of its split in bytes. For an application
without input it is the value of the `work` parameter (for pi, the number of samples).
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Law:
    """A power law for an amount: `factor` times the work to the power of `exponent`.

    The exponent is 1 for an application such as sorting, and below 1 where equal keys are combined.
    """

    factor: float
    exponent: float = 1.0

    def of(self, work: float) -> float:
        """Return the amount for the given work. With exponent 0 the amount is `factor` for any work,
        including 0."""
        return self.factor * work**self.exponent if work > 0 or not self.exponent else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class AppCosts:
    """The costs of one application. A map reads and computes concurrently, then sorts the collected
    output."""

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


@dataclass(frozen=True, slots=True)
class Work:
    """The name of the parameter that sets the work of a map without input.

    `shared`: the value is the work of all maps together, divided equally.
    """

    parameter: str
    shared: bool = False
