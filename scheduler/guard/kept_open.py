"""Detection that a policy has closed files of the JobTracker's process, for example with `os.closerange`."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path


class KeptOpen:
    """An open file, which a policy in this process may close by its number: then `close` was not called."""

    def __init__(self, path: Path) -> None:
        self._number: int | None = os.open(path, os.O_RDONLY)
        self._file = os.fstat(self._number)

    def is_lost(self) -> bool:
        """Return whether other code closed the file, also if its number now belongs to another."""
        number = self._number
        if number is None:
            return False
        try:
            return not os.path.samestat(os.fstat(number), self._file)
        except OSError:
            return self._number is not None

    def close(self) -> None:
        """Close the file, unless other code has closed it."""
        number, lost = self._number, self.is_lost()
        self._number = None
        if number is not None and not lost:
            with suppress(OSError):
                os.close(number)
