"""Compilation with numba. Compiled code is cached next to the source files, in a folder whose name is a hash
of the source files.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba
from numba.core import config as numba_config

from schedbed.scheduler.simulate.compiled.code_cache import cache_folder

F = TypeVar("F", bound=Callable[..., Any])
CONFIG: Any = numba_config
NJIT: Any = numba.njit  # Untyped: numba's stubs lack some options.


def compiled(function: F) -> F:
    """Compile a function for other compiled functions only, when an `entry` calls it."""
    return cast(F, NJIT(no_cpython_wrapper=True, no_cfunc_wrapper=True)(function))


def twin_of(*originals: str) -> Callable[[F], F]:
    """Declare the originals, as `module:name`, of a compiled function, which is returned unchanged.

    `tests.house.twins` keeps hashes of both, so that a change of one makes a developer compare them.
    """
    assert all(":" in original for original in originals)
    return lambda function: function


def entry(function: F, *, nogil: bool = True) -> F:
    """Compile a function for calls from Python, cached on disk. With `nogil`, other threads run meanwhile."""
    before: str = CONFIG.CACHE_DIR
    folder = cache_folder()
    if folder is None:
        return cast(F, NJIT(nogil=nogil)(function))
    CONFIG.CACHE_DIR = str(folder)
    try:
        return cast(F, NJIT(cache=True, nogil=nogil)(function))
    finally:
        CONFIG.CACHE_DIR = before
