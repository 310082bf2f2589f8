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
    """Register an application that is not in the folder tasks/apps, in the current process only."""
    _apps[app.name] = app


class RunsApp(Protocol):
    """A job or an attempt, reduced to the two attributes that determine which application it runs."""

    @property
    def app(self) -> str: ...
    @property
    def params(self) -> Mapping[str, Any]: ...


def app_of(job: RunsApp) -> App:
    """Return the application that a job runs: a shipped application or one that a user has written.

    For users' applications, the job's parameters also determine properties such as the costs.
    """
    return _of_users.app_of(job.app, job.params, APPS)


def generate(kind: str, size: int, seed: int) -> Iterator[bytes]:
    """Yield about `size` bytes of generated input in pieces. Equal arguments result in equal bytes.

    Text has exactly `size` bytes. Other kinds consist of the most whole records or lines that fit, at least
    one. Raises KeyError if `kind` is not in `KINDS`.
    """
    return KINDS[kind](size, seed)


def check_output(app: str, ran: Ran, data: Pieces, parts: Parts) -> str | None:
    """Return a one-line message about an error in the output of the shipped application `app`.

    Returns None if the output is correct or if the application has no check. `ran` describes the job, and
    `data` and `parts` are its input and its output files.
    """
    check = APPS[app].check
    try:
        return None if check is None else check(ran, data, parts)
    except ValueError as error:
        return str(error)
