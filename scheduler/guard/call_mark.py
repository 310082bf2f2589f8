"""A mark of the policy's current call, in memory that outlives the process, to find the call that ended or hangs
it."""

from __future__ import annotations

import os
from mmap import mmap
from pathlib import Path
from threading import get_ident
from typing import NamedTuple

TEXT_BYTES = 240
TEXTS = 32
"""Number of texts that the memory holds: a text for each method of a policy, the first one empty."""
ENDS = 2
"""Processes in a row that must end in a call of the policy before the policy is blamed; a fault may end one."""
SHORT_LIVES = 4
"""Processes in a row that must end soon after their start, with a call, before the policy is blamed."""
SIZE = 2 + TEXTS * TEXT_BYTES
"""Bytes of a mark: the number of the last call's text, the last 8 bits of a count that is odd in a call, the texts."""
PID_BYTES = 8
_LIVES = SIZE + 1 + PID_BYTES
_FILE_BYTES = _LIVES + 1
LAST_CALL, LAST_WORDS = "policy-call", "policy-failure.txt"
"""In the folder of a live run: the mark of the JobTracker's process, and why that has ended itself."""


class CallMark:
    """The mark of this process. It costs nothing until `share` gives it memory.

    `guarded_calls.Guard.wrap` repeats the steps of `enter` and `leave` inline for speed.
    """

    def __init__(self) -> None:
        self.memory: mmap | None = None
        self.count = 1  # odd, as it is in a call
        self.inside = False
        self.thread = 0
        self._texts = [""]

    def share(self, memory: mmap | None) -> None:
        """Write the mark into this memory from now on."""
        self.memory = memory
        for number in range(len(self._texts)):
            self._write(number)

    def number(self, text: str) -> int:
        """Return the number that stands for a call's text, such as `decide (mine.py, line 7)`, in `enter`."""
        if text in self._texts:
            return self._texts.index(text)
        if len(self._texts) < TEXTS:
            self._texts.append(text)
        else:
            self._texts[-1] = text
        number = len(self._texts) - 1
        self._write(number)
        return number

    def _write(self, number: int) -> None:
        if self.memory is not None:
            begin = 2 + number * TEXT_BYTES
            text = self._texts[number].encode(errors="replace")[:TEXT_BYTES]
            self.memory[begin : begin + TEXT_BYTES] = text.ljust(TEXT_BYTES)

    def enter(self, number: int) -> None:
        """Note the start of the call with that number."""
        if self.memory is not None:
            self.inside, self.thread = True, get_ident()
            self.memory[0] = number
            self.count = self.memory[1] = (self.count + 2) & 255

    def last(self) -> str:
        """Return the last call as `in decide (mine.py, line 7)`."""
        if self.memory is None:
            return ""
        inside, _, text = read_mark(self.memory)
        return f"{'in' if inside else 'after'} {text}"

    def leave(self) -> None:
        """Note the end of the current call, if any."""
        self.inside = False
        if self.memory is not None:
            self.memory[1] = self.count & 254


def read_mark(memory: mmap | bytes) -> tuple[bool, int, str]:
    """Return whether a call is active, the low bits of the count of calls, and the last call as text."""
    count, begin = memory[1], 2 + memory[0] % TEXTS * TEXT_BYTES
    text = memory[begin : begin + TEXT_BYTES].rstrip(b"\0 ").decode(errors="replace")
    return bool(count & 1), count, text


def kept_mark(path: Path) -> tuple[mmap, str]:
    """Return memory that is backed by the file, and a text that blames the policy if it repeatedly ended the process.

    The file also records the process that writes to it.
    """
    if not path.exists():
        path.write_bytes(bytes(_FILE_BYTES))
    with path.open("r+b") as file:
        memory = mmap(file.fileno(), _FILE_BYTES)
    inside, _, text = read_mark(memory)
    memory[SIZE] = memory[SIZE] + 1 if inside else 0
    blame = ""
    if memory[SIZE] >= ENDS:
        blame = f"has ended the JobTracker's process twice, in {text}"
    elif text and memory[_LIVES] >= SHORT_LIVES:
        blame = f"has ended the JobTracker's process {SHORT_LIVES} times, each soon after {text}"
    memory[1] = 0
    memory[_LIVES] = min(255, memory[_LIVES] + 1)
    memory[SIZE + 1 : _LIVES] = os.getpid().to_bytes(PID_BYTES, "little")
    return memory, blame


def no_short_life(memory: mmap) -> None:
    """Note that the process has lived long enough not to count as ended by the policy."""
    memory[_LIVES] = 0


class KeptMark(NamedTuple):
    """A mark read from its file by another process."""

    pid: int
    inside: bool
    calls: int
    text: str


def read_kept_mark(path: Path) -> KeptMark | None:
    """Return the mark that the file holds now; None if the file is missing or incomplete."""
    try:
        data = path.read_bytes()
    except OSError:
        return None
    if len(data) < _FILE_BYTES:
        return None
    return KeptMark(int.from_bytes(data[SIZE + 1 : _LIVES], "little"), *read_mark(data))


CALL_MARK = CallMark()
"""That of this process."""
