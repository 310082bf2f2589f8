"""What Ray's workers import: schedbed and what is installed, never what lies beside the caller. How a failure reads."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from schedbed.cluster.own_python import search_path

_PLACE = re.compile(r'File "([^"]+)", line ([0-9]+)')
_FAILED = re.compile(r"failed to import on the worker|^(ImportError|ModuleNotFoundError): ", re.MULTILINE)


class _OwnPath(list[str]):
    """A list that Ray cannot add to."""

    def extend(self, more: Iterable[str]) -> None:
        """Do nothing: Ray would put the caller's working folder and script folder before the standard library."""


def use_own_path(job_config: Any, *, shipped: bool = False) -> Any:
    """Return Ray's configuration of a job, so that Ray adds our folder alone to the workers' search paths.

    Workers of other hosts get the code that is `shipped` with the job: a folder of the same name there may hold older
    code, or none.
    """
    job_config._py_driver_sys_path = _OwnPath([] if shipped else search_path())
    return job_config


def import_failure(said: str) -> str | None:
    """Return in a line which import failed, where and why, when that is why an actor died; None otherwise."""
    if not _FAILED.search(said):
        return None
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    places = _PLACE.findall(said)
    where = f" ({places[-1][0]}, line {places[-1][1]})" if places else ""
    return f"an actor cannot import its code: {lines[-1]}{where}"
