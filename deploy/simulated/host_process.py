"""Processes that simulate on a host of a Ray cluster, and answer requests (bytes), one at a time.

A Ray worker must not fork, as simulations of users' policies do. It starts such a process, which ends with
it.
"""

from __future__ import annotations

import ctypes
import os
import signal
import struct
import subprocess
import sys
import tempfile
from collections.abc import Callable, Generator, Iterator
from contextlib import closing, suppress
from typing import IO, NoReturn

from schedbed.cluster.own_python import module_command, module_environment
from schedbed.deploy.worker_fork import PR_SET_PDEATHSIG
from schedbed.deploy.workspace import base_folder, sweep

ENDED = 128 + signal.SIGTERM
_LENGTH = struct.Struct("<Q")


class HostProcess:
    """A process that runs a module of schedbed, which must call `serve`. A context manager that ends it."""

    def __init__(self, module: str) -> None:
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115
        self._process = subprocess.Popen(
            [*module_command(module), str(os.getpid())],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            env=module_environment(),
        )

    def __enter__(self) -> HostProcess:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def ask(self, request: bytes) -> bytes:
        """Return the answer. Raises RuntimeError, with the last line of errors, if the process has failed."""
        assert self._process.stdin is not None and self._process.stdout is not None
        try:
            _write(self._process.stdin, request)
            answer = _read(self._process.stdout)
        except BrokenPipeError:
            answer = None
        if answer is None:
            raise RuntimeError(self._failure())
        return answer

    def close(self) -> None:
        self._end()
        self._errors.close()

    def _end(self) -> int:
        """Close the pipes to the process, wait for its end, and return its exit code."""
        for stream in (self._process.stdin, self._process.stdout):
            with suppress(BrokenPipeError):
                assert stream is not None
                stream.close()
        return self._process.wait()

    def _failure(self) -> str:
        code = self._end()
        with self._errors:
            self._errors.seek(0)
            lines = self._errors.read().decode(errors="replace").strip().splitlines()
        return f"its process ended with code {code}: {lines[-1] if lines else 'it printed nothing'}"


def serve(answers: Callable[[Iterator[bytes]], Generator[bytes]]) -> NoReturn:
    """Write the answers to the requests from standard input to standard output, and exit.

    The generator `answers` yields one for each request. Other output goes to standard error. A forked process
    does this: Ray kills a worker's children, not theirs, with no time to remove temporary folders. It ends
    with its parent, which ends with the worker, whose process id is the first argument. Dead processes'
    temporary folders are removed first.
    """
    _end_with(int(sys.argv[1]))
    parent = os.getpid()
    if child := os.fork():
        os.close(0)
        os.close(1)
        _, status = os.waitpid(child, 0)
        os._exit(os.waitstatus_to_exitcode(status) % 256)
    os.setpgid(0, 0)
    signal.signal(signal.SIGTERM, _end_now)
    _end_with(parent)
    with os.fdopen(os.dup(1), "wb") as out:
        os.dup2(2, 1)
        sweep(base_folder())
        with closing(answers(_requests())) as found:
            for answer in found:
                _write(out, answer)
    sys.exit()


def _requests() -> Iterator[bytes]:
    while (request := _read(sys.stdin.buffer)) is not None:
        yield request
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # It would interrupt the removal of temporary folders.


def _end_now(number: int, _: object) -> NoReturn:
    """Exit, and ignore further signals, so that temporary folders are removed."""
    signal.signal(number, signal.SIG_IGN)
    sys.exit(ENDED)


def _end_with(parent: int) -> None:
    """Let the kernel send SIGTERM to this process when its parent ends."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != parent:
        sys.exit(ENDED)


def _write(stream: IO[bytes], data: bytes) -> None:
    stream.write(_LENGTH.pack(len(data)))
    stream.write(data)
    stream.flush()


def _read(stream: IO[bytes]) -> bytes | None:
    """Return the next request or answer, or None if the stream has ended."""
    head = stream.read(_LENGTH.size)
    if len(head) < _LENGTH.size:
        return None
    (length,) = _LENGTH.unpack(head)
    data = stream.read(length)
    return data if len(data) == length else None
