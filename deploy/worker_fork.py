"""A piece of work in a forked process, which sends messages to its parent through a pipe.

The fork protects the parent from mistakes of a user's code: `os._exit`, a crash in C, a call that never
returns, closed files, another working folder, changed modules. It is no sandbox: malicious code can kill any
process of the user. Messages are JSON, since a user's code could write anything into the pipe, and reading
JSON executes no code.
"""

from __future__ import annotations

import ctypes
import gc
import io
import json
import mmap
import os
import resource
import signal
import struct
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn, TextIO

from schedbed.deploy.failures import one_line
from schedbed.scheduler.guard.call_record import CALL_RECORD, SIZE, TEXT_MAX, read_mark, refuse_harm
from schedbed.scheduler.guard.time_bound import TIME_BOUND, limit_s, stuck_s
from schedbed.tasks.errors import BadInput

Send = Callable[[Any], None]
Work = Callable[[Send], Any]
LOOK_S = 0.25
PR_SET_PDEATHSIG = 1
MESSAGE_MAX = 1 << 30
_LENGTH = struct.Struct("<cQ")
MESSAGE, RESULT, BAD_INPUT, ERROR, INTERRUPTED, NO_MEMORY = b"m", b"r", b"b", b"e", b"i", b"o"
CUT_OFF, KILLED, STOPPED = b"c", b"k", b"s"
"""Ends found by the parent: the process broke, another program killed it, or the parent was interrupted."""
_PIPES: set[int] = set()
"""Pipes of all forks of this process. A new fork closes them, since only the parent may read them."""


class CutOff(Exception):
    """A forked process ended without a result or was stopped. One line names the policy's line if known."""


class ApartFailed(Exception):
    """Work in a forked process has raised an exception, described in one line."""


@dataclass(frozen=True, slots=True)
class WorkBounds:
    """The limits of one piece of work in real seconds and in bytes of memory. None means no limit."""

    time_s: float | None = None
    memory_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class WorkEnd:
    """The end of a piece of work: its result for the kind RESULT, else the reason as one line."""

    kind: bytes
    value: Any

    def result(self) -> Any:
        """Return the result. Raises BadInput as the work did, ApartFailed for other exceptions, CutOff
        without a result.
        """
        if self.kind == RESULT:
            return self.value
        raise {BAD_INPUT: BadInput, ERROR: ApartFailed}.get(self.kind, CutOff)(self.value)


