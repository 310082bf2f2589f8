"""The applications by name, found in the folder tasks/apps, and the kinds of input that can be generated."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Protocol

from schedbed.tasks.appkit.app import App, AppsOfUsers
from schedbed.tasks.appkit.part_files import Parts, Pieces, Ran
from schedbed.tasks.discover import declared
from schedbed.tasks.workloads.input_data import SHARED_KINDS

[_of_users] = declared("schedbed.tasks.own", "APPS_OF_USERS", AppsOfUsers)
_apps = {app.name: app for app in declared("schedbed.tasks.apps", "APP", App)}
APPS: Mapping[str, App] = _apps
KINDS: Mapping[str, Callable[[int, int], Iterator[bytes]]] = {
    **SHARED_KINDS,
    **{app.input: app.generate for app in APPS.values() if app.generate is not None},
}
"""Generators of input by kind: shared kinds, and kinds that only one application reads."""


def add_app(app: App) -> None:
    """Register an application in the current process only."""
    _apps[app.name] = app


class RunsApp(Protocol):
    """A job or an attempt, reduced to the two attributes that determine which application it runs."""

    @property
    def app(self) -> str: ...
    @property
    def params(self) -> Mapping[str, Any]: ...


def app_of(job: RunsApp) -> App:
    """Return a job's application, shipped or a user's, whose parameters determine its costs, for example."""
    return _of_users.app_of(job.app, job.params, APPS)


def generate(kind: str, size: int, seed: int) -> Iterator[bytes]:
    """Yield about `size` bytes of generated input; equal arguments give equal bytes.

    Text has exactly `size` bytes, other kinds the most whole records or lines that fit, at least one.
    """
    return KINDS[kind](size, seed)


def check_output(app: str, ran: Ran, data: Pieces, parts: Parts) -> str | None:
    """Return an error in a shipped application's output as one line, or None, also without a check."""
    check = APPS[app].check
    try:
        return None if check is None else check(ran, data, parts)
    except ValueError as error:
        return str(error)
