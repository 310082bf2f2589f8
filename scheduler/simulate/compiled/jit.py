"""Compilation by numba. Compiled code is cached next to the sources, in a folder named by a hash of the
sources."""

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
NOT_COMPILED = ("columns.py", "covers.py", "flow_arrays.py", "run_compiled.py", "tables.py")


def _cache_dir() -> str | None:
    """Return the cache folder for the current contents of the sources; None if the folder is not writable."""
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
    """Return the function as machine code, compiled when an `entry` function first needs it.

    Only compiled code can call the result.
    """
    return cast(F, NJIT(no_cpython_wrapper=True, no_cfunc_wrapper=True)(function))


def twin_of(*originals: str) -> Callable[[F], F]:
    """Declare the functions, as `module:name`, that a compiled function mirrors.

    If either end changes, a test asks to compare both: `tests.house.twins` keeps a hash of each end as of the
    last comparison.
    """
    assert all(":" in original for original in originals)
    return lambda function: function


def entry(function: F) -> F:
    """Return the function as machine code that Python can call, cached on disk with all functions that it
    calls."""
    before: str = CONFIG.CACHE_DIR
    folder = _cache_dir()
    if folder is None:
        return cast(F, numba.njit(function))
    CONFIG.CACHE_DIR = folder
    try:
        return cast(F, numba.njit(cache=True)(function))
    finally:
        CONFIG.CACHE_DIR = before
