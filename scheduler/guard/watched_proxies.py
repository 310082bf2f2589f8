"""Proxies that detect whether a policy reads values from heartbeats, for simulations that skip heartbeats.

A simulation skips heartbeats that report no change. They would only update the number of heartbeats, the
usage of a node, and the report on a running attempt: its progress, phase, start time, and whether it runs
already. All other values change only by simulated events.
"""

from __future__ import annotations

from typing import Any

from schedbed.cluster.messages import Usage
from schedbed.scheduler.core.entities import Attempt, Node
from schedbed.scheduler.core.ledger import Ledger
from schedbed.scheduler.core.states import ASSIGNED, COMMITTING, FAILED, RUNNING, SUCCEEDED
from schedbed.scheduler.guard.guarded_calls import HeartbeatWatch
from schedbed.scheduler.guard.proxies import AttemptProxy, NodeProxy, Proxies, ViewProxy
from schedbed.scheduler.guard.read_only import Proxy, proxies_of, raw_of
from schedbed.scheduler.sizes import Sizes


class WatchedProxies(Proxies):
    """The read-only proxies of one run. They notify `watch` when a policy reads a value from heartbeats."""

    def __init__(self, watch: HeartbeatWatch, sizes: Sizes, seed: int) -> None:
        super().__init__(sizes, seed)
        self.watch = watch

    def __missing__(self, raw: Any) -> Any:
        watched = _WATCHED.get(type(raw))
        if watched is None:
            return super().__missing__(raw)
        proxy = self[raw] = watched(self, raw)
        return proxy


def _note(proxy: Proxy) -> Any:
    """Record that the policy reads a value from heartbeats, and raise HeartbeatRead.

    After the end of the run, raise TypeError instead.
    """
    proxies_of(proxy).watch.note()


class _WatchedAttemptProxy(AttemptProxy):
    """The proxy of an attempt. A read of a value that may come from a heartbeat raises HeartbeatRead.

    These values are progress and phase, the state while the attempt runs, and the start time before the end.
    """

    __slots__ = ()
    progress = property(_note)
    phase = property(_note)

    @property
    def state(self) -> str:
        """Implement `AttemptView.state`. A read while the attempt is assigned or running raises HeartbeatRead."""
        state = raw_of(self).state
        if state is ASSIGNED or state is RUNNING:
            _note(self)
        return state

    @property
    def started_s(self) -> float | None:
        """Implement `AttemptView.started_s`. A read before the attempt's end was reported raises HeartbeatRead."""
        raw: Attempt = raw_of(self)
        if raw.state not in (SUCCEEDED, FAILED, COMMITTING):
            _note(self)
        return raw.started_s


class _WatchedNodeProxy(NodeProxy):
    """The proxy of a node. A read of the node's usage raises HeartbeatRead."""

    __slots__ = ()

    @property
    def usage(self) -> Usage:
        """Implement `NodeView.usage`. Each read raises HeartbeatRead, after a note to the `HeartbeatWatch`."""
        return _note(self)


class _WatchedViewProxy(ViewProxy):
    """The proxy of the view. A read of the number of heartbeats raises HeartbeatRead."""

    __slots__ = ()
    beats = property(_note)


_WATCHED = {Attempt: _WatchedAttemptProxy, Node: _WatchedNodeProxy, Ledger: _WatchedViewProxy}
