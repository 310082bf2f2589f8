"""The scenario setting `sizes`: whether policies read true, estimated or no task costs.

These are `JobSpec.map_costs` and `reduce_costs`. Lengths of inputs are always true, as the NameNode tells
them to all. `profiles`, a policy parameter, selects earlier runs' profiles.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from math import exp
from operator import attrgetter
from typing import Any, NoReturn

from schedbed.tasks.chance import chance
from schedbed.tasks.errors import BadInput
from schedbed.tasks.specs import Cost, JobSpec, TaskKind

ERROR, ERROR_MAX = 0.5, 5.0
FORMS = "true, hidden, estimated, {estimated: {error: 0.5}}"


@dataclass(frozen=True, slots=True)
class Sizes:
    """The task costs that policies read: true, estimated or hidden (`kind`).

    An estimate is the cost times exp(`error` x a standard normal number), one for all maps of a job and one
    for its reduces, by seed and job id.
    """

    kind: str = "true"
    error: float = 0.0

    def shown(self, job: JobSpec, seed: int) -> JobSpec:
        """Return the job as policies may read it. Errors are drawn from the run's seed."""
        if self.kind == "hidden":
            return _without_costs(job)
        if self.kind == "estimated":
            maps, reduces = (self._factor(seed, job.job, kind) for kind in TaskKind)
            return replace(
                job,
                map_costs=tuple(_times(cost, maps) for cost in job.map_costs),
                reduce_costs=tuple(_times(cost, reduces) for cost in job.reduce_costs),
            )
        return job

    def _factor(self, seed: int, job: str, kind: TaskKind) -> float:
        return exp(self.error * chance(seed, "sizes", job, kind.value).gauss(0.0, 1.0))


TRUE_SIZES = Sizes()


def make_sizes(given: Any) -> Sizes:
    """Return the `Sizes` for a value of the scenario setting `sizes`. Raises BadInput if the value is not allowed."""
    if given is True or given == "true":
        return TRUE_SIZES
    if given == "hidden":
        return Sizes("hidden")
    if given == "estimated":
        return Sizes("estimated", ERROR)
    if isinstance(given, Mapping) and list(given) == ["estimated"]:
        asked = {} if given["estimated"] is None else given["estimated"]
        if isinstance(asked, Mapping) and set(asked) <= {"error"}:
            return Sizes("estimated", _error(asked.get("error", ERROR)))
    raise BadInput(f"sizes: {given!r} is not one of {FORMS}")


def _error(given: Any) -> float:
    if isinstance(given, bool) or not isinstance(given, int | float) or not 0 <= given <= ERROR_MAX:
        raise BadInput(f"sizes: the error {given!r} is not a number from 0 to {ERROR_MAX:g}")
    return float(given)


def _times(cost: Cost, factor: float) -> Cost:
    return Cost(
        cpu_s=cost.cpu_s * factor,
        read_bytes=round(cost.read_bytes * factor),
        write_bytes=round(cost.write_bytes * factor),
        duration_s=None if cost.duration_s is None else cost.duration_s * factor,
    )


def _hidden(name: str) -> property:
    def refuse(_: JobSpec) -> NoReturn:
        raise TypeError(f"job.spec.{name} is hidden by the scenario (sizes: hidden): ask view.sizes before")

    return property(refuse)


class SpecWithoutCosts(JobSpec):
    """A job specification with hidden costs: reading `map_costs` or `reduce_costs` raises TypeError."""

    __slots__ = ()
    map_costs = _hidden("map_costs")  # type: ignore[assignment]
    reduce_costs = _hidden("reduce_costs")  # type: ignore[assignment]

    def __eq__(self, other: object) -> bool:
        return self is other

    def __hash__(self) -> int:
        return id(self)

    def __repr__(self) -> str:
        return f"<spec of {self.job}, costs hidden>"


_KEPT = [field.name for field in fields(JobSpec) if not field.name.endswith("_costs")]
_kept = attrgetter(*_KEPT)


def _without_costs(job: JobSpec) -> JobSpec:
    spec = object.__new__(SpecWithoutCosts)
    for name, value in zip(_KEPT, _kept(job), strict=True):
        object.__setattr__(spec, name, value)
    return spec
