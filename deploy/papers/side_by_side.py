"""Concurrent execution of papers, one process each, since a simulation needs one core, not the whole host."""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Callable, Sequence
from queue import Empty
from typing import Any

from schedbed.deploy.failures import RunFailed
from schedbed.deploy.papers.experiment_result import ExperimentResult, PlannedExperiment
from schedbed.deploy.papers.run_experiment import run

LOOK_S = 1.0  # between two looks at whether a process has died


def play(
    jobs: Sequence[PlannedExperiment], done: Callable[[PlannedExperiment, ExperimentResult], None]
) -> None:
    """Run the experiments, those of a paper one after the other, and call `done` with each result in this process.

    Raises RunFailed if a process dies. No process is left behind.
    """
    papers: dict[str, list[PlannedExperiment]] = {}
    for job in jobs:
        papers.setdefault(job.entry.paper, []).append(job)
    waiting = sorted(papers.values(), key=lambda paper: sum(job.takes_s for job in paper))
    context = multiprocessing.get_context("spawn")
    said: Any = context.Queue()
    running: list[Any] = []
    left = {job.number: job for job in jobs}
    try:
        while left:
            running = [process for process in running if process.exitcode != 0]
            while waiting and len(running) < (os.cpu_count() or 1):
                paper = waiting.pop()
                process = context.Process(
                    target=_play_paper, name=paper[0].entry.paper, args=(paper, said, os.getpid())
                )
                running.append(process)
                process.start()
            try:
                number, result = said.get(timeout=LOOK_S)
            except Empty:
                for process in running:
                    if process.exitcode:
                        first = next(job for job in left.values() if job.entry.paper == process.name)
                        raise RunFailed(f"the process of {first.entry.label} died") from None
            else:
                done(left.pop(number), result)
    finally:
        for process in running:
            process.terminate()
            process.join()


def _play_paper(jobs: Sequence[PlannedExperiment], said: Any, parent: int) -> None:
    """Run one paper's experiments in a child process and send each result to the parent."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    played: dict[Any, Any] = {}
    for job in jobs:
        if os.getppid() != parent:
            return
        said.put((job.number, run(job, played)))
