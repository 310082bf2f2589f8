"""Comparison of compiled code with Python in a process of its own, since other tests turn compiling off."""

from __future__ import annotations

import os
import subprocess
import sys


def compare_compiled(file: str) -> None:
    """Call the function `compare_all` of the test module `file` in a process in which code is compiled.

    Raises AssertionError with the process's output if the function fails.
    """
    code = (
        f"from importlib.util import *; s = spec_from_file_location('compared', {file!r});"
        "m = module_from_spec(s); s.loader.exec_module(m); m.compare_all(); print('same')"
    )
    environment = {**os.environ, "COMPILED": "1", "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True)
    assert done.stdout.strip() == "same", done.stderr
