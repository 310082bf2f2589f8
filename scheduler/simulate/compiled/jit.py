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


def entry(function: F, *, nogil: bool = True) -> F:
    """Return the function as machine code that Python code can call.

    With `nogil`, other threads run while it does. The machine code is cached on disk, together with the compiled
    functions that the function calls.
    """
    before: str = CONFIG.CACHE_DIR
    folder = cache_folder()
    if folder is None:
        return cast(F, NJIT(nogil=nogil)(function))
    CONFIG.CACHE_DIR = str(folder)
    try:
        return cast(F, NJIT(cache=True, nogil=nogil)(function))
    finally:
        CONFIG.CACHE_DIR = before
