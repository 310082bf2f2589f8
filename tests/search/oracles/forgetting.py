"""What a policy keeps of jobs that have ended: nothing, else a long run would need ever more memory."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Any

from schedbed.scheduler.core.books import Books
from schedbed.scheduler.core.entities import Job


def kept_jobs(policy: Any) -> set[str]:
    """Return the ids of jobs that can be reached from a policy by its attributes and what these hold."""
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
        elif id(item) not in seen and not isinstance(item, Books | type):
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
