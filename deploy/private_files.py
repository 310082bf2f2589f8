"""Private results, which only their owner can read.

The option `--private` makes the results of a run private, and later commands keep them private.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

FOLDER_MODE, FILE_MODE = 0o700, 0o600


def is_private(folder: Path) -> bool:
    """Return whether only the owner of the folder can enter the folder."""
    return not stat.S_IMODE(folder.stat().st_mode) & 0o077


def stay_private(folder: Path) -> None:
    """Remove the permissions of other users from all files in the folder, if the folder is private."""
    if not is_private(folder):
        return
    for path in folder.rglob("*"):
        if path.is_symlink():
            continue
        with suppress(FileNotFoundError):
            path.chmod(FOLDER_MODE if path.is_dir() else FILE_MODE)


@contextmanager
def token_file(path: Path, token: str | bytes) -> Iterator[Path]:
    """Write the token to a file that only its owner can read. Yield the path.

    The file is removed after the `with` block.
    """
    path.unlink(missing_ok=True)
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, FILE_MODE), "wb") as file:
        file.write(token.encode() if isinstance(token, str) else token)
    try:
        yield path
    finally:
        path.unlink(missing_ok=True)
