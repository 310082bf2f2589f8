"""The folder on disk that caches the compiled loop's machine code. This module does not import numba."""

from __future__ import annotations

import hashlib
import os
import platform
import sys
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import TextIO

HERE = Path(__file__).parent
NOT_COMPILED = (
    "asked_policy.py",
    "code_cache.py",
    "compile_ahead.py",
    "compile_once.py",
    "block_placer.py",
    "columns.py",
    "covers.py",
    "flow_arrays.py",
    "input_tables.py",
    "tables.py",
    "registration.py",
    "run_compiled.py",
    "tables.py",
)


@cache
def cache_folder() -> Path | None:
    """Return the cache's folder, named by a hash of the source files, or None if it is not writable."""
    digest = hashlib.sha256()
    for source in sorted(HERE.rglob("*.py")):
        if source.name not in NOT_COMPILED:
            digest.update(source.read_bytes())
    folder = HERE / "__pycache__" / digest.hexdigest()[:16]
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        return None
    return folder if os.access(folder, os.W_OK) else None


def is_cached() -> bool:
    """Return whether the loop's code by this Python and host is cached, or numba compiles nothing."""
    mark = _mark()
    return os.environ.get("NUMBA_DISABLE_JIT") == "1" or (mark is not None and mark.exists())


def note_cached() -> None:
    """Record that the cache has the machine code of the whole loop."""
    mark = _mark()
    if mark is not None and not mark.exists() and os.environ.get("NUMBA_DISABLE_JIT") != "1":
        mark.touch()


def lock_file() -> TextIO:
    """Return the opened file that a process locks while it compiles the loop. There must be a cache."""
    folder = cache_folder()
    if folder is None:
        raise OSError("the folder of the compiled loop cannot be written")
    return (folder / "lock").open("w")


def numba_version() -> str | None:
    """Return the version of numba, or None if it is not installed or cannot be imported."""
    try:
        return None if find_spec("numba") is None else version("numba")
    except (ImportError, ValueError, PackageNotFoundError):
        return None


@cache
def _mark() -> Path | None:
    """Return the file that marks a complete cache, one for each host, as numba compiles for a processor."""
    folder = cache_folder()
    made_by = f"{sys.implementation.cache_tag}-numba-{numba_version()}-{platform.node()}"
    return None if folder is None else folder / f"complete-{made_by}"
