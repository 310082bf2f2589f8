"""Descriptions (`App`) of applications that users have written, made from a class or from streaming parameters."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from schedbed.tasks.appkit.app import App, AppsOfUsers, Parameter
from schedbed.tasks.appkit.cost_law import AppCosts, Law
from schedbed.tasks.own.class_source import PROGRAM, ClassSource, class_of
from schedbed.tasks.own.program import FILES
from schedbed.tasks.own.stages import LIMIT, run_map, run_reduce
from schedbed.tasks.own.watch import TIMEOUT, TIMEOUT_S

# The names of the costs that users can declare for their applications. The simulator uses these costs.

MB = 1e6
COSTS = "costs"
"""The job parameter with the declared costs of its application."""
NAMES: Mapping[str, str] = {
    "map_start_s": "CPU seconds of a host's core that each map needs, whatever it reads",
    "map_s_per_mb": "CPU seconds of a host's core that a map needs for each MB (1,000,000 bytes) that it reads",
    "map_output": "bytes that a map gives to the reduces, after combining, for each byte that it reads",
    "reduce_start_s": "CPU seconds of a host's core that each reduce needs, whatever it fetches",
    "reduce_s_per_mb": "CPU seconds of a host's core that a reduce needs for each MB that it fetches",
    "output": "bytes of output for each byte that the maps give to the reduces; without reduces, that they read",
}


def checked_costs(given: Mapping[str, Any]) -> dict[str, float]:
    """Return the declared costs as floats. Raises ValueError for an unknown name or a bad number."""
    for name, value in given.items():
        if name not in NAMES:
            raise ValueError(f"costs: {name!r} is unknown, expected one of {', '.join(NAMES)}")
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1e9:
            raise ValueError(f"costs: {name}: {value!r} is not a number of 0 or more")
    return {name: float(value) for name, value in given.items()}


def declared_law(costs: Mapping[str, float], *, reduces: bool) -> AppCosts:
    """Return the cost model: undeclared costs are 0, undeclared outputs as large as the input."""
    ratio = costs.get("map_output", 1.0)
    output = costs.get("output", 1.0) * (ratio if reduces else 1.0)
    return AppCosts(
        map_start_s=costs.get("map_start_s", 0.0),
        map_cpu_s=costs.get("map_s_per_mb", 0.0) / MB,
        map_sort_s=0.0,
        map_output=Law(ratio if reduces else output),
        map_records=0.0,
        reduce_start_s=costs.get("reduce_start_s", 0.0),
        reduce_sort_s=0.0,
        reduce_cpu_s=costs.get("reduce_s_per_mb", 0.0) / MB,
        output=Law(output),
        note="declared",
    )


OWN_PARAMETERS = (
    Parameter(
        TIMEOUT,
        TIMEOUT_S,
        "s",
        "longest time for which the code of an attempt may do nothing before the attempt fails",
    ),
    Parameter(
        LIMIT,
        2**30,
        "bytes",
        "largest amount of data that the code of an attempt may write before the attempt fails",
    ),
    Parameter(FILES, [], "", "files of the application", derived=True),
    Parameter(COSTS, None, "", "what it costs in the simulator", derived=True),
)
"""The parameters that all users' applications have in addition to their own."""


def app_of_class(name: str, source: ClassSource) -> App:
    """Return the application of a user's class, `name` in the scenario."""
    own = [Parameter(each, value, "", "") for each, value in source.parameters.items()]
    own += [Parameter(each, None, "", "", required=True) for each in source.required]
    own += [Parameter(each, None, "", "") for each in source.computed]
    return App(
        name=name,
        summary=source.summary or f"class {source.name} of {source.file}",
        input=source.input or "text",
        reduces="needed" if source.has("reduce") else "never",
        run_map=run_map,
        run_reduce=run_reduce,
        parameters=(*own, *OWN_PARAMETERS, Parameter(PROGRAM, None, "", "the class", derived=True)),
    )


def completed(app: App, params: Mapping[str, Any]) -> App:
    """Return the application as a job's parameters complete it: streaming's reduces, a user's costs."""
    if app.name == "streaming":
        app = replace(app, reduces="needed" if params.get("reducer") else "never")
    costs = params.get(COSTS)
    if costs is None:
        return app
    return replace(app, costs=declared_law(costs, reduces=app.reduces == "needed"))


def _app_of(name: str, params: Mapping[str, Any], shipped: Mapping[str, App]) -> App:
    source = class_of(params)
    return completed(shipped[name] if source is None else app_of_class(name, source), params)


APPS_OF_USERS = AppsOfUsers(_app_of)
