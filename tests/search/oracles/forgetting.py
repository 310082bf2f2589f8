"""Checks that policies and the core keep nothing of ended jobs, so that memory does not grow with a run."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Any

from schedbed.scheduler.core.core_tables import CoreTables
from schedbed.scheduler.core.entities import Job
from tests.search.violation import hold


def kept_jobs(policy: Any) -> set[str]:
    """Return the ids of the jobs that a policy still refers to, found by following its attributes."""
    found: set[str] = set()
    seen: set[int] = set()
    waiting: deque[Any] = deque([policy])
    while waiting:
        item = waiting.popleft()
        if isinstance(item, str):
            if item.startswith("job_"):
                found.add(item[:8])
        elif isinstance(item, Job):
            found.add(item.job)
        elif id(item) not in seen and not isinstance(item, CoreTables | type):
            seen.add(id(item))
            waiting.extend(_parts(item))
    return found


def _parts(item: Any) -> Iterable[Any]:
    if isinstance(item, dict):
        return [*item.keys(), *item.values()]
    if isinstance(item, list | tuple | set | frozenset | deque):
        return list(item)
    if not type(item).__module__.startswith("schedbed."):
        return []
    names = [name for kind in type(item).__mro__ for name in getattr(kind, "__slots__", ())]
    return (
        [*vars(item).values(), *names]
        if hasattr(item, "__dict__")
        else [getattr(item, name, None) for name in names]
    )


def check_ended(ledger: Any) -> None:
    """Check that ended jobs keep only data for status displays, and attempts that are still being killed."""
    for job in ledger.ended.values():
        kept = job.maps.tasks, job.reduces.tasks, job.outputs, job.blocks, job.wholes, job.spec.splits
        hold(not any(kept), "an ended job is small", f"{job.job}: {kept}")
        hold(
            all(attempt.state == "killing" for attempt in job.attempts.values()),
            "an ended job is small",
            job.job,
        )
        hold(not job.maps.unstarted and not job.reduces.unstarted, "an ended job is small", job.job)
        indices = (job.maps.index.first(), job.reduces.index.first(), job.any_map(), job.local_map("n0"))
        hold(not any(indices), "an ended job is small", f"{job.job}: {indices}")
