"""The applications by name, found in tasks/apps, and the kinds of input that can be generated for them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Protocol

from schedbed.tasks.appkit.app import App
from schedbed.tasks.appkit.part_files import Parts, Pieces, Ran
from schedbed.tasks.discover import declared
from schedbed.tasks.own.class_source import class_of
from schedbed.tasks.own.own_app import app_of_class, completed
from schedbed.tasks.workloads.input_data import SHARED_KINDS

_apps = {app.name: app for app in declared("schedbed.tasks.apps", "APP", App)}
APPS: Mapping[str, App] = _apps
KINDS: Mapping[str, Callable[[int, int], Iterator[bytes]]] = {
    **SHARED_KINDS,
    **{app.input: app.generate for app in APPS.values() if app.generate is not None},
}
"""The kinds of input that can be generated: those that several applications read, and what one brings for itself."""


def add_app(app: App) -> None:
    """Make an application known to this process alone that is none of tasks/apps."""
    _apps[app.name] = app


class RunsApp(Protocol):
    """A job or an attempt, as far as its application goes."""

    @property
    def app(self) -> str: ...
    @property
    def params(self) -> Mapping[str, Any]: ...


def app_of(job: RunsApp) -> App:
    """Return the application of a job whose parameters are resolved: a shipped one, or a user's own."""
    source = class_of(job.params)
    return completed(APPS[job.app] if source is None else app_of_class(job.app, source), job.params)


def generate(kind: str, size: int, seed: int) -> Iterator[bytes]:
    """Yield about `size` bytes (text: exactly; else the most whole records or lines that fit, one at least) in pieces.

    `kind` is one of KINDS (KeyError else). The same arguments give the same bytes.
    """
    return KINDS[kind](size, seed)


def check_output(app: str, ran: Ran, data: Pieces, parts: Parts) -> str | None:
    """Return what is wrong with the output of a shipped application, in one line; None when it is right, or has no
    check."""
    check = APPS[app].check
    try:
        return None if check is None else check(ran, data, parts)
    except ValueError as error:
        return str(error)
