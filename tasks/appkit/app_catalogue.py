"""The applications by name, found in tasks/apps, and the kinds of input that can be generated for them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from schedbed.tasks.appkit.app import App
from schedbed.tasks.appkit.part_files import Parts, Pieces, Ran
from schedbed.tasks.discover import declared
from schedbed.tasks.workloads.input_data import SHARED_KINDS

APPS: Mapping[str, App] = {app.name: app for app in declared("schedbed.tasks.apps", "APP", App)}
KINDS: Mapping[str, Callable[[int, int], Iterator[bytes]]] = {
    **SHARED_KINDS,
    **{app.input: app.generate for app in APPS.values() if app.generate is not None},
}
"""The kinds of input that can be generated: those that several applications read, and what one brings for itself."""


def generate(kind: str, size: int, seed: int) -> Iterator[bytes]:
    """Yield about `size` bytes (text: exactly; else the most whole records or lines that fit, one at least) in pieces.

    `kind` is one of KINDS (KeyError else). The same arguments give the same bytes.
    """
    return KINDS[kind](size, seed)


def check_output(app: str, ran: Ran, data: Pieces, parts: Parts) -> str | None:
    """Return what is wrong with the output of an application, in one line; None when it is right, or has no check."""
    check = APPS[app].check
    try:
        return None if check is None else check(ran, data, parts)
    except ValueError as error:
        return str(error)