class WorkerFork:
    """A forked process that does one piece of work, seen from the parent process.

    `take` is called with each message of the work. If a user's code runs, errors name `file` unless the
    policy's line is known.
    """

    def __init__(
        self, work: Work, take: Callable[[Any], object], file: str | None, bounds: WorkBounds
    ) -> None:
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        self._take, self._file, self._bounds = take, file, bounds
        self._memory = mmap.mmap(-1, SIZE)
        results, texts = os.pipe(), os.pipe()
        parent = os.getpid()
        self.pid = os.fork()
        if self.pid == 0:
            unused = [*_PIPES, results[0], texts[0]]
            _answer(work, self._memory, results[1], texts[1], (unused, parent, file is None, bounds))
        os.close(results[1])
        os.close(texts[1])
        with suppress(OSError):
            os.setpgid(self.pid, self.pid)
        self._results, self._texts = results[0], texts[0]
        self.pipes = {self._results, self._texts}  # Pipes that the fork has not closed.
        _PIPES.update(self.pipes)
        for pipe in self.pipes:
            os.set_blocking(pipe, False)
        self.end: WorkEnd | None = None
        self._buffer = bytearray()
        self._text_bytes = 0
        self._began_s = self._since_s = time.monotonic()
        self._calls = -1
        self._status: int | None = None

    def follow(self) -> None:
        """Process what the process has sent. Set `end` if it has ended or must be stopped."""
        try:
            more = self._results not in self.pipes or self._read()
            self._read_text()
            if self.end is None and not more:
                self.end = self._died()
            if self.end is None:
                self._look()
        except CutOff as error:
            self.end = WorkEnd(CUT_OFF, str(error))

    def interrupt(self) -> None:
        """Send SIGINT to the process, so that its work ends soon. The work may still send messages.

        Call this until the process has ended: Python runs signal handlers between bytecode instructions, so a
        signal just before a blocking call takes effect only after it. Only the first one that Python handles
        interrupts the work.
        """
        with suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGINT)

    def memory_bytes(self) -> int:
        """Return the resident memory in bytes, without pages of files and shared memory."""
        with suppress(OSError, IndexError):
            fields = Path(f"/proc/{self.pid}/statm").read_text().split()
            return (int(fields[1]) - int(fields[2])) * mmap.PAGESIZE
        return 0

    def close(self) -> int:
        """Stop the process and its children if they still run. Return the exit status of the process."""
        if self._status is None:
            until_s = time.monotonic() + LOOK_S
            done, status = os.waitpid(self.pid, os.WNOHANG)
            while not done and self.end is None and time.monotonic() < until_s:
                time.sleep(0.01)
                done, status = os.waitpid(self.pid, os.WNOHANG)
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, signal.SIGKILL)
            if not done:
                with suppress(ProcessLookupError):
                    os.kill(self.pid, signal.SIGKILL)
                _, status = os.waitpid(self.pid, 0)
            self._status = status
            _PIPES.difference_update({self._results, self._texts})
            for pipe in (self._results, self._texts):
                os.close(pipe)
        return self._status

    def _read(self) -> bool:
        """Read and process the messages that have arrived. Return whether more messages can come."""
        with suppress(BlockingIOError):
            data = os.read(self._results, 1 << 20)
            if not data:
                self.pipes.discard(self._results)
                return False
            self._buffer += data
        while self.end is None and len(self._buffer) >= _LENGTH.size:
            kind, length = _LENGTH.unpack_from(self._buffer)
            end = _LENGTH.size + length
            if length > MESSAGE_MAX:
                raise CutOff(f"{self._whose} process sent what is no message{self._where()}")
            if len(self._buffer) < end:
                break
            try:
                value = json.loads(self._buffer[_LENGTH.size : end])
            except (ValueError, RecursionError):
                raise CutOff(f"{self._whose} process sent what is no message{self._where()}") from None
            del self._buffer[:end]
            if kind == MESSAGE:
                self._take(value)
            else:
                self.end = self._told(kind, value)
        return True

    def _told(self, kind: bytes, value: Any) -> WorkEnd:
        """Return the end for the last message, with the policy's line if the work failed."""
        if kind == INTERRUPTED:
            value = f"{self._whose} process was interrupted by a signal{self._where()}"
        elif kind == ERROR and ", line " not in value:
            value += self._where()
        return WorkEnd(kind, value)

    def _read_text(self) -> None:
        with suppress(BlockingIOError):
            data = os.read(self._texts, 1 << 20)
            if not data:
                self.pipes.discard(self._texts)
            self._text_bytes += len(data)
            if self._text_bytes > TEXT_MAX and self._file is not None:
                raise CutOff(f"the policy wrote more than {TEXT_MAX:,} bytes of output{self._where()}")
            sys.stdout.write(data.decode(errors="replace"))
            sys.stdout.flush()

    def _look(self) -> None:
        """Raise CutOff if the work has exceeded its time limit, or if a call of the policy takes too long."""
        inside, calls, text = read_mark(self._memory)
        now_s = time.monotonic()
        if self._bounds.time_s is not None and now_s - self._began_s > self._bounds.time_s:
            raise CutOff(f"took longer than {self._bounds.time_s:g} s")
        if not inside or calls != self._calls:
            self._calls, self._since_s = calls, now_s
        elif now_s - self._since_s > stuck_s(text):
            raise CutOff(
                f"the policy has not answered for {limit_s(text):g} s, and could not be interrupted,{self._where()}"
            )

    @property
    def _whose(self) -> str:
        return "its" if self._file is None else "the policy's"

    def _where(self) -> str:
        inside, _, text = read_mark(self._memory)
        if text:
            return f" {'in' if inside else 'after'} {text}"
        return f" ({Path(self._file).name}, line 1)" if self._file is not None else ""

    def _died(self) -> WorkEnd:
        status = self.close()
        signalled = os.WIFSIGNALED(status)
        how = signal.Signals(os.WTERMSIG(status)).name if signalled else f"exit code {os.WEXITSTATUS(status)}"
        kind = KILLED if how == "SIGKILL" else CUT_OFF
        return WorkEnd(kind, f"{self._whose} process ended with {how}{self._where()}")


