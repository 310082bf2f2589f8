"""The attempts that are slow by chance in a compiled simulation, in which each task has a single attempt."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice

import numpy as np

from schedbed.scheduler.simulate.compiled.arrays import Values
from schedbed.scheduler.simulate.compiled.placing.twisters import first_draws
from schedbed.tasks.chance import keys_of
from schedbed.tasks.specs import JobSpec, TaskKind, task_id

AT_ONCE = 1 << 16
"""The number of attempts whose random numbers are computed at a time."""


def slow_attempts(seed: int, jobs: Sequence[JobSpec], share: float) -> Values:
    """Return a boolean array that is true for the tasks whose attempt is slow, as `Plans` decides it.

    The tasks are the maps and then the reduces of each job. Each attempt is slow with the probability `share`.
    """
    count = sum(job.maps + job.reduces for job in jobs)
    made, attempts = np.zeros(count, bool), _attempts(jobs)
    for low in range(0, count, AT_ONCE):
        keys = keys_of(seed, ("straggler",), islice(attempts, AT_ONCE))
        made[low : low + AT_ONCE] = first_draws(keys, 1) < share
    return made


def _attempts(jobs: Sequence[JobSpec]) -> Iterator[str]:
    for job in jobs:
        for kind, tasks in ((TaskKind.MAP, job.maps), (TaskKind.REDUCE, job.reduces)):
            yield from (f"{task_id(job.job, kind, index)}_0" for index in range(tasks))
