"""Detect that a policy has closed this process's files (`os.closerange`), by one file that is kept open."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path


class KeptOpen:
    """A file that is open from here to `close`, unless somebody closes what is not theirs (`os.closerange`)."""

    def __init__(self, path: Path) -> None:
        self._number: int | None = os.open(path, os.O_RDONLY)
        self._file = os.fstat(self._number)

    def is_lost(self) -> bool:
        """Tell whether the file is no longer open, or its number means another file."""
        number = self._number
        if number is None:
            return False
        try:
            return not os.path.samestat(os.fstat(number), self._file)
        except OSError:
            return self._number is not None

    def close(self) -> None:
        """Close the file."""
        number, lost = self._number, self.is_lost()
        self._number = None
        if number is not None and not lost:
            with suppress(OSError):
                os.close(number)
