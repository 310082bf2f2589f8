"""The simulated JobTracker: the driver of all JobTrackers, which a fault may stop and bring back."""

from __future__ import annotations

from schedbed.scheduler.core.records import Effect, NoSink, Sink
from schedbed.scheduler.core.rows import AttemptRow, DecisionRow, JobRow
from schedbed.scheduler.core.settings import CoreConfig
from schedbed.scheduler.driver import Driver
from schedbed.scheduler.event_log import EventList
from schedbed.scheduler.simulate.setup import Rows, Setup


class Gate:
    """A sink that passes rows on, or nothing while a journal is replayed: its rows were written before."""

    def __init__(self, target: Sink) -> None:
        self.target: Sink = target

    def decision(self, row: DecisionRow) -> None:
        """Pass on an answer to an offer."""
        self.target.decision(row)

    def attempt(self, row: AttemptRow) -> None:
        """Pass on an attempt that ended."""
        self.target.attempt(row)

    def job(self, row: JobRow) -> None:
        """Pass on a job that ended."""
        self.target.job(row)


class Master(Driver):
    """The JobTracker. A journal is kept when a fault will ask for one; while `is_up` is false nothing may be asked."""

    def __init__(self, setup: Setup, rows: Rows) -> None:
        self._rows = rows
        self._gate = Gate(rows)
        self.journals = any(fault.kind == "crash_jobtracker" for fault in setup.faults)
        self.is_up = True
        super().__init__(
            CoreConfig(
                heartbeat_s=setup.cluster.heartbeat_s,
                records_skips=setup.skip_rows,
                sizes=setup.sizes,
                maps_per_heartbeat=setup.framework.maps_per_heartbeat,
                reduces_per_heartbeat=setup.framework.reduces_per_heartbeat,
            ),
            setup.policy,
            self._gate if self.journals else rows,
            seed=setup.seed,
            journal=EventList(setup.snapshot_every) if self.journals else None,
        )

    def crash(self) -> None:
        """Stop, and lose all that the journal does not say."""
        self.is_up = False

    def recover(self, now_s: float) -> list[Effect]:
        """Implement `Driver`, but without rows: virtual time has one table, in which they are already."""
        self._gate.target = NoSink()
        effects = super().recover(now_s)
        self._gate.target = self._rows
        self.is_up = True
        return effects
