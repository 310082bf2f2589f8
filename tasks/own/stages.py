"""Runs a user's application in an attempt: writes its files to a folder, and passes lines through its
class or commands.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Protocol

from schedbed.tasks.blockfile import Buffer
from schedbed.tasks.errors import BadInput
from schedbed.tasks.mapper import MapTask
from schedbed.tasks.node_client.node import Output
from schedbed.tasks.own.bounded_log import trim
from schedbed.tasks.own.class_source import ClassSource, class_of
from schedbed.tasks.own.command import Command
from schedbed.tasks.own.program import NodeFiles, ProgramFile, files_of, lay_out
from schedbed.tasks.own.sorted_lines import LineCollector, Partition, SortedLines, Stage, by_crc
from schedbed.tasks.own.user_class import UserClass
from schedbed.tasks.own.watch import TIMEOUT, Idle, Watch
from schedbed.tasks.reducer import ReduceTask
from schedbed.tasks.specs import TaskKind
from schedbed.tasks.units import format_bytes

STDERR = 2
WORK = "work"
"""The folder below an attempt's scratch folder in which the user code runs."""
COMMANDS = ("mapper", "combiner", "reducer")
"""The parameters of streaming jobs that are commands."""
LIMIT = "output_limit"
"""The job parameter with the number of bytes that an attempt's code may write."""

Task = MapTask | ReduceTask


class Program(Protocol):
    """The code of a user's application, as an attempt runs it: either a class or commands."""

    combine: Stage | None
    partition: Partition

    def mapped(self, task: MapTask) -> Iterator[bytes]:
        """Yield the lines that the user's code outputs for the split of a map."""
        ...

    def reduced(self, pieces: Iterable[Buffer]) -> Iterator[bytes]:
        """Yield the lines that the user's code outputs for the sorted input lines of a reduce."""
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
        """Implement `Program.reduced`: call the method `reduce` for each key."""
        return self.user.reduced(pieces)


class CommandProgram:
    """The code of a user's application, if it consists of commands (streaming)."""

    def __init__(self, task: Task, folder: Path, idle: Idle) -> None:
        self._task, self._folder, self._idle = task, folder, idle
        self.partition: Partition = by_crc
        self.combine: Stage | None = self._stage("combiner") if task.params.get("combiner") else None

    def mapped(self, task: MapTask) -> Iterator[bytes]:
        """Implement `Program.mapped`: pass the lines of the split through the command `mapper`."""
        return self._stage("mapper")(task.chunks("text"))

    def reduced(self, pieces: Iterable[Buffer]) -> Iterator[bytes]:
        """Implement `Program.reduced`: pass the sorted lines through the command `reducer`."""
        return self._stage("reducer")(pieces)

    def _stage(self, role: str) -> Stage:
        task = self._task
        text = str(task.params[role])
        return Command(role, text, self._folder, environment_of(task), self._idle).through


def reader_of(kind: str) -> str:
    """Return the name of the record reader for a kind of input: "records" for 100-byte records, otherwise
    "text".
    """
    return kind if kind == "records" else "text"


def environment_of(task: Task) -> dict[str, str]:
    """Return a dictionary of the environment variables that Hadoop Streaming sets for the commands of a
    task.
    """
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
    """Write the application's files to a folder, yield its code, and delete the folder at the end of the
    `with` block.

    If the application is a class, the folder is also the working folder, and hanging code is interrupted.
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
    """Limit the size of the log to which the user's class prints. `log` is its file descriptor.

    Does nothing if the log is not a regular file.
    """
    with contextlib.suppress(OSError):
        trim(log)


def _fetched(task: Task, file: ProgramFile) -> bytes:
    return b"".join(bytes(piece) for piece in task.node.read(file.path, 0, file.length))


def run_map(task: MapTask) -> None:
    """Map the split with the code of a user's application. If the job has reduces, sort and partition the
    result.
    """
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
