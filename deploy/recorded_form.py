"""A resolved scenario in the form that is recorded in run.json, made fast for scenarios with many jobs."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from json.encoder import encode_basestring_ascii as quoted
from math import isfinite
from typing import Any, Generic, TypeVar, overload

from schedbed.deploy.scenario.resolved import (
    ResolvedScenario,
    input_json,
    job_json,
)
from schedbed.tasks.workloads.planned import InputFile, PlannedJob

T = TypeVar("T")
LAST = (
    "map_demand",
    "reduce_demand",
    "params",
    "map_costs",
    "reduce_costs",
    "unplaced",
    "running_map_limit",
    "uber",
)
"""The last values of a job, which many jobs share."""


class JsonValues(Sequence[dict[str, Any]], Generic[T]):
    """The JSON values of `items`. Each is made by the function `make` when it is asked for."""

    def __init__(self, items: Sequence[T], make: Callable[[T], dict[str, Any]]) -> None:
        self._items, self._make = items, make

    def __len__(self) -> int:
        return len(self._items)

    @overload
    def __getitem__(self, index: int) -> dict[str, Any]: ...
    @overload
    def __getitem__(self, index: slice) -> list[dict[str, Any]]: ...
    def __getitem__(self, index: int | slice) -> dict[str, Any] | list[dict[str, Any]]:
        if isinstance(index, slice):
            return [self._make(item) for item in self._items[index]]
        return self._make(self._items[index])


def recorded_form(scenario: ResolvedScenario) -> tuple[dict[str, Any], str]:
    """Return `scenario.to_json()`, with jobs and inputs made when asked for, and its `json.dumps`."""
    values = replace(scenario, jobs=(), inputs=()).to_json()
    texts = {key: json.dumps(value, default=str) for key, value in values.items()}
    texts["jobs"] = f"[{', '.join(_job_texts(scenario.jobs))}]"
    texts["inputs"] = f"[{', '.join(map(_input_text, scenario.inputs))}]"
    values["jobs"] = JsonValues(scenario.jobs, job_json)
    values["inputs"] = JsonValues(scenario.inputs, input_json)
    return values, "{" + ", ".join(f'"{key}": {texts[key]}' for key in values) + "}"


def _job_texts(jobs: Sequence[PlannedJob]) -> list[str]:
    """Return the text of each job as by `json.dumps`. Shared costs and demands share their text."""
    known: dict[tuple[int, ...], str] = {}
    name = cache(quoted)
    made: list[str] = []
    for job in jobs:
        shared = (
            job.map_demand,
            job.reduce_demand,
            job.params or None,
            job.map_costs,
            job.reduce_costs,
            job.unplaced,
        )
        key = (*map(id, shared), job.running_map_limit, job.uber)
        rest = known.get(key)
        if rest is None:
            rest = known[key] = _rest_of(job)
        made.append(
            f'{{"job": {quoted(job.job)}, "name": {quoted(job.name)}, "app": {name(job.app)}, '
            f'"user": {name(job.user)}, "queue": {name(job.queue)}, "priority": {name(job.priority)}, '
            f'"submit_s": {_number(job.submit_s)}, "deadline_s": {_number(job.deadline_s)}, '
            f'"requested_s": {_number(job.requested_s)}, '
            f'"after": {_text(job.after)}, "think_s": {_number(job.think_s)}, '
            f'"input": {_text(job.input)}, "maps": {job.maps}, "reduces": {job.reduces}, {rest}'
        )
    return made


def _rest_of(job: PlannedJob) -> str:
    """Return a job's text from `map_demand` on."""
    values = job_json(job)
    last = {key: value for key, value in values.items() if key in LAST}
    return json.dumps(last, default=str)[1:]


def _input_text(file: InputFile) -> str:
    """Return the text of an input file as by `json.dumps(input_json(file))`."""
    if file.source != "filler" or file.preferred is not None or len(file.blocks) > 1:
        return json.dumps(input_json(file))
    blocks = "".join(map(str, file.blocks))
    return (
        f'{{"path": {quoted(file.path)}, "source": "filler", "blocks": [{blocks}], '
        f'"real_path": {_text(file.real_path)}, "generate": {_text(file.generate)}, "seed": {file.seed}, '
        f'"preferred": null}}'
    )


def _text(value: str | None) -> str:
    return "null" if value is None else quoted(value)


def _number(value: float | None) -> str:
    if type(value) is float and isfinite(value):
        return repr(value)
    return json.dumps(value)
