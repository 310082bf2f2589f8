"""Concurrent simulation of cells, one process each. A crash, hang or lack of memory fails only its own cell."""

from __future__ import annotations

import ctypes
import multiprocessing
import os
import resource
import signal
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any

from schedbed.deploy.apart import PR_SET_PDEATHSIG
from schedbed.deploy.arena.cells import Cell, Row, play
from schedbed.deploy.workspace import base_folder, owned, sweep

LOOK_S = 0.2


@dataclass(frozen=True, slots=True)
class CellBounds:
    """The limits of one cell: real seconds, and bytes of memory."""

    time_s: float
    memory_bytes: int


@dataclass(slots=True)
class _Running:
    cell: Cell
    process: Any
    answers: Any
    until_s: float


def play_all(
    cells: Sequence[Cell], jobs: int, bounds: CellBounds, shared: Path, done: Callable[[Cell, Row], None]
) -> None:
    """Simulate the cells, `jobs` at a time. Pass each row to `done` in this process. Nothing is left behind."""
    import schedbed.deploy.results.metrics
    import schedbed.deploy.simulated.simulated_runs  # noqa: F401  # once, here, instead of in each process

    context = multiprocessing.get_context("fork")
    waiting = list(reversed(cells))
    running: list[_Running] = []
    sweep(base_folder())
    own = tempfile.TemporaryDirectory(prefix=owned("arena-"), dir=base_folder())
    with own as scratch, _ended(running):
        while waiting or running:
            while waiting and len(running) < jobs:
                running.append(_start(context, waiting.pop(), bounds, (shared, Path(scratch))))
            wait([each.answers for each in running], LOOK_S)
            for each in list(running):
                row = _row(each, bounds)
                if row is not None:
                    running.remove(each)
                    _end(each)
                    done(each.cell, row)


@contextmanager
def _ended(running: Sequence[_Running]) -> Iterator[None]:
    """End remaining processes at the end of the block."""
    try:
        yield
    finally:
        for each in running:
            _end(each)


def _start(context: Any, cell: Cell, bounds: CellBounds, folders: tuple[Path, Path]) -> _Running:
    answers, said = context.Pipe(duplex=False)
    process = context.Process(target=_play_one, args=(cell, bounds, folders, said, os.getpid()))
    process.start()
    said.close()
    return _Running(cell, process, answers, time.monotonic() + bounds.time_s)


def _row(each: _Running, bounds: CellBounds) -> Row | None:
    """Return the row of a cell that has ended, in whatever way; None while it runs."""
    if each.answers.poll():
        try:
            return each.answers.recv()
        except EOFError:
            each.process.join()
            return each.cell.row("failed", f"its process ended with code {each.process.exitcode}")
    if time.monotonic() > each.until_s:
        return each.cell.row("failed", f"took longer than {bounds.time_s:g} s")
    return None


def _end(each: _Running) -> None:
    """End a cell's process. Its children die with it."""
    if each.process.is_alive():
        each.process.join(LOOK_S)
        each.process.kill()
    each.process.join()
    each.answers.close()


def _play_one(cell: Cell, bounds: CellBounds, folders: tuple[Path, Path], said: Any, parent: int) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        return
    hard = resource.getrlimit(resource.RLIMIT_DATA)[1]
    with suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_DATA, (bounds.memory_bytes, hard))
    try:
        row = play(cell, *folders)
    except MemoryError:
        row = cell.row("failed", f"needs more than {bounds.memory_bytes >> 20} MiB of memory")
    except Exception as error:  # a policy's own fault, or a workload's: the others go on
        row = cell.row("failed", f"{type(error).__name__}: {error}")
    said.send(row)
    said.close()
