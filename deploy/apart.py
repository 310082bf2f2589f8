"""A user's code in a process of its own: only this process breaks if the code crashes, hangs or ends it.

The process is a fork whose messages come back through a pipe. It is not a sandbox: malicious code can kill any
process of the same user. It protects against mistakes: `os._exit`, a crash in C, a call that never returns, closed
files, another working folder, changed modules.
"""

from __future__ import annotations

import ctypes
import io
import mmap
import os
import pickle
import selectors
import signal
import struct
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn, TextIO

from schedbed.scheduler.guard.bounded_output import TEXT_MAX
from schedbed.scheduler.guard.call_mark import CALL_MARK, SIZE, read_mark
from schedbed.scheduler.guard.refused_acts import refuse_harm
from schedbed.scheduler.guard.time_bound import TIME_BOUND, limit_s, stuck_s
from schedbed.tasks.errors import BadInput

Send = Callable[[Any], None]
LOOK_S = 0.25
STOP_S = 10.0
"""Seconds that an interrupted process has to say what it kept."""
PR_SET_PDEATHSIG = 1
_LENGTH = struct.Struct("<cQ")
MESSAGE, RESULT, BAD_INPUT, ERROR, INTERRUPTED = b"m", b"r", b"b", b"e", b"i"


class CutOff(Exception):
    """The process ended without a result, or had to be ended. The message is one line with the place in the
    policy."""


class ApartFailed(Exception):
    """The work raised an exception in the other process. The message is one line."""


def apart(work: Callable[[Send], Any], take: Callable[[Any], None] | None = None, *, file: str = "") -> Any:
    """Do the work in a fork of this process. Return its result, and pass each message that it sends to `take`.

    Raises BadInput of the work, ApartFailed for its other exceptions, and CutOff. A CutOff without a known place
    names `file`.
    """
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    memory = mmap.mmap(-1, SIZE)
    results, texts = os.pipe(), os.pipe()
    parent = os.getpid()
    pid = os.fork()
    if pid == 0:
        _answer(work, memory, results, texts, parent)
    os.close(results[1])
    os.close(texts[1])
    with suppress(OSError):
        os.setpgid(pid, pid)
    return _Watched(pid, memory, results[0], texts[0], file or "<unknown>").result(take or _ignore)


def _ignore(_: Any) -> None:
    """Ignore a message."""


def _answer(
    work: Callable[[Send], Any],
    memory: mmap.mmap,
    results: tuple[int, int],
    texts: tuple[int, int],
    parent: int,
) -> NoReturn:
    """Do the work in the new process, and end it."""
    kind, value = ERROR, b""
    pipe = results[1]
    try:
        with suppress(OSError):
            os.setpgid(0, 0)
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(1)
        signal.signal(signal.SIGINT, _interrupt_once)
        _own_streams(results[0], texts)
        CALL_MARK.share(memory)
        refuse_harm()
        TIME_BOUND.last_words = _last_words(pipe)

        def send(message: Any) -> None:
            _write(pipe, MESSAGE, pickle.dumps(message))

        kind, value = RESULT, pickle.dumps(work(send))
    except BadInput as error:
        kind, value = BAD_INPUT, pickle.dumps(str(error))
    except KeyboardInterrupt:
        kind, value = INTERRUPTED, pickle.dumps(None)
    except BaseException as error:
        kind, value = ERROR, pickle.dumps(f"{type(error).__name__}: {error}")
    with suppress(BaseException):
        sys.stdout.flush()
        sys.stderr.flush()
    with suppress(BaseException):
        _write(pipe, kind, value)
    os._exit(0)


def _interrupt_once(number: int, _: object) -> NoReturn:
    """Raise KeyboardInterrupt at the first interrupt only, so that the resulting saves are not cut short."""
    signal.signal(number, signal.SIG_IGN)
    raise KeyboardInterrupt


def _last_words(pipe: int) -> Callable[[str], NoReturn]:
    def leave(text: str) -> NoReturn:
        with suppress(BaseException):
            _write(pipe, ERROR, pickle.dumps(text))
        os._exit(1)

    return leave


def _own_streams(unused: int, texts: tuple[int, int]) -> None:
    """Send what the code prints through the pipe, and give it an empty standard input."""
    os.close(unused)
    os.close(texts[0])
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    for number in (1, 2):
        os.dup2(texts[1], number)
    os.close(texts[1])
    sys.stdout, sys.stderr = _stream(1), _stream(2)


def _stream(number: int) -> TextIO:
    raw = io.BufferedWriter(io.FileIO(number, "w", closefd=False))
    return io.TextIOWrapper(raw, errors="replace", line_buffering=True)


def _write(pipe: int, kind: bytes, value: bytes) -> None:
    data = memoryview(_LENGTH.pack(kind, len(value)) + value)
    while data:
        data = data[os.write(pipe, data) :]