def _answer(
    work: Work,
    memory: mmap.mmap,
    pipe: int,
    texts: int,
    about: tuple[list[int], int, bool, WorkBounds],
) -> NoReturn:
    """Call `work` in the forked process, write its result or error to `pipe`, and exit.

    The parent reads in `memory` which call of the policy is running. Printed output goes to `texts`. `about`
    has file descriptors to close, the parent's process id, if a user's code runs, and the limits.
    """
    kind, value = ERROR, b""
    unused, parent, own, bounds = about
    try:
        with suppress(OSError):
            os.setpgid(0, 0)
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(1)
        signal.signal(signal.SIGINT, _interrupt_once)
        for each in unused:
            os.close(each)
        _PIPES.clear()
        gc.freeze()  # Keeps the parent's memory pages shared.
        _own_streams(texts)
        _limit_memory(bounds.memory_bytes)
        CALL_RECORD.share(memory)
        refuse_harm()
        TIME_BOUND.exit_with = _last_words(pipe)

        def send(message: Any) -> None:
            _write(pipe, MESSAGE, _packed(message))

        kind, value = RESULT, _packed(work(send))
    except BadInput as error:
        kind, value = BAD_INPUT, _packed(str(error))
    except KeyboardInterrupt:
        kind, value = INTERRUPTED, _packed(None)
    except MemoryError:
        limit = "there is" if bounds.memory_bytes is None else f"{bounds.memory_bytes >> 20} MiB of memory"
        kind, value = NO_MEMORY, _packed(f"needs more than {limit}")
    except BaseException as error:
        kind, value = ERROR, _packed(one_line(error) if own else f"{type(error).__name__}: {error}")
    with suppress(BaseException):
        sys.stdout.flush()
        sys.stderr.flush()
    with suppress(BaseException):
        _write(pipe, kind, value)
    os._exit(0)


def _packed(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":"), default=_plain).encode()


def _plain(value: Any) -> Any:
    """Convert a numpy number, for JSON."""
    return value.item()


def _limit_memory(most_bytes: int | None) -> None:
    """Limit this process's memory, and let the kernel kill it before its parent if the host has none left."""
    with suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("500")
    if most_bytes is not None:
        hard = resource.getrlimit(resource.RLIMIT_DATA)[1]
        with suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_DATA, (most_bytes, hard))


def _interrupt_once(number: int, _: object) -> NoReturn:
    """Raise KeyboardInterrupt, and ignore later signals while the work saves its state."""
    signal.signal(number, signal.SIG_IGN)
    raise KeyboardInterrupt


def _last_words(pipe: int) -> Callable[[str], NoReturn]:
    def leave(text: str) -> NoReturn:
        with suppress(BaseException):
            _write(pipe, ERROR, _packed(text))
        os._exit(1)

    return leave


def _own_streams(texts: int) -> None:
    """Redirect standard output and standard error to the pipe `texts`, and standard input to /dev/null."""
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    for number in (1, 2):
        os.dup2(texts, number)
    os.close(texts)
    sys.stdout, sys.stderr = _stream(1), _stream(2)


def _stream(number: int) -> TextIO:
    raw = io.BufferedWriter(io.FileIO(number, "w", closefd=False))
    return io.TextIOWrapper(raw, errors="replace", line_buffering=True)


def _write(pipe: int, kind: bytes, value: bytes) -> None:
    data = memoryview(_LENGTH.pack(kind, len(value)) + value)
    while data:
        data = data[os.write(pipe, data) :]
