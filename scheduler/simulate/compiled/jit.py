"""Compilation with numba. Compiled code is cached next to the source files, in a folder whose name is a hash
of the source files.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar, cast

import numba
from numba.core import config as numba_config

F = TypeVar("F", bound=Callable[..., Any])
CONFIG: Any = numba_config
NJIT: Any = numba.njit  # Untyped: numba's stubs lack some options.
HERE = Path(__file__).parent
NOT_COMPILED = (
    "columns.py",
    "covers.py",
    "flow_arrays.py",
    "input_tables.py",
    "run_compiled.py",
    "tables.py",
)


def _cache_dir() -> str | None:
    """Return the folder that caches the compiled code of the current source files.

    Returns None if the folder is not writable.
    """
    digest = hashlib.sha256()
    for source in sorted(HERE.rglob("*.py")):
        if source.name not in NOT_COMPILED:
            digest.update(source.read_bytes())
    folder = HERE / "__pycache__" / digest.hexdigest()[:16]
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        return None
    return str(folder) if os.access(folder, os.W_OK) else None


def compiled(function: F) -> F:
    """Return the function as machine code that only other compiled functions can call.

    Numba compiles the function when it compiles an `entry` function that calls it.
    """
    return cast(F, NJIT(no_cpython_wrapper=True, no_cfunc_wrapper=True)(function))


def twin_of(*originals: str) -> Callable[[F], F]:
    """Declare that a compiled function mirrors the functions `originals`, each given as `module:name`.

    The decorator returns the compiled function unchanged. `tests.house.twins` stores hashes of both sides. A
    test fails when either side has changed, so that a developer compares them.
    """
    assert all(":" in original for original in originals)
    return lambda function: function


def entry(function: F) -> F:
    """Return the function as machine code that Python code can call.

    The machine code is cached on disk, together with the compiled functions that the function calls.
    """
    before: str = CONFIG.CACHE_DIR
    folder = _cache_dir()
    if folder is None:
        return cast(F, numba.njit(function))
    CONFIG.CACHE_DIR = folder
    try:
        return cast(F, numba.njit(cache=True)(function))
    finally:
        CONFIG.CACHE_DIR = before
