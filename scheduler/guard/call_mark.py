"""Which call of a policy goes on, in memory that outlives the process: who ended it, or what hangs there."""

from __future__ import annotations

from mmap import mmap
from pathlib import Path
from threading import get_ident

TEXT_BYTES = 240
ENDS = 2
"""So many processes in a row have to end in a call of the policy to blame the policy: a fault may hit one by chance."""
SIZE = 2 + TEXT_BYTES
"""Bytes of a mark: whether a call goes on, the last 8 bits of the number of calls, and the last call as text."""


class CallMark:
    """The mark of this process. It costs nothing until it is given memory."""

    def __init__(self) -> None:
        self._memory: mmap | None = None
        self._calls = 0
        self.active = False
        self.inside = False
        self.thread = 0
        self._last = ""

    def share(self, memory: mmap | None) -> None:
        """Write into this memory from now on."""
        self._memory = memory
        self._last = ""
        self.active = memory is not None

    def enter(self, text: str) -> None:
        """A call begins: `decide (mine.py, line 7)`."""
        memory = self._memory
        if memory is None:
            return
        self.inside = True
        self.thread = get_ident()
        self._calls = (self._calls + 1) & 255
        if text is not self._last:
            self._last = text
            memory[2:SIZE] = text.encode(errors="replace")[:TEXT_BYTES].ljust(TEXT_BYTES)
        memory[1] = self._calls
        memory[0] = 1

    def leave(self) -> None:
        """The call has ended."""
        self.inside = False
        if self._memory is not None:
            self._memory[0] = 0


def read_mark(memory: mmap) -> tuple[bool, int, str]:
    """Return whether a call goes on, the last bits of the number of calls, and the last call as text."""
    text = memory[2:SIZE].rstrip(b"\0 ").decode(errors="replace")
    return bool(memory[0]), memory[1], text


def kept_mark(path: Path) -> tuple[mmap, str]:
    """Return memory that the file keeps, and in which call two processes in a row have ended, empty when in none."""
    if not path.exists():
        path.write_bytes(bytes(SIZE + 1))
    with path.open("r+b") as file:
        memory = mmap(file.fileno(), SIZE + 1)
    inside, _, text = read_mark(memory)
    memory[SIZE] = memory[SIZE] + 1 if inside else 0
    ended_in = text if memory[SIZE] >= ENDS else ""
    memory[0] = 0
    return memory, ended_in


CALL_MARK = CallMark()
"""That of this process."""
