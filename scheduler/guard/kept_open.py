"""Detection that a policy has closed files of the JobTracker's process, for example with `os.closerange`.

The process opens a file for this purpose and checks whether it is still open.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path


class KeptOpen:
    """An open file that shows whether a policy has closed files of the process.

    A policy runs in the same process and could close any file by its number. If the file is closed although
    the method `close` was not called, a policy closed it.
    """

    def __init__(self, path: Path) -> None:
        self._number: int | None = os.open(path, os.O_RDONLY)
        self._file = os.fstat(self._number)

    def is_lost(self) -> bool:
        """Return whether the file was closed by code other than `close`.

        That is also true if the file's descriptor now belongs to another file.
        """
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
