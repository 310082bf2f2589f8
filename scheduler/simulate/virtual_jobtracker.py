"""The simulated JobTracker: the `Driver` of live runs, which a fault may stop and restart."""

from __future__ import annotations

from schedbed.scheduler.core.records import Effect, NoSink, Sink
from schedbed.scheduler.core.rows import AttemptRow, DecisionRow, JobRow
from schedbed.scheduler.core.settings import CoreConfig
from schedbed.scheduler.driver import Driver
from schedbed.scheduler.event_log import EventList
from schedbed.scheduler.policy import Policy
from schedbed.scheduler.simulate.setup import Rows, Setup


class Gate:
    """A sink that passes rows on to `target`.

    During the replay of a journal, whose rows are already written, `Master` replaces the target by a sink
    that drops all rows.
    """

    def __init__(self, target: Sink) -> None:
        self.target: Sink = target

    def decision(self, row: DecisionRow) -> None:
        """Pass on the row of a decision, which is the policy's answer to the offer of a free slot."""
        self.target.decision(row)

    def attempt(self, row: AttemptRow) -> None:
        """Pass on the row of an attempt that ended."""
        self.target.attempt(row)

    def job(self, row: JobRow) -> None:
        """Pass on the row of a job that ended."""
        self.target.job(row)


class Master(Driver):
    """The JobTracker of a simulation. It keeps a journal only if one of the faults crashes the JobTracker.

    While `is_up` is false, the JobTracker is down and its methods must not be called.
    """

    def __init__(self, setup: Setup, policy: Policy, rows: Rows) -> None:
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
            policy=policy,
        )

    def crash(self) -> None:
        """Stop the JobTracker. A later `recover` restores only the state that is in the journal."""
        self.is_up = False

    def recover(self, now_s: float) -> list[Effect]:
        """Implement `Driver.recover`: restore the state from the journal, and return the effects that may be
        unfinished.

        Rows produced by the replay are dropped, since they are in the tables already.
        """
        self._gate.target = NoSink()
        effects = super().recover(now_s)
        self._gate.target = self._rows
        self.is_up = True
        return effects
