"""Faces for a simulation that skips heartbeats without news: they note the reads of what only heartbeats bring.

These values are the number of heartbeats, the usage of a node, and what a node says of a running attempt: its
progress, its phase, its start, and whether it runs already. All else changes only by events that are simulated.
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
    """The faces of one run that report to a watch."""

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
    """Note that the policy reads the value."""
    faces_of(face).watch.note()


class _WatchedAttemptFace(AttemptFace):
    """The face of an attempt. Its end is an event; a report of the end brings the time of its start."""

    __slots__ = ()
    progress = property(_note)
    phase = property(_note)

    @property
    def state(self) -> str:
        """Implement `AttemptView`."""
        state = raw_of(self).state
        if state is ASSIGNED or state is RUNNING:
            _note(self)
        return state

    @property
    def started_s(self) -> float | None:
        """Implement `AttemptView`."""
        raw: Attempt = raw_of(self)
        if raw.state not in (SUCCEEDED, FAILED, COMMITTING):
            _note(self)
        return raw.started_s


class _WatchedNodeFace(NodeFace):
    """The face of a node."""

    __slots__ = ()

    @property
    def usage(self) -> Usage:
        """Implement `NodeView`."""
        return _note(self)


class _WatchedViewFace(ViewFace):
    """The face of the view."""

    __slots__ = ()
    beats = property(_note)


_WATCHED = {Attempt: _WatchedAttemptFace, Node: _WatchedNodeFace, Ledger: _WatchedViewFace}
