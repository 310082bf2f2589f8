"""Commands and environments of child Python processes that import schedbed.

Files in the working folder, such as a user's tasks.py or queue.py, cannot replace modules of schedbed or of
Python.
"""

from __future__ import annotations

import os
import site
import sys
from pathlib import Path

import schedbed


def module_command(module: str) -> list[str]:
    """Return the command that runs a module of schedbed with this Python.

    `-P` keeps the working folder out of the search path.
    """
    return [sys.executable, "-P", "-m", module]


def module_environment() -> dict[str, str]:
    """Return this process's environment for a child process that must find schedbed.

    PYTHONPATH names the folder of schedbed if Python would not find it otherwise.
    """
    path = os.pathsep.join([*search_path(), *filter(None, [os.environ.get("PYTHONPATH")])])
    return {**os.environ, "PYTHONPATH": path} if path else dict(os.environ)


def search_path() -> list[str]:
    """Return a list with the folder that schedbed is imported from; empty if Python searches it anyway.

    A folder of installed packages must not be added, since modules in it would hide those of the standard
    library.
    """
    top = str(Path(schedbed.__file__).resolve().parent.parent)
    return [] if top in (*site.getsitepackages(), site.getusersitepackages()) else [top]