class _Watched:
    """The forked process, seen by its parent."""

    def __init__(self, pid: int, memory: mmap.mmap, results: int, texts: int, file: str) -> None:
        self._pid, self._memory, self._file = pid, memory, file
        self._results, self._texts = results, texts
        self._buffer = bytearray()
        self._last: tuple[bytes, Any] | None = None
        self._text_bytes = 0
        self._calls, self._since_s = -1, time.monotonic()
        self._status: int | None = None

    def result(self, take: Callable[[Any], None]) -> Any:
        """Wait for the end. Return the result or raise the exception that came instead."""
        try:
            self._follow(take)
        except KeyboardInterrupt:
            self._stop(take)
            raise
        finally:
            self._end()
        kind, value = self._last or (b"", "")
        if kind == RESULT:
            return value
        if kind == BAD_INPUT:
            raise BadInput(value)
        if kind == INTERRUPTED:  # not by Ctrl-C, which comes to this process
            raise CutOff(f"the policy's process was interrupted by a signal {self._where()}")
        if kind == ERROR:
            raise ApartFailed(value if ", line " in value else f"{value} {self._where()}")
        raise CutOff(f"the policy's process ended with {self._how()} {self._where()}")

    def _follow(self, take: Callable[[Any], None], until_s: float | None = None) -> bool:
        """Process messages until `until_s`, or the end if None. Return whether more may come."""
        with selectors.DefaultSelector() as ready:
            for pipe in (self._results, self._texts):
                os.set_blocking(pipe, False)
                ready.register(pipe, selectors.EVENT_READ)
            while self._last is None and (until_s is None or time.monotonic() < until_s):
                for key, _ in ready.select(LOOK_S):
                    if not (self._read_text() if key.fd == self._texts else self._read(take)):
                        ready.unregister(key.fd)
                        if key.fd == self._results:
                            self._read_text()
                            return False
                self._look()
            self._read_text()
            return self._last is None

    def _read(self, take: Callable[[Any], None]) -> bool:
        """Read available results. Return whether more may come."""
        with suppress(BlockingIOError):
            data = os.read(self._results, 1 << 20)
            if not data:
                return False
            self._buffer += data
        while len(self._buffer) >= _LENGTH.size:
            kind, length = _LENGTH.unpack_from(self._buffer)
            end = _LENGTH.size + length
            if len(self._buffer) < end:
                break
            value = pickle.loads(bytes(self._buffer[_LENGTH.size : end]))
            del self._buffer[:end]
            if kind != MESSAGE:
                self._last = kind, value
                break
            take(value)
        return True

    def _read_text(self) -> bool:
        with suppress(BlockingIOError):
            data = os.read(self._texts, 1 << 20)
            if not data:
                return False
            self._text_bytes += len(data)
            if self._text_bytes > TEXT_MAX:
                raise CutOff(f"the policy wrote more than {TEXT_MAX:,} bytes of output {self._where()}")
            sys.stdout.write(data.decode(errors="replace"))
            sys.stdout.flush()
        return True

    def _look(self) -> None:
        """Raise CutOff if one call of the policy has taken too long."""
        inside, calls, text = read_mark(self._memory)
        now_s = time.monotonic()
        if not inside or calls != self._calls:
            self._calls, self._since_s = calls, now_s
        elif now_s - self._since_s > stuck_s(text):
            raise CutOff(
                f"the policy has not answered for {limit_s(text):g} s, and could not be interrupted, {self._where()}"
            )

    def _where(self) -> str:
        inside, _, text = read_mark(self._memory)
        return f"{'in' if inside else 'after'} {text}" if text else f"({Path(self._file).name}, line 1)"

    def _how(self) -> str:
        status = self._end()
        if os.WIFSIGNALED(status):
            return signal.Signals(os.WTERMSIG(status)).name
        return f"exit code {os.WEXITSTATUS(status)}"

    def _stop(self, take: Callable[[Any], None]) -> None:
        """Interrupt the process, and process its last messages.

        Python runs a signal's handler between two of its instructions, so an interrupt just before a blocking call is
        seen only when the call ends. It is therefore sent until the process answers; the process obeys the first that
        it sees.
        """
        until_s = time.monotonic() + STOP_S
        with suppress(KeyboardInterrupt, CutOff, ProcessLookupError):
            while time.monotonic() < until_s:
                os.kill(self._pid, signal.SIGINT)
                if not self._follow(take, time.monotonic() + LOOK_S):
                    return

    def _end(self) -> int:
        """End the process with all its children. Return its status."""
        if self._status is None:
            until_s = time.monotonic() + LOOK_S
            done, status = os.waitpid(self._pid, os.WNOHANG)
            while not done and self._last is None and time.monotonic() < until_s:
                time.sleep(0.01)
                done, status = os.waitpid(self._pid, os.WNOHANG)
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self._pid, signal.SIGKILL)
            if not done:
                with suppress(ProcessLookupError):
                    os.kill(self._pid, signal.SIGKILL)
                _, status = os.waitpid(self._pid, 0)
            self._status = status
            for pipe in (self._results, self._texts):
                os.close(pipe)
        return self._status
