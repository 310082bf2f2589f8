"""Job profiles for ARIA (verma2011, section 2.2): seconds of a job's tasks by phase, launch to end, as measured."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from heapq import heappush, heappushpop
from typing import Any, NamedTuple


class Times(NamedTuple):
    """Average and longest duration of one phase, in seconds."""

    avg_s: float = 0.0
    max_s: float = 0.0

    def scaled(self, factor: float) -> Times:
        return Times(self.avg_s * factor, self.max_s * factor)


NONE = Times()
PHASES = ("map", "first_shuffle", "typical_shuffle", "reduce")
FIGURES = ("map_min_s", "map_input_bytes", "map_selectivity", "reduce_input_bytes", "reduce_selectivity")


@dataclass(frozen=True, slots=True, kw_only=True)
class JobProfile:
    """Average and longest durations of a job's phases over `runs` runs. Unknown values are 0.

    `first_shuffle` is the part after the last map of earlier reduces' shuffle and sort, `typical_shuffle` the
    whole of later ones. Bytes are means per task, selectivities output / input bytes.
    """

    map: Times
    first_shuffle: Times = NONE
    typical_shuffle: Times = NONE
    reduce: Times = NONE
    map_min_s: float = 0.0
    map_input_bytes: float = 0.0
    map_selectivity: float = 0.0
    reduce_input_bytes: float = 0.0
    reduce_selectivity: float = 0.0
    runs: int = 1

    def for_data(self, map_input_bytes: float, maps: int, reduces: int) -> JobProfile:
        """Return the profile with another amount of input: durations scale with a task's input (footnote 6).

        A reduce's input follows from the maps' selectivity.
        """
        of_map = _ratio(map_input_bytes, self.map_input_bytes)
        shuffled = map_input_bytes * self.map_selectivity * maps / reduces if reduces else 0.0
        of_reduce = _ratio(shuffled, self.reduce_input_bytes)
        return replace(
            self,
            map=self.map.scaled(of_map),
            map_min_s=self.map_min_s * of_map,
            first_shuffle=self.first_shuffle.scaled(of_reduce),
            typical_shuffle=self.typical_shuffle.scaled(of_reduce),
            reduce=self.reduce.scaled(of_reduce),
        )

    def at_scale(self, scale: float) -> JobProfile:
        """Return the profile with all durations and amounts of data multiplied by the scenario's factor `scale`."""
        phases: dict[str, Any] = {name: getattr(self, name).scaled(scale) for name in PHASES}
        return replace(
            self,
            **phases,
            map_min_s=self.map_min_s * scale,
            map_input_bytes=self.map_input_bytes * scale,
            reduce_input_bytes=self.reduce_input_bytes * scale,
        )

    def merged(self, other: JobProfile) -> JobProfile:
        """Return the mean of this profile and `other`, each weighted by its number of runs."""
        runs = self.runs + other.runs

        def mean(mine: float, others: float) -> float:
            return (mine * self.runs + others * other.runs) / runs

        phases: dict[str, Any] = {
            name: Times(*(mean(a, b) for a, b in zip(getattr(self, name), getattr(other, name), strict=True)))
            for name in PHASES
        }
        figures: dict[str, Any] = {name: mean(getattr(self, name), getattr(other, name)) for name in FIGURES}
        return JobProfile(**phases, **figures, runs=runs)

    def to_json(self) -> dict[str, Any]:
        """Return JSON values for `from_json`."""
        phases = {name: list(getattr(self, name)) for name in PHASES}
        return {**phases, **{name: getattr(self, name) for name in FIGURES}, "runs": self.runs}

    @staticmethod
    def from_json(raw: Mapping[str, Any]) -> JobProfile:
        """Invert `to_json`. Raises ValueError."""
        try:
            values: dict[str, Any] = {name: Times(*map(float, raw[name])) for name in PHASES}
            values |= {name: float(raw[name]) for name in FIGURES}
            return JobProfile(**values, runs=max(1, int(raw["runs"])))
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(f"not a job profile: {raw!r} ({type(error).__name__}: {error})") from None


def _ratio(now: float, then: float) -> float:
    return now / then if now > 0 and then > 0 else 1.0


class _Span:
    """An accumulator of numbers, which stores their count, sum, minimum and the `top` largest."""

    __slots__ = ("_largest", "_top", "count", "least", "total")

    def __init__(self, top: int) -> None:
        self._top = top
        self._largest: list[float] = []  # A heap.
        self.count = 0
        self.total = 0.0
        self.least = float("inf")

    def add(self, value: float) -> None:
        self.count += 1
        self.total += value
        self.least = min(self.least, value)
        (heappush if len(self._largest) < self._top else heappushpop)(self._largest, value)

    def times(self) -> Times | None:
        return Times(self.total / self.count, sum(self._largest) / len(self._largest)) if self.count else None


class Profiler:
    """Collects a job's successful tasks, in the order of their ends, for one run's profile.

    The maximum of a phase is the mean of its `top` longest tasks, which is robust against outliers (section 4).
    """

    def __init__(self, top: int = 1) -> None:
        self._map, self._first, self._typical, self._reduce = (_Span(top) for _ in PHASES)
        self._maps_end_s = 0.0
        self._map_bytes = [0, 0]  # in, out
        self._reduce_bytes = [0, 0]

    def map_ended(self, start_s: float, end_s: float, input_bytes: int, output_bytes: int) -> None:
        """Add a successful map that held its slot from `start_s` to `end_s`, in seconds since the run's start."""
        self._map.add(max(0.0, end_s - start_s))
        self._maps_end_s = max(self._maps_end_s, end_s)
        self._map_bytes[0] += input_bytes
        self._map_bytes[1] += output_bytes

    def reduce_ended(
        self, start_s: float, sorted_s: float | None, end_s: float, input_bytes: int, output_bytes: int
    ) -> None:
        """Add a successful reduce. Without `sorted_s`, its shuffle takes 0."""
        if sorted_s is None:
            sorted_s = max(start_s, self._maps_end_s)
        if start_s < self._maps_end_s:
            self._first.add(max(0.0, sorted_s - self._maps_end_s))
        else:
            self._typical.add(max(0.0, sorted_s - start_s))
        self._reduce.add(max(0.0, end_s - sorted_s))
        self._reduce_bytes[0] += input_bytes
        self._reduce_bytes[1] += output_bytes

    def profile(self) -> JobProfile | None:
        """Return the profile so far, or None before the first map's end.

        If only one kind of shuffle was measured, it serves as both. Before the first reduce, one takes as
        long as a map, without shuffle.
        """
        maps = self._map.times()
        if maps is None:
            return None
        first, typical = self._first.times(), self._typical.times()
        map_in, map_out = self._map_bytes
        reduce_in, reduce_out = self._reduce_bytes
        return JobProfile(
            map=maps,
            first_shuffle=first or typical or NONE,
            typical_shuffle=typical or first or NONE,
            reduce=self._reduce.times() or maps,
            map_min_s=self._map.least,
            map_input_bytes=map_in / self._map.count,
            map_selectivity=map_out / map_in if map_in else 0.0,
            reduce_input_bytes=reduce_in / self._reduce.count if self._reduce.count else 0.0,
            reduce_selectivity=reduce_out / reduce_in if reduce_in else 0.0,
        )
