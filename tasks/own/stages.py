"""Runs a user's application in an attempt: writes its files to a folder, and passes lines through its
class or commands.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import selectors
import shutil
import signal
import subprocess
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Protocol

from schedbed.tasks.blockfile import Buffer
from schedbed.tasks.errors import BadInput
from schedbed.tasks.mapper import MapTask
from schedbed.tasks.node_client.node import Output
from schedbed.tasks.own.bounded_log import last_lines, trim
from schedbed.tasks.own.class_source import ClassSource, class_of
from schedbed.tasks.own.program import NodeFiles, ProgramFile, files_of, lay_out
from schedbed.tasks.own.sorted_lines import LineCollector, Partition, SortedLines, Stage, by_crc
from schedbed.tasks.own.user_class import UserClass
from schedbed.tasks.own.watch import TIMEOUT, Idle, Watch
from schedbed.tasks.reducer import ReduceTask
from schedbed.tasks.specs import TaskKind
from schedbed.tasks.units import format_bytes, format_duration

STDERR = 2
WORK = "work"
"""The folder below an attempt's scratch folder in which the user code runs."""
LIMIT = "output_limit"
"""The job parameter with the number of bytes that an attempt's code may write."""

Task = MapTask | ReduceTask


class Program(Protocol):
    """The code of a user's application, as an attempt runs it: either a class or commands."""

    combine: Stage | None
    partition: Partition

    def mapped(self, task: MapTask) -> Iterator[bytes]:
        """Yield the output of the user's code for a map's split."""
        ...

    def reduced(self, pieces: Iterable[Buffer]) -> Iterator[bytes]:
        """Yield the output of the user's code for a reduce's sorted input."""
        ...


class ClassProgram:
    """The code of a user's application, if it is a class."""

    def __init__(self, task: Task, source: ClassSource, folder: Path) -> None:
        self.user = UserClass(source, folder, task.params)
        self.combine: Stage | None = self.user.combined if source.has("combine") else None
        self.partition: Partition = self.user.partition if source.has("partition") else by_crc
        self._kind = source.input or "text"

    def mapped(self, task: MapTask) -> Iterator[bytes]:
        """Implement `Program.mapped`: call the method `map` for each record of the split."""
        last = not task.spec.reduces
        if self._kind == "none":
            return self.user.mapped_once(task.spec.index, last=last)
        return self.user.mapped(self._kind, task.chunks(reader_of(self._kind)), last=last)

    def reduced(self, pieces: Iterable[Buffer]) -> Iterator[bytes]:
        return self.user.reduced(pieces)


class CommandProgram:
    """The code of a user's application, if it consists of commands (streaming)."""

    def __init__(self, task: Task, folder: Path, idle: Idle) -> None:
        self._task, self._folder, self._idle = task, folder, idle
        self.partition: Partition = by_crc
        self.combine: Stage | None = self._stage("combiner") if task.params.get("combiner") else None

    def mapped(self, task: MapTask) -> Iterator[bytes]:
        return self._stage("mapper")(task.chunks("text"))

    def reduced(self, pieces: Iterable[Buffer]) -> Iterator[bytes]:
        return self._stage("reducer")(pieces)

    def _stage(self, role: str) -> Stage:
        task = self._task
        text = str(task.params[role])
        return Command(role, text, self._folder, environment_of(task), self._idle).through


def reader_of(kind: str) -> str:
    """Return the name of the record reader for a kind of input: "records" for 100-byte records, otherwise "text"."""
    return kind if kind == "records" else "text"


def environment_of(task: Task) -> dict[str, str]:
    """Return a dictionary of the environment variables that Hadoop Streaming sets for the commands of a task."""
    spec = task.spec
    known = {
        "job_id": spec.job,
        "task_id": spec.task,
        "task_attempt_id": spec.attempt,
        "task_partition": str(spec.index),
        "task_ismap": str(spec.kind is TaskKind.MAP).lower(),
        "job_maps": str(spec.maps),
        "job_reduces": str(spec.reduces),
    }
    if spec.file is not None:
        known |= {
            "map_input_file": spec.file,
            "map_input_start": str(spec.offset),
            "map_input_length": str(spec.length),
        }
    return {f"mapreduce_{name}": value for name, value in known.items()}


@contextlib.contextmanager
def _opened(task: Task) -> Iterator[Program]:
    """Write the application's files to a folder and yield its code, until the end of the `with` block.

    For a class, the folder is also the working folder, and hanging code is interrupted.
    """
    folder = task.scratch / WORK
    folder.mkdir()
    try:
        files = files_of(task.params)
        lay_out(files, folder, NodeFiles(task.root, lambda file: _fetched(task, file)).read)
        idle = Idle(float(task.params[TIMEOUT]), task.progress)
        source = class_of(task.params)
        if source is None:
            yield CommandProgram(task, folder, idle)
            return
        before = Path.cwd()
        os.chdir(folder)
        try:
            made = ClassProgram(task, source, folder)
            made.user.watch = Watch(idle, made.user.mark, lambda: trim_own_log(STDERR))
            with made.user.watch.watching():
                yield made
        finally:
            os.chdir(before)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def trim_own_log(log: int) -> None:
    """Limit the log to which the user's class prints, if it is a regular file."""
    with contextlib.suppress(OSError):
        trim(log)


