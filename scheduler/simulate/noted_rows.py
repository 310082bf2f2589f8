"""Receivers of rows for a simulation that may have to start again from the beginning, which happens if the
policy reads a value that a skipped heartbeat would have changed.

Rows that were written in the first try are not written again.
"""

from __future__ import annotations

from typing import Any

from schedbed.scheduler.core.rows import AttemptRow, DecisionRow, JobRow
from schedbed.scheduler.policy import PolicyError
from schedbed.scheduler.simulate.row_frames import Column, as_rows, count_of, last_of, put_columns
from schedbed.scheduler.simulate.setup import Rows


class NotedRows:
    """A receiver that passes rows on to `target`, and remembers which rows it has passed on.

    It stores the number of rows and the last row of each table, and the time of each node's last heartbeat
    row. `RestOfRows` needs these values if the simulation starts again. With `takes_columns`, it also passes on
    rows as columns.
    """

    def __init__(self, target: Rows) -> None:
        self.target = target
        self.takes_columns = False
        self.counts: dict[str, int] = dict.fromkeys(("decision", "attempt", "job", "block", "fault"), 0)
        self.last: dict[str, tuple[object, ...]] = {}
        self.heartbeats_s: dict[object, object] = {}

    def _note(self, table: str, row: tuple[object, ...]) -> None:
        self.counts[table] += 1
        self.last[table] = row

    def decision(self, row: DecisionRow) -> None:
        """Implement `Sink.decision`: count the row and pass it on."""
        self._note("decision", row)
        self.target.decision(row)

    def attempt(self, row: AttemptRow) -> None:
        """Implement `Sink.attempt`: count the row and pass it on."""
        self._note("attempt", row)
        self.target.attempt(row)

    def job(self, row: JobRow) -> None:
        """Implement `Sink.job`: count the row and pass it on."""
        self._note("job", row)
        self.target.job(row)

    def heartbeat(self, row: tuple[object, ...]) -> None:
        """Implement `Rows.heartbeat`: store the row's time as the node's last, and pass the row on."""
        self.heartbeats_s[row[1]] = row[0]
        self.target.heartbeat(row)

    def block(self, row: tuple[object, ...]) -> None:
        """Implement `Rows.block`: count the row and pass it on."""
        self._note("block", row)
        self.target.block(row)

    def fault(self, row: tuple[object, ...]) -> None:
        """Implement `Rows.fault`: count the row and pass it on."""
        self._note("fault", row)
        self.target.fault(row)

    def pass_columns(self, table: str, data: dict[str, Column]) -> None:
        """Count rows that are given as columns and pass them on. `table` is the table's name."""
        if table == "heartbeats":
            self.heartbeats_s.update(zip(data["node"], data["t"].tolist(), strict=True))
        elif count := count_of(data):
            self.counts[table[:-1]] += count
            [self.last[table[:-1]]] = as_rows(table, last_of(data))
        put_columns(self.target, table, data)


class RestOfRows:
    """A receiver for a simulation that has started again: drops the rows that `NotedRows` has already passed
    on.

    Raises PolicyError if the last dropped row of a table differs from the row that was passed on, since the
    policy has then answered differently the second time.
    """

    def __init__(self, noted: NotedRows) -> None:
        self._noted = noted
        target = noted.target
        self.decision = self._rest("decision", target.decision)
        self.attempt = self._rest("attempt", target.attempt)
        self.job = self._rest("job", target.job)
        self.block = self._rest("block", target.block)
        self.fault = self._rest("fault", target.fault)

    def _rest(self, table: str, target: Any) -> Any:
        left = self._noted.counts[table]
        last = self._noted.last.get(table)

        def take(row: tuple[object, ...]) -> None:
            nonlocal left
            if left == 0:
                target(row)
                return
            left -= 1
            if left == 0 and row != last:
                raise PolicyError(
                    f"the policy cannot be repeated: first {tuple(last or ())}, then {tuple(row)}"
                )

        return take

    def heartbeat(self, row: tuple[Any, ...]) -> None:
        """Implement `Rows.heartbeat`: pass the row on unless it was already passed on before the simulation
        started again."""
        if row[0] > self._noted.heartbeats_s.get(row[1], -1.0):  # type: ignore[operator]
            self._noted.target.heartbeat(row)
