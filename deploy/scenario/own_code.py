"""The door to a user's own code: what the package `deploy.own` does for a scenario that names such code.

Most scenarios name none, and then the package is not imported.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from schedbed.deploy.scenario.inputs import JobInputs
from schedbed.deploy.scenario.models import JobModel
from schedbed.deploy.scenario.resolved import PolicyChoice
from schedbed.deploy.scenario.yaml_file import KeyPath
from schedbed.tasks.appkit.app import App
from schedbed.tasks.discover import declared
from schedbed.tasks.own.program import is_app_file

STREAMING = "streaming"


@dataclass(frozen=True, slots=True)
class OwnApps:
    """Applications of users.

    `find` returns the application of a job and the parameters with which it runs. After an error, which is
    added to the complaints of the inputs, it returns None.
    """

    find: Callable[[JobModel, KeyPath, JobInputs], tuple[App, dict[str, Any]] | None]


@dataclass(frozen=True, slots=True)
class OwnPolicies:
    """Policies of users.

    `choices` returns the classes and objects in a list of policies, by index. `check` builds the policy of a
    file once, in a separate process, and raises BadInput if that fails.
    """

    choices: Callable[[Sequence[Any]], dict[int, PolicyChoice]]
    check: Callable[[Any], None]


def is_own(app: str) -> bool:
    """Return whether the name of an application means code of a user: `streaming`, or `path/to/app.py:NAME`."""
    return app == STREAMING or is_app_file(app)


@cache
def own_apps() -> OwnApps:
    """Return what is declared as `OWN_APPS`."""
    return declared("schedbed.deploy.own", "OWN_APPS", OwnApps)[0]


@cache
def own_policies() -> OwnPolicies:
    """Return what is declared as `OWN_POLICIES`."""
    return declared("schedbed.deploy.own", "OWN_POLICIES", OwnPolicies)[0]


def choices_in(policies: Sequence[Any]) -> Mapping[int, PolicyChoice]:
    """Return the choices of the policies that are classes or objects instead of text, by index."""
    if all(isinstance(policy, str | Mapping) for policy in policies):
        return {}
    return own_policies().choices(policies)
