"""Which call of a policy goes on, in memory that outlives the process: who ended it, or what hangs there."""

from __future__ import annotations

from mmap import mmap

TEXT_BYTES = 240
SIZE = 1 + 8 + TEXT_BYTES
"""Bytes of a mark: whether a call goes on, the number of calls so far, and the last call as text."""


class CallMark:
    """The mark of this process. It costs nothing until it is given memory."""

    def __init__(self) -> None:
        self._memory: mmap | None = None
        self._calls = 0
        self.inside = False
        self._texts: dict[str, bytes] = {}

    def share(self, memory: mmap | None) -> None:
        """Write into this memory from now on."""
        self._memory = memory

    def enter(self, text: str) -> None:
        """A call begins: `decide (mine.py, line 7)`."""
        self.inside = True
        memory = self._memory
        if memory is None:
            return
        known = self._texts.get(text)
        if known is None:
            known = self._texts[text] = text.encode(errors="replace")[:TEXT_BYTES].ljust(TEXT_BYTES)
        self._calls += 1
        memory[:SIZE] = b"\1" + self._calls.to_bytes(8, "little") + known

    def leave(self) -> None:
        """The call has ended."""
        self.inside = False
        if self._memory is not None:
            self._memory[0] = 0


def read_mark(memory: mmap) -> tuple[bool, int, str]:
    """Return whether a call goes on, the number of calls so far, and the last call as text."""
    text = memory[9:SIZE].rstrip(b"\0 ").decode(errors="replace")
    return bool(memory[0]), int.from_bytes(memory[1:9], "little"), text


CALL_MARK = CallMark()
"""That of this process."""
