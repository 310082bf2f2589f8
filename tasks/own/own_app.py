"""Descriptions (`App`) of applications that users have written, made from a class or from streaming
parameters.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from schedbed.tasks.appkit.app import App, Parameter
from schedbed.tasks.own.class_source import PROGRAM, ClassSource
from schedbed.tasks.own.cost_names import COSTS, declared_law
from schedbed.tasks.own.program import FILES
from schedbed.tasks.own.stages import LIMIT, run_map, run_reduce
from schedbed.tasks.own.watch import TIMEOUT, TIMEOUT_S

OWN_PARAMETERS = (
    Parameter(TIMEOUT, TIMEOUT_S, "s", "an attempt fails whose code does nothing for longer"),
    Parameter(LIMIT, 2**30, "bytes", "an attempt fails whose code writes more"),
    Parameter(FILES, [], "", "files of the application", derived=True),
    Parameter(COSTS, None, "", "what it costs in the simulator", derived=True),
)
"""The parameters that all users' applications have in addition to their own."""


def app_of_class(name: str, source: ClassSource) -> App:
    """Return the description of the application that a user's class declares.

    `name` is the application's name in the scenario.
    """
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
    """Return the application with the properties that depend on the parameters of a job.

    For a streaming job, the parameters determine whether the application has reduces. Costs that the user has
    declared in the parameters replace those of the application.
    """
    if app.name == "streaming":
        app = replace(app, reduces="needed" if params.get("reducer") else "never")
    costs = params.get(COSTS)
    if costs is None:
        return app
    return replace(app, costs=declared_law(costs, reduces=app.reduces == "needed"))
