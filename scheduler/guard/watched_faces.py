"""Proxies that detect reads of values from heartbeats, for simulations that skip heartbeats.

A simulation skips heartbeats that report no change. The values are the number of heartbeats, the usage of a
node, and the node's report on a running attempt: its progress, phase, start time, and whether it runs
already. All other values change only by simulated events.
"""

from __future__ import annotations

from typing import Any

from schedbed.cluster.messages import Usage
from schedbed.scheduler.core.entities import Attempt, Node
from schedbed.scheduler.core.ledger import Ledger
from schedbed.scheduler.core.states import ASSIGNED, COMMITTING, FAILED, RUNNING, SUCCEEDED
from schedbed.scheduler.guard.faces import AttemptFace, Faces, NodeFace, ViewFace
from schedbed.scheduler.guard.guarded_calls import BeatWatch
from schedbed.scheduler.guard.read_only import Face, faces_of, raw_of
from schedbed.scheduler.sizes import Sizes


class WatchedFaces(Faces):
    """The read-only proxies of one run. Reads of values from heartbeats are reported to a `BeatWatch`."""

    def __init__(self, watch: BeatWatch, sizes: Sizes, seed: int) -> None:
        super().__init__(sizes, seed)
        self.watch = watch

    def __missing__(self, raw: Any) -> Any:
        watched = _WATCHED.get(type(raw))
        if watched is None:
            return super().__missing__(raw)
        face = self[raw] = watched(self, raw)
        return face


def _note(face: Face) -> Any:
    """Report that the policy reads a value from heartbeats, which raises BeatRead."""
    faces_of(face).watch.note()


class _WatchedAttemptFace(AttemptFace):
    """The proxy of an attempt. Reads of progress and phase, and of some states and start times, are reported.

    The end of an attempt is a simulated event, and a report of the end contains the start time.
    """

    __slots__ = ()
    progress = property(_note)
    phase = property(_note)

    @property
    def state(self) -> str:
        """Implement `AttemptView.state`. A read before the end is reported to the `BeatWatch`."""
        state = raw_of(self).state
        if state is ASSIGNED or state is RUNNING:
            _note(self)
        return state

    @property
    def started_s(self) -> float | None:
        """Implement `AttemptView.started_s`. A read before a reported end is reported to the `BeatWatch`."""
        raw: Attempt = raw_of(self)
        if raw.state not in (SUCCEEDED, FAILED, COMMITTING):
            _note(self)
        return raw.started_s


class _WatchedNodeFace(NodeFace):
    """The proxy of a node. Reads of its usage are reported to the watch."""

    __slots__ = ()

    @property
    def usage(self) -> Usage:
        """Implement `NodeView.usage`. Each read is reported to the `BeatWatch`, which raises BeatRead."""
        return _note(self)


class _WatchedViewFace(ViewFace):
    """The proxy of the view. Reads of the number of heartbeats are reported to the watch."""

    __slots__ = ()
    beats = property(_note)


_WATCHED = {Attempt: _WatchedAttemptFace, Node: _WatchedNodeFace, Ledger: _WatchedViewFace}
