"""Reference for the task queries of a job (`local_map`, `any_reduce`, ...): a search over all tasks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

from schedbed.scheduler.core.entities import Job
from tests.search.violation import Violation

CHECK = "a job tells what could start"
EVERY = 3  # One of three queries is checked, to save time.


@contextmanager
def watched_lookups(*, in_turn: bool = True) -> Iterator[None]:
    """Compare the answers of jobs with a search over their tasks, while the context lasts.

    With `in_turn` the order of tasks is checked as well; racks that become known later change that order.
    """
    look_into, whole_map, any_reduce = Job._look_into, Job.whole_map, Job.any_reduce
    asked = [0]

    def checked(job: Any, inner: Callable[..., Any], fits: Callable[..., bool], stage: str = "maps") -> Any:
        def ask(*where: str) -> Any:
            answer = inner(*where)
            asked[0] += 1
            if asked[0] % EVERY == 0:
                _check(job, getattr(job, stage).tasks, answer, lambda task: fits(task, *where), in_turn)
            return answer

        return ask

    def look(job: Any, index: Any) -> None:
        look_into(job, index)
        job.local_map = checked(job, job.local_map, lambda task, node: node in task.hosts)
        job.rack_map = checked(job, job.rack_map, lambda task, rack: rack in task.racks)
        job.free_map = checked(job, job.free_map, lambda task: not task.hosts)
        job.any_map = checked(job, job.any_map, lambda task: True)

    def whole(job: Any, rack: str) -> Any:
        answer = whole_map(job, rack)
        tasks = [task for task in job.maps.tasks if _is_whole(task)] if job.reduces.total else []
        near = [task for task in tasks if rack in task.racks]
        _check(job, near or tasks, answer, lambda task: True, in_turn)
        return answer

    def reduce(job: Any) -> Any:
        answer = any_reduce(job)
        _check(job, job.reduces.tasks if job.reduces.open else [], answer, lambda task: True, in_turn)
        return answer

    with (
        patch.object(Job, "_look_into", look),
        patch.object(Job, "whole_map", whole),
        patch.object(Job, "any_reduce", reduce),
    ):
        yield


def _is_whole(task: Any) -> bool:
    return bool(task.hosts) and task.part is None and task.tries == 0


def _check(job: Any, tasks: Any, answer: Any, fits: Callable[[Any], bool], turns: bool) -> None:
    """Check that a job's answer is an unstarted task that fits.

    With `turns` it must be a task that ran before, or else the first of the others. Tasks whose input has
    moved may come in any order.
    """
    there = [task for task in tasks if task.state == "unstarted" and fits(task)]
    if answer is None and not there:
        return
    fresh = next((task for task in there if not task.tries and task.part is None), None)
    good = any(task is answer for task in there)
    in_turn = (
        not turns
        or answer is fresh
        or job.blocks is not None
        or (answer is not None and bool(answer.tries or answer.part))
    )
    if not good or not in_turn:
        seen = f"{answer and answer.task} of {[task.task for task in there]}"
        raise Violation(CHECK, seen)
