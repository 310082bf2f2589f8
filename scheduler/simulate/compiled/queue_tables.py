"""The queues of the Capacity scheduler as arrays for the compiled loop, and the texts of their decisions."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from schedbed.scheduler.order.capacity import QUEUE_FULL, USER_FULL, Capacity
from schedbed.scheduler.order.queues import Queue
from schedbed.scheduler.policy import Policy
from schedbed.scheduler.simulate.compiled import entity_records as plain
from schedbed.scheduler.simulate.compiled import state as names
from schedbed.scheduler.simulate.compiled.arrays import Table, Values, records
from schedbed.scheduler.simulate.compiled.covers import compiled_axis
from schedbed.scheduler.simulate.compiled.state import State
from schedbed.scheduler.simulate.row_frames import Text
from schedbed.tasks.specs import JobSpec


def queues_of(policy: Policy) -> Capacity | None:
    """Return the policy's order if it is that of the Capacity scheduler in its compiled version, else None."""
    return compiled_axis(policy, "capacity")


def queue_tables(
    policy: Policy, jobs: Sequence[JobSpec], table: Table[plain.JobEntry]
) -> tuple[Table[plain.QueueEntry], Table[plain.MemberEntry]]:
    """Return the table of queues, sorted by name, and the table of their users.

    Sets the column `member` of `table`, the table of jobs. Both tables are empty without queues.
    """
    order = queues_of(policy)
    if order is None:
        return records(0, plain.QueueEntry), records(0, plain.MemberEntry)
    queues = _sorted_queues(order, jobs)
    entries = records(len(queues), plain.QueueEntry)
    for entry, queue in zip(entries, queues, strict=False):
        entry.share, entry.max_share, entry.named = queue.share, queue.max_share, queue.named
        entry.user_percent, entry.user_factor = queue.user_percent, queue.user_factor
    members: dict[tuple[str, str], int] = {}
    table["member"][: len(jobs)] = [members.setdefault((job.queue, job.user), len(members)) for job in jobs]
    return entries, records(len(members), plain.MemberEntry)


def _sorted_queues(order: Capacity, jobs: Sequence[JobSpec]) -> list[Queue]:
    """Return an empty queue for each queue of the jobs, by name."""
    return [order.new_queue(name) for name in sorted({job.queue for job in jobs})]


class QueueTexts:
    """The reasons of decisions under the Capacity scheduler, which contain the slots that queues hold."""

    def __init__(self, order: Capacity, state: State, jobs: Sequence[JobSpec]) -> None:
        self._order = order
        self._queues = _sorted_queues(order, jobs)
        self._totals = [int(total) for total in state.num.slots]
        self._users = sorted({job.user for job in jobs})
        place = {user: number for number, user in enumerate(self._users)}
        self._user_of = np.array([place[job.user] for job in jobs] or [0])
        self._pool_of = state.jobs["pool"].astype(np.int64)

    def with_queues(self, rows: Values, known: Text) -> Text:
        """Return the reasons of the decisions in `rows`, given their parts that do not depend on the queues."""
        import pandas as pd

        reason = rows["reason"]
        is_wait = (reason == names.WAITS_LOCAL) | (reason == names.WAITS_RACK)
        who = 2 * self._pool_of[rows["job"]] + rows["kind"]
        who = np.where(reason == names.USER_FULL, self._user_of[rows["job"]], who)
        codes = known.codes.astype(np.int64)
        for values in (who, rows["held"], rows["unnamed"]):
            values = np.where(is_wait, 0, values.astype(np.int64))
            codes = pd.factorize(codes * (values.max(initial=0) + 1) + values)[0]
        first = np.zeros(codes.max(initial=-1) + 1, np.int64)
        first[codes[::-1]] = np.arange(len(codes))[::-1]
        return Text(
            codes, [self._text(rows[place], known.texts[known.codes[place]]) for place in first.tolist()]
        )

    def _text(self, row: plain.DecisionEntry, known: str) -> str:
        if row.reason in (names.WAITS_LOCAL, names.WAITS_RACK):
            return known
        if row.reason == names.USER_FULL:
            return f"{self._users[self._user_of[row.job]]}{USER_FULL}{row.held:.3g}"
        queue = self._queues[self._pool_of[row.job]]
        state = self._order.describe(queue, int(row.held), self._totals[row.kind], int(row.unnamed))
        return QUEUE_FULL + state if row.reason == names.QUEUE_FULL else f"{known}; {state}"


def queue_texts(policy: Policy, state: State, jobs: Sequence[JobSpec]) -> QueueTexts | None:
    """Return the texts of the policy's decisions about queues, or None for a policy without queues."""
    order = queues_of(policy)
    return None if order is None else QueueTexts(order, state, jobs)
