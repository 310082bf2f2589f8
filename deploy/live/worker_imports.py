"""Imports of Ray's workers: schedbed and installed packages, never files beside the caller; and messages about failed
imports."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from schedbed.cluster.own_python import search_path

_PLACE = re.compile(r'File "([^"]+)", line ([0-9]+)')
_FAILED = re.compile(r"failed to import on the worker|^(ImportError|ModuleNotFoundError): ", re.MULTILINE)


class _OwnPath(list[str]):
    """A list that Ray cannot extend."""

    def extend(self, more: Iterable[str]) -> None:
        """Do nothing, since Ray would put the caller's working folder and script folder before the standard
        library."""


def use_own_path(job_config: Any, *, shipped: bool = False) -> Any:
    """Return Ray's configuration of a job, so that Ray adds only our folder to the workers' search paths.

    Workers of other hosts get the code that is `shipped` with the job, since a folder of the same name there may hold
    older code, or none.
    """
    job_config._py_driver_sys_path = _OwnPath([] if shipped else search_path())
    return job_config


def import_failure(said: str) -> str | None:
    """Return a line that says which import failed, where and why, if that is why an actor died; else None."""
    if not _FAILED.search(said):
        return None
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    places = _PLACE.findall(said)
    where = f" ({places[-1][0]}, line {places[-1][1]})" if places else ""
    return f"an actor cannot import its code: {lines[-1]}{where}"
