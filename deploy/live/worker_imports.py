"""The import path of Ray's worker processes, and messages about their failed imports.

Workers import only schedbed and installed packages.
"""

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
        """Ignore the folders that Ray wants to add.

        Ray would put the working folder and the script's folder before the standard library.
        """


def use_own_path(job_config: Any, *, shipped: bool = False) -> Any:
    """Change Ray's job configuration so that workers import only schedbed and installed packages.

    Return the changed configuration. With `shipped`, Ray copies schedbed's code to the hosts, so no folder is
    added to the import path. Otherwise the folder of schedbed on this host is added.
    """
    job_config._py_driver_sys_path = _OwnPath([] if shipped else search_path())
    return job_config


def import_failure(said: str) -> str | None:
    """Return a line about the failed import that the text `said` of Ray's exception describes, with file and
    line.

    Return None if the exception is not about an import.
    """
    if not _FAILED.search(said):
        return None
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    places = _PLACE.findall(said)
    where = f" ({places[-1][0]}, line {places[-1][1]})" if places else ""
    return f"an actor cannot import its code: {lines[-1]}{where}"
