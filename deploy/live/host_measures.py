"""Measurements of other hosts before a run: their clocks and the speed of their cores."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from schedbed.cluster.clock import RunClock
from schedbed.cluster.core_trial import CoreTrial, relative_speeds
from schedbed.cluster.host_clock import ROUND_TRIPS, ClockReading, Exchange, least_round_trip

PASSES = 4


def clock_ahead(ask: Callable[[], float], times: int = ROUND_TRIPS) -> ClockReading:
    """Return the offset of the clock that `ask` reads: its seconds ahead of this host's clock,
    with a bound of the error.
    """
    exchanges: list[Exchange] = []
    for _ in range(times):
        asked_s = RunClock.host_time_s()
        said_s = ask()
        exchanges.append((asked_s, said_s, RunClock.host_time_s()))
    own = least_round_trip(exchanges)
    return ClockReading(at_s=own.at_s, offset_s=-own.offset_s, bound_s=own.bound_s)


def core_speeds(own: str | None, others: Mapping[str, Callable[[], float]]) -> dict[str, float]:
    """Return the relative speed of each host's cores; the slowest host has 1.

    `own` is this host's name if it runs nodes. `others` are functions that return the CPU seconds of a fixed
    computation on another host. Hosts are measured one after the other, since hosts on the same machine would
    slow each other down. Each host is measured `PASSES` times and its least time counts, since one slow
    moment would make the others seem fast.
    """
    asked = dict(others) if own is None else {own: lambda: CoreTrial().least_s(), **others}
    if len(asked) < 2:
        return dict.fromkeys(asked, 1.0)
    passes = [{name: ask() for name, ask in asked.items()} for _ in range(PASSES)]
    return relative_speeds({name: min(each[name] for each in passes) for name in asked})
