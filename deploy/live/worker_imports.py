"""The import path of Ray's workers: schedbed and installed packages only; and messages about
failed imports.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from schedbed.cluster.own_python import search_path

_PLACE = re.compile(r'File "([^"]+)", line ([0-9]+)')
_FAILED = re.compile(r"failed to import on the worker|^(ImportError|ModuleNotFoundError): ", re.MULTILINE)


class _OwnPath(list[str]):
    """A list of paths that Ray cannot extend."""

    def extend(self, more: Iterable[str]) -> None:
        """Do nothing.

        Ray would put the caller's working folder and script folder before the standard library.
        """


def use_own_path(job_config: Any, *, shipped: bool = False) -> Any:
    """Return the job configuration, changed so that Ray adds only schedbed's folder to the workers' import
    path.

    With `shipped`, Ray copies the code to other hosts, and no folder is added: a folder at the same path
    there may hold older code or not exist.
    """
    job_config._py_driver_sys_path = _OwnPath([] if shipped else search_path())
    return job_config


def import_failure(said: str) -> str | None:
    """Return a line about the import that made an actor fail, with its file and line; None if no import
    failed.

    `said` is the text of Ray's exception.
    """
    if not _FAILED.search(said):
        return None
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    places = _PLACE.findall(said)
    where = f" ({places[-1][0]}, line {places[-1][1]})" if places else ""
    return f"an actor cannot import its code: {lines[-1]}{where}"
