"""Synthetic tasks with declared costs. A task really uses CPU, reads its split, shuffles and writes bytes."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from schedbed.tasks.appkit.app import App, Parameter
from schedbed.tasks.blockfile import Piece
from schedbed.tasks.chance import array_chance
from schedbed.tasks.mapper import MapTask
from schedbed.tasks.pacing import own_cpu_s
from schedbed.tasks.reducer import ReduceTask
from schedbed.tasks.specs import Cost

STEP_BYTES = 256 * 1024
STEPS_MIN, STEPS_MAX = 8, 400
LAST = 0.05  # Share of the CPU time that is burned after the output.


class CostRun:
    """A running synthetic attempt, which consumes its declared cost in small steps.

    Computing, reading and writing alternate. A little CPU time is reserved for `finish`, since the end of a
    task also uses CPU. The declared CPU time includes the CPU time for reading and writing.
    """

    def __init__(self, task: MapTask | ReduceTask, phase: str, began: float) -> None:
        self._cost = cost = task.spec.cost or Cost()
        self._task = task
        self._phase = phase
        # The memory is written to, so that it counts as used.
        self._held = b"\1" * (int(task.params["hold_mib"]) << 20)
        self._began = began  # Progress of the task when the spending begins.
        self._setup_cpu_s = task.progress.setup_cpu_s
        self._burn_cpu_s = cost.cpu_s * task.core_speed  # In core-seconds of the host.
        self._to_read_bytes = cost.read_bytes if isinstance(task, MapTask) else 0
        moved = max(self._to_read_bytes, cost.write_bytes)
        self._step = 1 / min(STEPS_MAX, max(STEPS_MIN, -(-moved // STEP_BYTES)))
        self._done = 0.0
        self._read_bytes = self._written_bytes = 0
        self._input = self._endless_input()
        self._filler = Filler(task.spec.seed, task.spec.task)

    def advance(self, to: float) -> None:
        """Read input and use CPU until the share `to` (0 to 1) of the declared cost is consumed."""
        while self._done < to:
            self._done = min(to, self._done + self._step)
            while self._read_bytes < int(self._to_read_bytes * self._done):
                self._read_bytes += len(next(self._input))
            self._burn((1 - LAST) * self._done)
            self._tick()

    def finish(self) -> None:
        """Use the remaining CPU time of the declared cost."""
        self.advance(1.0)
        self._burn(1.0)

    def _burn(self, to: float) -> None:
        burn(self._setup_cpu_s + self._burn_cpu_s * to, self._tick)

    def write(self, length: int) -> Iterator[memoryview]:
        """Yield the next output in pieces, and consume the cost in proportion."""
        for piece in self._filler.take(length):
            self._written_bytes += len(piece)
            self.advance(self._written_bytes / self._cost.write_bytes)
            yield piece

    def _endless_input(self) -> Iterator[Piece]:
        task = self._task
        while isinstance(task, MapTask):
            length = min(task.spec.length, self._to_read_bytes - self._read_bytes)
            if length <= 0:
                raise ValueError(
                    f"{task.spec.task} reads {self._cost.read_bytes} bytes, but its split is empty"
                )
            yield from task.read(task.spec.offset, task.spec.offset + length)

    def _tick(self) -> None:
        self._task.progress.report(self._phase, self._began + (1 - self._began) * self._done)


def share(total: int, part: int, parts: int) -> int:
    """Return the size of one of `parts` that differ by at most 1."""
    return total * (part + 1) // parts - total * part // parts


def _map(task: MapTask) -> None:
    run, total, reduces = CostRun(task, "map", 0.0), (task.spec.cost or Cost()).write_bytes, task.spec.reduces
    if not total:
        run.advance(1.0)
    if reduces:
        task.publish([run.write(share(total, index, reduces)) for index in range(reduces)])
    else:
        output = task.create()
        for piece in run.write(total):
            output.write(piece)
        output.close()
    run.finish()


def _reduce(task: ReduceTask) -> None:
    copied = task.copy()
    copied.clear()  # The bytes are opaque, so there is nothing to merge.
    task.node.meter.mark("sort_end", task.progress.now_s())
    run, output = CostRun(task, "reduce", 2 / 3), task.create()
    for piece in run.write((task.spec.cost or Cost()).write_bytes):
        output.write(piece)
    run.advance(1.0)
    output.close()
    run.finish()


APP = App(
    name="synthetic",
    summary="uses CPU time and moves data as the job's keys say: map: {cpu, read, write}, reduce: "
    "{cpu, write}",
    input="raw",
    reduces="any",
    parameters=(Parameter("hold_mib", 0, "MiB", "memory that each attempt occupies while it runs"),),
    run_map=_map,
    run_reduce=_reduce,
)


# Artificial work of tasks: using CPU time, and random bytes to write.

PATTERN_BYTES = 256 * 1024
TURNS = 500  # Loop iterations between two clock reads: 0.03 ms; 0.6 ms on 1/20 of a core.


def burn(until_cpu_s: float, tick: Callable[[], None], cpu_clock: Callable[[], float] = own_cpu_s) -> None:
    """Compute until this process has used `until_cpu_s` seconds in total, calling `tick` repeatedly."""
    value = 1
    while cpu_clock() < until_cpu_s:
        for _ in range(TURNS):
            value = value * 1103515245 + 12345 & 0x7FFFFFFF
        tick()


class Filler:
    """An endless sequence of incompressible bytes. Fillers of the same seed and names give the same bytes."""

    def __init__(self, seed: int, *names: object) -> None:
        self._seed, self._names = seed, names
        self._pattern = memoryview(b"")  # Created for the first piece, since an attempt may write nothing.
        self._at = 0

    def take(self, length: int) -> Iterator[memoryview]:
        """Yield the next `length` bytes in pieces."""
        while length > 0:
            self._pattern = self._pattern or memoryview(self._made())
            piece = self._pattern[self._at : self._at + length]
            self._at = (self._at + len(piece)) % PATTERN_BYTES
            length -= len(piece)
            yield piece

    def _made(self) -> bytes:
        return array_chance(self._seed, *self._names).bytes(PATTERN_BYTES)
