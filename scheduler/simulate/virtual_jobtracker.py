"""The simulated JobTracker: the core with what the live one keeps around it, so that it can crash and come back."""

from __future__ import annotations

from typing import Any

from schedbed.cluster.messages import Heartbeat, Reply
from schedbed.scheduler.core.books import Books
from schedbed.scheduler.core.core import Core, CoreConfig
from schedbed.scheduler.core.records import AttemptRow, DecisionRow, Effect, JobRow, NoSink, Sink
from schedbed.scheduler.policy import Policy
from schedbed.scheduler.simulate.setup import Rows, Setup

Event = tuple[float, str, tuple[Any, ...]]


class Gate:
    """A sink that passes rows on, or nothing while a journal is replayed: its rows were written before."""

    def __init__(self, target: Sink) -> None:
        self.target: Sink = target

    def decision(self, row: DecisionRow) -> None:
        """As in `Sink`."""
        self.target.decision(row)

    def attempt(self, row: AttemptRow) -> None:
        """As in `Sink`."""
        self.target.attempt(row)

    def job(self, row: JobRow) -> None:
        """As in `Sink`."""
        self.target.job(row)


class Master:
    """The JobTracker. It keeps a journal when a fault will ask for it; `core` must not be asked while it is down."""

    def __init__(self, setup: Setup, rows: Rows) -> None:
        self._setup = setup
        self._rows = rows
        crashes = any(fault.kind == "crash_jobtracker" for fault in setup.faults)
        self._journal: list[Event] | None = [] if crashes else None
        self._gate = Gate(rows)
        self.journals = crashes
        self.policy: Policy
        self.core = self._new_core(self._gate if crashes else rows)
        self.is_up = True

    def _new_core(self, sink: Sink) -> Core:
        setup = self._setup
        config = CoreConfig(heartbeat_s=setup.cluster.heartbeat_s, records_skips=setup.skip_rows)
        self.policy = setup.policy()
        return Core(config, self.policy, sink, seed=setup.seed)

    @property
    def books(self) -> Books:
        """The present core's books, to look at."""
        return self.core.ledger

    def do(self, now_s: float, kind: str, *arguments: Any) -> Any:
        """Applies an event to the core, after it is in the journal."""
        if self._journal is not None:
            self._journal.append((now_s, kind, arguments))
        return getattr(self.core, kind)(now_s, *arguments)

    def heartbeat(self, now_s: float, beat: Heartbeat) -> Reply:
        """As `do`, for the event that is most of all."""
        if self._journal is not None:
            self._journal.append((now_s, "heartbeat", (beat,)))
        return self.core.heartbeat(now_s, beat)

    def crash(self) -> None:
        """It is gone, with all that the journal does not say."""
        self.is_up = False

    def recover(self) -> list[Effect]:
        """Replays the journal; the effects that may not have been done yet."""
        assert self._journal is not None
        self._gate.target = NoSink()
        self.core = self._new_core(self._gate)
        effects: dict[str, Effect] = {}
        for now_s, kind, arguments in self._journal:
            getattr(self.core, kind)(now_s, *arguments)
            if kind == "committed":
                effects.pop(arguments[0], None)
            for effect in self.core.take_effects():
                effects[getattr(effect, "attempt", repr(effect))] = effect
        self._gate.target = self._rows
        self.is_up = True
        return list(effects.values())
