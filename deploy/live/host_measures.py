"""How the driver measures other hosts before a run: questions to actors there, carried by whoever calls."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from schedbed.cluster.clock import RunClock
from schedbed.cluster.core_trial import CoreTrial, relative_speeds
from schedbed.cluster.host_clock import ROUND_TRIPS, ClockReading, Exchange, least_round_trip


def clock_ahead(ask: Callable[[], float], times: int = ROUND_TRIPS) -> ClockReading:
    """Return how far the clock that `ask` reads is ahead of this host's, at a time of this host's clock."""
    exchanges: list[Exchange] = []
    for _ in range(times):
        asked_s = RunClock.host_time_s()
        said_s = ask()
        exchanges.append((asked_s, said_s, RunClock.host_time_s()))
    own = least_round_trip(exchanges)
    return ClockReading(at_s=own.at_s, offset_s=-own.offset_s, bound_s=own.bound_s)


def core_speeds(own: str | None, others: Mapping[str, Callable[[], float]]) -> dict[str, float]:
    """Return how fast the cores of hosts are, where 1 is the slowest host; `own` is this host's name if it counts.

    One host after the other is measured: hosts that share a machine would slow each other down.
    """
    if len(others) + (own is not None) < 2:
        return dict.fromkeys([*([own] if own is not None else []), *others], 1.0)
    trial_s = {} if own is None else {own: CoreTrial().least_s()}
    for name, ask in others.items():
        trial_s[name] = ask()
    return relative_speeds(trial_s)
