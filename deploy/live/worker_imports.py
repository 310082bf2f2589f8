"""The import path of Ray's workers, only schedbed and installed packages, and messages about failed imports."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from schedbed.cluster.own_python import search_path

_PLACE = re.compile(r'File "([^"]+)", line ([0-9]+)')
_FAILED = re.compile(r"failed to import on the worker|^(ImportError|ModuleNotFoundError): ", re.MULTILINE)


class _OwnPath(list[str]):
    """A list of import folders that Ray cannot extend."""

    def extend(self, more: Iterable[str]) -> None:
        """Ignore the folders that Ray wants before the standard library: the working and the script's one."""


def use_own_path(job_config: Any, *, shipped: bool = False) -> Any:
    """Let workers import only schedbed and installed packages.

    With `shipped`, Ray copies schedbed to the hosts; otherwise this host's folder is added.
    """
    job_config._py_driver_sys_path = _OwnPath([] if shipped else search_path())
    return job_config


def import_failure(said: str) -> str | None:
    """Return a line about a failed import in Ray's text, with file and line, or None."""
    if not _FAILED.search(said):
        return None
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    places = _PLACE.findall(said)
    where = f" ({places[-1][0]}, line {places[-1][1]})" if places else ""
    return f"an actor cannot import its code: {lines[-1]}{where}"