def _fetched(task: Task, file: ProgramFile) -> bytes:
    return b"".join(bytes(piece) for piece in task.node.read(file.path, 0, file.length))


def run_map(task: MapTask) -> None:
    """Map the split with the code of a user's application. If the job has reduces, sort and partition the result."""
    with _opened(task) as program:
        pieces = _bounded(task, program.mapped(task))
        if task.spec.reduces:
            collector = LineCollector(task.spec.reduces, program.partition, program.combine)
            task.gather(pieces, collector, SortedLines())
        else:
            _write(task, task.create(), pieces)


def run_reduce(task: ReduceTask) -> None:
    """Run a reduce of a user's application on the merged input lines, and write the output."""
    with _opened(task) as program:
        pieces = program.reduced(task.merged(SortedLines()))
        _write(task, task.create(), _bounded(task, pieces))


def _write(task: Task, output: Output, pieces: Iterable[bytes]) -> None:
    for piece in pieces:
        output.write(piece)
        task.node.meter.add("records_out", piece.count(b"\n"))
    output.close()


def _bounded(task: Task, pieces: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the pieces unchanged. Raises BadInput if their total size exceeds the job's `output_limit`."""
    most, written = int(task.params[LIMIT]), 0
    kind = task.spec.kind.value
    for piece in pieces:
        written += len(piece)
        if written > most:
            raise BadInput(f"the {kind} wrote more than {format_bytes(most)}: {LIMIT} in params allows more")
        yield piece


# Runs a command of a streaming job: writes lines to its standard input, and reads lines from its output.
#
# A single thread writes and reads in large pieces, as far as the pipes permit. The command stays in the
# session of the attempt, so all its processes end with the attempt. Its CPU time is part of the attempt's,
# as that of a child process.

PIPE_BYTES = 2**20
GIVE_BYTES = 256 * 1024  # Output is yielded in pieces of this size.
LINE_MAX_BYTES = 16 * 2**20
SHOWN_CHARS = 60  # Length of a command in messages.
LOOK_S = 1.0  # Interval of checks of the size of standard error.
LEFT_OPEN_S = 5.0  # Longest time for idle output to stay open after the command's end.
NOT_FOUND, NOT_EXECUTABLE = 127, 126  # Exit codes of a shell.


class Command:
    """A shell command that an attempt runs in `folder`. `role` is mapper, combiner or reducer."""

    def __init__(
        self, role: str, text: str, folder: Path, environment: Mapping[str, str], idle: Idle
    ) -> None:
        self._role, self._text, self._folder = role, text, folder
        self._environment = {**os.environ, **environment}
        self._environment["PATH"] = f"{folder}:{self._environment.get('PATH', os.defpath)}"
        self._idle = idle

    def through(self, pieces: Iterable[Buffer]) -> Iterator[bytes]:
        """Pipe the pieces through the command, and yield its output in pieces of whole lines.

        If the command fails, hangs or does not exist, raise BadInput with the last lines of standard error.
        """
        with _stderr_file(self._folder / f"{self._role}.stderr") as errors:
            process = self._start(errors)
            try:
                yield from _whole_lines(self._pump(process, iter(pieces), errors), self._name())
                self._check(self._wait(process, errors), errors)
            except BaseException:
                process.kill()
                process.wait()
                raise
            finally:
                for pipe in (process.stdin, process.stdout):
                    if pipe is not None:
                        with contextlib.suppress(OSError):
                            pipe.close()

    def _start(self, errors: int) -> subprocess.Popen[bytes]:
        try:
            process = subprocess.Popen(
                ["/bin/sh", "-c", self._text],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                cwd=self._folder,
                env=self._environment,
                bufsize=0,
            )
        except OSError as error:
            raise BadInput(f"{self._name()} cannot be started: {error.strerror}") from None
        for pipe in (process.stdin, process.stdout):
            assert pipe is not None
            os.set_blocking(pipe.fileno(), False)
            with contextlib.suppress(OSError):  # Small pipes also work, but are slower.
                fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
        return process

    def _pump(
        self, process: subprocess.Popen[bytes], pieces: Iterator[Buffer], errors: int
    ) -> Iterator[bytes]:
        """Write the input, and yield the output until the command closes it. `errors` is the stderr file."""
        assert process.stdin is not None and process.stdout is not None
        stdin, stdout = process.stdin.fileno(), process.stdout.fileno()
        waiting = memoryview(b"")
        look_s = time.monotonic() + LOOK_S
        with selectors.DefaultSelector() as selector:
            selector.register(stdin, selectors.EVENT_WRITE)
            selector.register(stdout, selectors.EVENT_READ)
            while True:
                ready = [key.fd for key, _ in selector.select(self._idle.every_s)]
                if not self._note(bool(ready), process, errors):
                    return
                if time.monotonic() > look_s:
                    look_s = time.monotonic() + LOOK_S
                    trim(errors)
                    self._idle.touch()
                if stdin in ready:
                    waiting = self._feed(stdin, waiting, pieces)
                    if not len(waiting):
                        selector.unregister(stdin)
                        process.stdin.close()
                if stdout in ready:
                    data = os.read(stdout, PIPE_BYTES)
                    if not data:
                        return
                    yield data

    def _feed(self, stdin: int, waiting: memoryview, pieces: Iterator[Buffer]) -> memoryview:
        """Write as much input as the pipe accepts. Return the unwritten part of the current piece.

        The result is empty when all input is written, or when the command has stopped reading, as `head`
        does.
        """
        waiting = waiting or _next(pieces)
        try:
            rest = waiting[os.write(stdin, waiting) :] if len(waiting) else waiting
        except BlockingIOError:
            return waiting
        except BrokenPipeError:
            return memoryview(b"")
        return rest or _next(pieces)

    def _wait(self, process: subprocess.Popen[bytes], errors: int) -> int:
        while True:
            try:
                return process.wait(self._idle.every_s)
            except subprocess.TimeoutExpired:
                self._idle.touch()
                self._note(False, process, errors)

    def _note(self, moved: bool, process: subprocess.Popen[bytes], errors: int) -> bool:
        """Return whether to continue reading output. Raises BadInput if no data moved for too long.

        False means that the command has failed while a process that it started keeps its output open.
        """
        in_time = self._idle.note(moved)
        if moved or (in_time and process.poll() is None):
            return True
        if process.returncode:
            return False
        ended = process.returncode is not None
        limit_s = min(self._idle.limit_s, LEFT_OPEN_S) if ended else self._idle.limit_s
        if self._idle.idle_s < limit_s:
            return True
        what = "hangs: it neither reads, writes nor ends"
        if ended:
            what = "has ended, but a process that it started keeps its output open"
        said = last_lines(errors)
        said = f": {said}" if said else ""
        why = "" if ended else " (task_timeout)"
        raise BadInput(f"{self._name()} {what} for {format_duration(limit_s)}{why}{said}")

    def _check(self, code: int, errors: int) -> None:
        if code == 0:
            return
        said = last_lines(errors)
        said = f": {said}" if said else ", nothing on its standard error"
        if code == NOT_FOUND:
            raise BadInput(f"{self._name()} was not found on the node{said}")
        if code == NOT_EXECUTABLE:
            raise BadInput(f"{self._name()} cannot be executed on the node{said}")
        if code < 0 or code > 128:
            number = -code if code < 0 else code - 128
            raise BadInput(f"{self._name()} was killed by {_signal(number)}{said}")
        raise BadInput(f"{self._name()} exited with status {code}{said}")

    def _name(self) -> str:
        text = " ".join(self._text.split())
        return f"{self._role} `{text if len(text) <= SHOWN_CHARS else text[: SHOWN_CHARS - 3] + '...'}`"


def _next(pieces: Iterator[Buffer]) -> memoryview:
    """Return the next piece that is not empty, or an empty one."""
    for piece in pieces:
        if len(piece):
            return memoryview(piece).cast("B")
    return memoryview(b"")


def _signal(number: int) -> str:
    with contextlib.suppress(ValueError):
        return signal.Signals(number).name
    return f"signal {number}"


@contextlib.contextmanager
def _stderr_file(path: Path) -> Iterator[int]:
    file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    try:
        yield file
    finally:
        os.close(file)


def _whole_lines(pieces: Iterator[bytes], name: str) -> Iterator[bytes]:
    """Yield a command's output in larger pieces of whole lines. Raises BadInput for a line that is too long."""
    held: list[bytes] = []
    size = 0
    for piece in pieces:
        held.append(piece)
        size += len(piece)
        if size < GIVE_BYTES:
            continue
        data = b"".join(held)
        cut = data.rfind(b"\n") + 1
        if cut:
            yield data[:cut]
        elif size > LINE_MAX_BYTES:
            raise BadInput(f"{name} wrote a line of more than {format_bytes(LINE_MAX_BYTES)}")
        held, size = [data[cut:]], len(data) - cut
    data = b"".join(held)
    if data:
        yield data if data.endswith(b"\n") else data + b"\n"
