"""Detection that a policy has closed files of this process, for example by `os.closerange`.

One file is kept open for this check.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path


class KeptOpen:
    """A file that stays open until `close` is called. If it is found closed, a policy has closed it."""

    def __init__(self, path: Path) -> None:
        self._number: int | None = os.open(path, os.O_RDONLY)
        self._file = os.fstat(self._number)

    def is_lost(self) -> bool:
        """Return whether the file was closed by other code, or its descriptor now refers to another file."""
        number = self._number
        if number is None:
            return False
        try:
            return not os.path.samestat(os.fstat(number), self._file)
        except OSError:
            return self._number is not None

    def close(self) -> None:
        """Close the file, unless its descriptor refers to another file."""
        number, lost = self._number, self.is_lost()
        self._number = None
        if number is not None and not lost:
            with suppress(OSError):
                os.close(number)
