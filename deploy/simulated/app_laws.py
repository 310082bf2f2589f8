"""What the applications cost, so that the simulator can run them: laws fitted to measurements, shipped as a table.

CPU is in core-seconds of the host. A map's work is the bytes of its split, or, for an application without input,
the parameter that says how much it does (pi: samples, randomtextwriter: bytes).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

from schedbed.tasks.apps import APPS

TABLE = "app_laws.yaml"
WORK = {"pi": "samples", "randomtextwriter": "bytes", "teragen": "bytes", "bbp": "digits"}
"""The parameter that says how much a map without input does."""
SHARED = ("bbp",)
"""Of these the parameter says how much all maps do together, in equal shares."""


@dataclass(frozen=True, slots=True)
class Law:
    """`factor` times the work to the power of `exponent`: 1 for sorting, below 1 where equal keys are combined."""

    factor: float
    exponent: float = 1.0

    def of(self, work: float) -> float:
        """The amount for that much work; an exponent of 0 is the same amount for any, none included."""
        return self.factor * work**self.exponent if work > 0 or not self.exponent else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class AppCosts:
    """One application. Reading and computing go on together, then a map sorts what it has collected."""

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

    def to_plain(self) -> dict[str, Any]:
        """As an entry of the table."""
        names = [name for name in AppCosts.__slots__ if name not in ("map_output", "output")]
        laws = {name: [getattr(self, name).factor, getattr(self, name).exponent] for name in _LAWS}
        return {name: getattr(self, name) for name in names} | laws


_LAWS = ("map_output", "output")


def of_plain(entry: Mapping[str, Any]) -> AppCosts:
    """The inverse of `AppCosts.to_plain`."""
    return AppCosts(**{**entry, **{name: Law(*entry[name]) for name in _LAWS}})


@cache
def shipped() -> Mapping[str, AppCosts]:
    """The table that comes with the software, by application."""
    import yaml

    text = resources.files("schedbed.deploy.simulated").joinpath(TABLE).read_text(encoding="utf-8")
    return {name: of_plain(entry) for name, entry in yaml.safe_load(text).items()}


def work_of(app: str, params: Mapping[str, Any], input_bytes: int, maps: int) -> int:
    """How much one of so many maps does that has a split of so many bytes."""
    if app not in WORK:
        return input_bytes
    return int(APPS[app].params(params)[WORK[app]]) // (maps if app in SHARED else 1)
