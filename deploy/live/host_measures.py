"""Measurements of other hosts before a run: the difference of their clocks and the speed of their cores."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from schedbed.cluster.clock import RunClock
from schedbed.cluster.core_trial import CoreTrial, relative_speeds
from schedbed.cluster.host_clock import ROUND_TRIPS, ClockReading, Exchange, least_round_trip

PASSES = 4


def clock_ahead(ask: Callable[[], float], times: int = ROUND_TRIPS) -> ClockReading:
    """Return by how many seconds another host's clock is ahead of this host's clock, and the largest error.

    `ask` returns the time of the other clock. It is called `times` times.
    """
    exchanges: list[Exchange] = []
    for _ in range(times):
        asked_s = RunClock.host_time_s()
        said_s = ask()
        exchanges.append((asked_s, said_s, RunClock.host_time_s()))
    own = least_round_trip(exchanges)
    return ClockReading(at_s=own.at_s, offset_s=-own.offset_s, bound_s=own.bound_s)


def core_speeds(own: str | None, others: Mapping[str, Callable[[], float]]) -> dict[str, float]:
    """Return a dictionary from host name to the speed of the host's cores, relative to the slowest host.

    `own` is this host's name, or None if no nodes run here. `others` maps the name of each other host to a
    function. The function runs a fixed computation on that host and returns the CPU seconds it took. Hosts
    are measured one after the other, since several of them may be on the same machine. Each host is measured
    `PASSES` times and the shortest time is used, since a host that is busy for a moment would seem slow.
    """
    asked = dict(others) if own is None else {own: lambda: CoreTrial().least_s(), **others}
    if len(asked) < 2:
        return dict.fromkeys(asked, 1.0)
    passes = [{name: ask() for name, ask in asked.items()} for _ in range(PASSES)]
    return relative_speeds({name: min(each[name] for each in passes) for name in asked})
