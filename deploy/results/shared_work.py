"""Work on the results of a large run, shared between the host's cores."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from schedbed.deploy.results.runfile import RunFile
from schedbed.deploy.side_by_side import SideWork, all_cores, side_by_side
from schedbed.deploy.worker_fork import RESULT, Send

LARGE_ROWS = 500_000
"""The least number of table rows for which processes are started."""
LARGE_BYTES = 16 << 20
"""The same for part files that are not merged yet: the least size of all of them."""


def cores_for(run: RunFile, parts_bytes: int = 0) -> int:
    """Return how many processes make a finished run's results: 1, or all cores if it is large.

    `parts_bytes` is the size of unmerged part files. A live run always has 1, since a process with threads
    must not fork.
    """
    rows = sum(table.rows for table in run.tables.values())
    is_large = rows >= LARGE_ROWS or parts_bytes >= LARGE_BYTES
    return all_cores() if run.machines == "sim" and is_large else 1


def share(works: Sequence[Callable[[], Any]], at_once: int) -> list[Any]:
    """Return the results of all work, in order, `at_once` done at a time in forked processes.

    Results must be JSON values. Work whose process fails is done again here, which then raises its error.
    """
    if at_once < 2 or len(works) < 2:
        return [work() for work in works]
    ends = side_by_side([SideWork(do=partial(_do, work)) for work in works], at_once)
    return [end.value if end.kind == RESULT else work() for work, end in zip(works, ends, strict=True)]


def _do(work: Callable[[], Any], send: Send) -> Any:
    return work()
