"""A record of the policy's current call (the "call mark") in a mapped file.

The file outlives the process, and shows during which call it ended or hangs.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from mmap import mmap
from pathlib import Path
from threading import get_ident
from typing import Any, NamedTuple

TEXT_BYTES = 240
TEXTS = 32
"""The number of texts in the memory: one for each method of a policy, and an empty first text."""
ENDS = 2
"""The number of consecutive processes that must end in a call before the policy is blamed.

One process may end because of an injected fault.
"""
SHORT_LIVES = 4
"""The number of consecutive processes with a call that must end early before the policy is blamed."""
SIZE = 2 + TEXTS * TEXT_BYTES
"""The size of a call mark in bytes.

A mark holds the number of the last call's text (1 byte), the low 8 bits of a counter that is odd during a
call (1 byte), and the texts.
"""
PID_BYTES = 8
_LIVES = SIZE + 1 + PID_BYTES
_FILE_BYTES = _LIVES + 1
LAST_CALL, LAST_WORDS = "policy-call", "policy-failure.txt"
"""Files in a live run's folder: the call mark, and the reason why the JobTracker's process ended itself."""


class CallRecord:
    """The call mark of this process. Nothing is recorded until `share` has set the memory."""

    def __init__(self) -> None:
        self.memory: mmap | None = None
        self.count = 1  # Odd, as during a call.
        self.inside = False
        self.thread = 0
        self._texts = [""]

    def share(self, memory: mmap | None) -> None:
        """Record calls in `memory` from now on; with None, record nothing."""
        self.memory = memory
        for number in range(len(self._texts)):
            self._write(number)

    def number(self, text: str) -> int:
        """Return the number of a description such as `decide (mine.py, line 7)`.

        A new one is stored in the list of `TEXTS`, in place of the last if that is full.
        """
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
        """Record that a call starts. `number` identifies the call and was returned by the method `number`."""
        if self.memory is not None:
            self.inside, self.thread = True, get_ident()
            self.memory[0] = number
            self.count = self.memory[1] = (self.count + 2) & 255

    def last(self) -> str:
        """Return `in decide (mine.py, line 7)` or `after decide`, or "" without calls."""
        if self.memory is None:
            return ""
        inside, _, text = read_mark(self.memory)
        return f"{'in' if inside else 'after'} {text}"

    def leave(self) -> None:
        """Record the end of the current call, if any."""
        self.inside = False
        if self.memory is not None:
            self.memory[1] = self.count & 254


def read_mark(memory: mmap | bytes) -> tuple[bool, int, str]:
    """Return whether a call is active, a counter (0 to 255) of starts and ends, and the last call."""
    count, begin = memory[1], 2 + memory[0] % TEXTS * TEXT_BYTES
    text = memory[begin : begin + TEXT_BYTES].rstrip(b"\0 ").decode(errors="replace")
    return bool(count & 1), count, text


def kept_mark(path: Path) -> tuple[mmap, str]:
    """Map a call-mark file, created if missing, and return it with an error or "".

    The error says that the policy seems to have ended earlier JobTracker processes of the run: twice during a
    call, or several times soon after one.
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
    """Forget the processes that ended early, as this one has run long enough."""
    memory[_LIVES] = 0


class KeptMark(NamedTuple):
    """A call mark of process `pid`. `calls` (0 to 255) changes at the start and end of each call."""

    pid: int
    inside: bool
    calls: int
    text: str


def read_kept_mark(path: Path) -> KeptMark | None:
    """Return the call mark in the file `path`, or None if the file is missing or incomplete."""
    try:
        data = path.read_bytes()
    except OSError:
        return None
    if len(data) < _FILE_BYTES:
        return None
    return KeptMark(int.from_bytes(data[SIZE + 1 : _LIVES], "little"), *read_mark(data))


CALL_RECORD = CallRecord()
"""The call mark of this process."""


# A limit on the output that a policy writes to standard output and error in the JobTracker's process.

TEXT_MAX = 4_000_000
"""The number of characters that a policy may write to standard output and standard error together."""


class OutputBound:
    """Limits what a policy writes in its calls to `most` characters; a write above raises PermissionError."""

    def __init__(self, most: int = TEXT_MAX) -> None:
        self._most = most
        self._written = 0
        self._streams: list[Any] = []

    def begin(self, *streams: Any) -> None:
        """Limit the given streams with a new count, as several policies may run in one process in turn."""
        self._written = 0
        for stream in streams:
            if not any(stream is each for each in self._streams):
                self._streams.append(stream)
                self._bound(stream)

    def _bound(self, stream: Any) -> None:
        write = stream.write

        def write_bounded(text: str) -> int:
            if CALL_RECORD.inside and get_ident() == CALL_RECORD.thread:
                self._written += len(text)
                if self._written > self._most:
                    raise PermissionError(f"the policy wrote more than {self._most:,} characters of output")
            return write(text)

        stream.write = write_bounded


_OF_THIS_PROCESS = OutputBound()


def bound_output() -> None:
    """Limit the output of the policy that starts now in this process."""
    _OF_THIS_PROCESS.begin(sys.stdout, sys.stderr)


# Refusal of operations that no policy needs, such as deleting files and ending or starting processes.
#
# An audit hook of the interpreter refuses them. The hook cannot be removed, so it is installed only in
# processes that run just one policy, and in the JobTracker's process of a live run.

REFUSED = {
    **dict.fromkeys(
        ("os.remove", "os.rmdir", "os.rename", "os.truncate", "shutil.rmtree"), "changes no files"
    ),
    **dict.fromkeys(("shutil.move", "os.link", "os.symlink", "os.chmod", "os.chown"), "changes no files"),
    **dict.fromkeys(("os.kill", "os.killpg", "signal.pthread_kill"), "ends no processes"),
    **dict.fromkeys(("os.system", "os.exec", "os.fork", "os.forkpty"), "starts no processes"),
    **dict.fromkeys(("os.posix_spawn", "os.spawn", "subprocess.Popen"), "starts no processes"),
    **dict.fromkeys(("gc.get_objects", "gc.get_referrers", "gc.get_referents"), "sees only its view"),
}
"""The end of the error message for each refused operation, by the interpreter's audit event."""


_installed: list[int] = []


def refuse_harm() -> None:
    """Refuse the operations in `REFUSED` during calls of the policy, with PermissionError."""
    if os.getpid() in _installed:
        return
    _installed.append(os.getpid())
    sys.dont_write_bytecode = True  # Imports in a policy's call must not write files.
    sys.addaudithook(_hook())


def _hook() -> Callable[[str, tuple[object, ...]], None]:
    refused, mark = REFUSED, CALL_RECORD

    def look(event: str, _: tuple[object, ...]) -> None:
        if mark.inside and event in refused and get_ident() == mark.thread:
            raise PermissionError(f"{event} is refused: a policy {refused[event]}")

    return look
