"""Commands and environments of child Python processes that import schedbed.

Their import path lacks the working folder, so a user's tasks.py or queue.py there cannot replace other
modules.
"""

from __future__ import annotations

import os
import site
import sys
from pathlib import Path

import schedbed


def module_command(module: str) -> list[str]:
    """Return the command that runs a module. `-P` keeps the working folder out of the import path."""
    return [sys.executable, "-P", "-m", module]


def module_environment() -> dict[str, str]:
    """Return this process's environment, with schedbed's folder in PYTHONPATH if Python would not find it."""
    path = os.pathsep.join([*search_path(), *filter(None, [os.environ.get("PYTHONPATH")])])
    return {**os.environ, "PYTHONPATH": path} if path else dict(os.environ)


def search_path() -> list[str]:
    """Return the folder of schedbed, or nothing if Python already searches it.

    A folder of installed packages in PYTHONPATH would hide modules of the standard library.
    """
    top = str(Path(schedbed.__file__).resolve().parent.parent)
    return [] if top in (*site.getsitepackages(), site.getusersitepackages()) else [top]
