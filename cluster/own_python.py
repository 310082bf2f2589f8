"""Commands and environments of child Python processes that import schedbed.

The import path of these processes does not include the working folder. A user's files in it, such as tasks.py
or queue.py, therefore cannot replace modules of schedbed or of Python.
"""

from __future__ import annotations

import os
import site
import sys
from pathlib import Path

import schedbed


def module_command(module: str) -> list[str]:
    """Return the command that runs a module of schedbed with the Python interpreter of this process.

    The option `-P` keeps the working folder out of the import path.
    """
    return [sys.executable, "-P", "-m", module]


def module_environment() -> dict[str, str]:
    """Return the environment of this process, adapted for a child process that imports schedbed.

    PYTHONPATH includes the folder that contains schedbed if Python would not find schedbed otherwise.
    """
    path = os.pathsep.join([*search_path(), *filter(None, [os.environ.get("PYTHONPATH")])])
    return {**os.environ, "PYTHONPATH": path} if path else dict(os.environ)


def search_path() -> list[str]:
    """Return a list with the folder that contains schedbed, or an empty list if Python already searches it.

    A folder of installed packages must not be added to PYTHONPATH, because modules in it would hide modules
    of the standard library.
    """
    top = str(Path(schedbed.__file__).resolve().parent.parent)
    return [] if top in (*site.getsitepackages(), site.getusersitepackages()) else [top]
