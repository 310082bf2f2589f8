"""Processes of this Python that import schedbed regardless of files in the working folder, such as a user's tasks.py
or queue.py."""

from __future__ import annotations

import os
import site
import sys
from pathlib import Path

import schedbed


def module_command(module: str) -> list[str]:
    """Return the command that runs a module of schedbed. `-P` keeps the working folder out of the search path."""
    return [sys.executable, "-P", "-m", module]


def module_environment() -> dict[str, str]:
    """Return this process's environment, with PYTHONPATH naming the package's folder if Python would not find it."""
    path = os.pathsep.join([*search_path(), *filter(None, [os.environ.get("PYTHONPATH")])])
    return {**os.environ, "PYTHONPATH": path} if path else dict(os.environ)


def search_path() -> list[str]:
    """Return the folder that schedbed is imported from, unless every process of this Python searches it anyway.

    A folder of installed packages must not come before the standard library.
    """
    top = str(Path(schedbed.__file__).resolve().parent.parent)
    return [] if top in (*site.getsitepackages(), site.getusersitepackages()) else [top]
