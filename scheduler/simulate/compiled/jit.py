"""Compiling functions; what was compiled is kept beside them, by what all of their sources say."""

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
NJIT: Any = numba.njit  # its stubs do not know all options
HERE = Path(__file__).parent
NOT_COMPILED = ("columns.py", "covers.py", "flow_arrays.py", "run_compiled.py", "tables.py")


def _cache_dir() -> str | None:
    """Return a folder that only serves these very sources; None where it cannot be written."""
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
    """Return the function as machine code, made when `entry` first reaches it; only compiled functions can call it."""
    return cast(F, NJIT(no_cpython_wrapper=True, no_cfunc_wrapper=True)(function))


def twin_of(*originals: str) -> Callable[[F], F]:
    """Names what a compiled function mirrors, as `module:name`; whoever changes one end looks at the other.

    `tests.house.twins` keeps what both ends said when they were last held against each other.
    """
    assert all(":" in original for original in originals)
    return lambda function: function


def entry(function: F) -> F:
    """As `compiled`, kept on disk with all that it calls."""
    before: str = CONFIG.CACHE_DIR
    folder = _cache_dir()
    if folder is None:
        return cast(F, numba.njit(function))
    CONFIG.CACHE_DIR = folder
    try:
        return cast(F, numba.njit(cache=True)(function))
    finally:
        CONFIG.CACHE_DIR = before
