"""A resolved scenario in the form that is recorded in run.json, whose many jobs are converted when asked for."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Generic, TypeVar, overload

from schedbed.deploy.scenario.resolved import ResolvedScenario, input_json, job_json

T = TypeVar("T")


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
    values["jobs"] = JsonValues(scenario.jobs, job_json)
    values["inputs"] = JsonValues(scenario.inputs, input_json)
    return values, json.dumps(values, default=_plain)


def _plain(value: object) -> object:
    return list(value) if isinstance(value, JsonValues) else str(value)
