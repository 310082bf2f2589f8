"""Measurements of other hosts before a run, by questions to actors there."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from schedbed.cluster.clock import RunClock
from schedbed.cluster.core_trial import CoreTrial, relative_speeds
from schedbed.cluster.host_clock import ROUND_TRIPS, ClockReading, Exchange, least_round_trip

PASSES = 4


def clock_ahead(ask: Callable[[], float], times: int = ROUND_TRIPS) -> ClockReading:
    """Return the lead of the clock that `ask` reads over this host's, at a time of this host's clock."""
    exchanges: list[Exchange] = []
    for _ in range(times):
        asked_s = RunClock.host_time_s()
        said_s = ask()
        exchanges.append((asked_s, said_s, RunClock.host_time_s()))
    own = least_round_trip(exchanges)
    return ClockReading(at_s=own.at_s, offset_s=-own.offset_s, bound_s=own.bound_s)


def core_speeds(own: str | None, others: Mapping[str, Callable[[], float]]) -> dict[str, float]:
    """Return the speed of each host's cores, where 1 is the slowest host. `own` is this host's name if it counts.

    Hosts are measured one after the other, since hosts on the same machine would slow each other down, and `PASSES`
    times, since a slow moment of one would make the others seem fast. The least time of each host counts.
    """
    asked = dict(others) if own is None else {own: lambda: CoreTrial().least_s(), **others}
    if len(asked) < 2:
        return dict.fromkeys(asked, 1.0)
    passes = [{name: ask() for name, ask in asked.items()} for _ in range(PASSES)]
    return relative_speeds({name: min(each[name] for each in passes) for name in asked})
