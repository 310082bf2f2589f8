"""Concurrent simulations, one process each, since a simulation needs one core, not the whole host."""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from queue import Empty
from typing import Any, Generic, TypeVar

from schedbed.deploy.failures import RunFailed
from schedbed.deploy.papers.experiment_result import ExperimentResult, PlannedExperiment
from schedbed.deploy.papers.run_experiment import run

LOOK_S = 1.0  # between two looks at whether a process has died

J = TypeVar("J")
R = TypeVar("R")


@dataclass(frozen=True, slots=True, kw_only=True)
class Lane(Generic[J, R]):
    """Jobs that one process does one after the other. `work` yields a result a job, in their order; it is a function
    of a module, which the process imports. `names` tells which job a process died of."""

    names: Sequence[str]
    jobs: Sequence[J]
    work: Callable[[Sequence[J]], Iterator[R]]
    takes_s: float = 0.0


def play(
    jobs: Sequence[PlannedExperiment], done: Callable[[PlannedExperiment, ExperimentResult], None]
) -> None:
    """Run the experiments, those of a paper one after the other, and call `done` with each result in this process.

    Raises RunFailed if a process dies. No process is left behind.
    """
    papers: dict[str, list[PlannedExperiment]] = {}
    for job in jobs:
        papers.setdefault(job.entry.paper, []).append(job)
    by_number = {job.number: job for job in jobs}
    lanes = [
        Lane(
            names=[job.entry.label for job in mine],
            jobs=mine,
            work=_experiments,
            takes_s=sum(job.takes_s for job in mine),
        )
        for mine in papers.values()
    ]
    play_lanes(lanes, lambda found: done(by_number[found[0]], found[1]))


def play_lanes(lanes: Iterable[Lane[J, R]], done: Callable[[R], object]) -> None:
    """Run the lanes, as many at once as there are cores, the longest first, and call `done` with each result in this
    process.

    Raises RunFailed if a process dies. No process is left behind.
    """
    waiting = sorted(lanes, key=lambda lane: lane.takes_s)
    left = [list(lane.names) for lane in waiting]
    context = multiprocessing.get_context("spawn")
    said: Any = context.Queue()
    running: dict[int, Any] = {}
    try:
        while any(left):
            running = {place: process for place, process in running.items() if process.exitcode != 0}
            while waiting and len(running) < (os.cpu_count() or 1):
                lane = waiting.pop()
                place = len(waiting)
                process = context.Process(target=_work, args=(place, lane.work, lane.jobs, said, os.getpid()))
                running[place] = process
                process.start()
            try:
                place, result = said.get(timeout=LOOK_S)
            except Empty:
                for place, process in running.items():
                    if process.exitcode:
                        raise RunFailed(f"the process of {left[place][0]} died") from None
            else:
                left[place].pop(0)
                done(result)
    finally:
        for process in running.values():
            process.terminate()
            process.join()


def _work(
    place: int, work: Callable[[Sequence[Any]], Iterator[Any]], jobs: Sequence[Any], said: Any, parent: int
) -> None:
    """Run one lane's jobs in a child process and send each result to the parent, for as long as that lives."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for result in work(jobs):
        said.put((place, result))
        if os.getppid() != parent:
            return


def _experiments(jobs: Sequence[PlannedExperiment]) -> Iterator[tuple[int, ExperimentResult]]:
    """Yield the number and the result of each experiment of a paper."""
    played: dict[Any, Any] = {}
    for job in jobs:
        yield job.number, run(job, played)
