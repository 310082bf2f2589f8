"""Max-min fair rates, compared with a simple reference that computes all rates from scratch."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from schedbed.cluster.virtual.agenda import Agenda, Item
from schedbed.cluster.virtual.fluid.max_min import Flow, Resource, Sharing

EVERYWHERE = 1_000_000  # flows, so that all rates are exact


def test_a_disk_that_seeks_gives_less_to_many_and_all_to_one() -> None:
    agenda = Agenda()
    sharing = Sharing(agenda)
    disk = Resource(60.0, seek=0.25)
    one, other, third = (Flow(Nobody(), 0, 1000.0, cap, [disk]) for cap in (60.0, 60.0, 5.0))
    sharing.start(one)
    sharing.settle()
    assert one.rate == 60.0
    sharing.start(other)
    sharing.settle()
    assert one.rate == other.rate == 24.0  # 60 / 1.25, halved
    sharing.start(third)
    sharing.settle()
    assert third.rate == 5.0 and one.rate == other.rate == 17.5  # 60 / 1.5 = 40, less 5, halved
    sharing.stop(other)
    sharing.stop(third)
    sharing.settle()
    assert one.rate == 60.0


def test_streams_that_want_less_than_a_seeking_disk_has_left_keep_their_rates() -> None:
    sharing, disk = Sharing(Agenda()), Resource(60.0, seek=0.5)
    flows = [Flow(Nobody(), 0, 1000.0, 15.0, [disk]) for _ in range(4)]
    for flow in flows[:2]:
        sharing.start(flow)
    sharing.settle()
    assert [flow.rate for flow in flows[:2]] == [15.0, 15.0]  # 60 / 1.5 is enough for both
    for flow in flows[2:]:
        sharing.start(flow)
    sharing.settle()
    assert [flow.rate for flow in flows] == [6.0] * 4  # 60 / 2.5
    sharing.stop(flows[3])
    sharing.stop(flows[2])
    sharing.settle()
    assert [flow.rate for flow in flows[:2]] == [15.0, 15.0]


class Nobody:
    """An owner of flows whose end is never reached."""

    def fire(self, item: Item) -> None:
        raise AssertionError("nothing is due here")


def reference(
    caps: Sequence[float], ways: Sequence[Sequence[int]], capacities: Sequence[float]
) -> list[float]:
    """Return the rate of each flow by progressive filling, as the expected result.

    All rates rise together. A rate stops at the flow's cap or where a resource on the flow's way is used up.
    """
    rates = [0.0] * len(caps)
    rising = [number for number in range(len(caps)) if caps[number] > 0]
    while rising:
        steps = [caps[number] - rates[number] for number in rising]
        for resource, capacity in enumerate(capacities):
            here = [number for number in rising if resource in ways[number]]
            if here:
                used = sum(rates[number] for number in range(len(caps)) if resource in ways[number])
                steps.append((capacity - used) / len(here))
        step = max(0.0, min(steps))
        for number in rising:
            rates[number] += step
        used_up = [
            capacity - sum(rates[n] for n in range(len(caps)) if resource in ways[n])
            <= 1e-9 * max(1.0, capacity)
            for resource, capacity in enumerate(capacities)
        ]
        rising = [
            number
            for number in rising
            if rates[number] < caps[number] * (1 - 1e-12) and not any(used_up[each] for each in ways[number])
        ]
    return rates


def close(one: float, other: float) -> bool:
    return math.isclose(one, other, rel_tol=1e-6, abs_tol=1e-6)


amounts = st.sampled_from([1.0, 2.0, 3.0, 5.0, 7.5, 10.0, 40.0]) | st.floats(0.1, 100.0)
capacities = st.lists(amounts | st.just(0.0), min_size=1, max_size=6)


@st.composite
def histories(draw: st.DrawFn) -> tuple[list[float], list[tuple[Any, ...]]]:
    """Draw capacities of resources, and events: a flow starts or stops, a capacity or a cap changes."""
    room = draw(capacities)
    which = st.integers(0, len(room) - 1)
    start = st.tuples(st.just("start"), amounts, st.lists(which, max_size=4, unique=True))
    stop = st.tuples(st.just("stop"), st.integers(0, 30))
    resize = st.tuples(st.just("resize"), which, amounts | st.just(0.0))
    recap = st.tuples(st.just("recap"), st.integers(0, 30), amounts | st.just(0.0))
    return room, draw(st.lists(start | start | stop | resize | recap, max_size=30))


def run_events(room: list[float], events: list[tuple[Any, ...]], reach: int, batch: int) -> None:
    """Compare the rates with the reference after every `batch` events.

    With a small `reach`, only check that no capacity is exceeded.
    """
    agenda = Agenda()
    sharing = Sharing(agenda, reach)
    resources = [Resource(capacity) for capacity in room]
    flows: list[Flow] = []
    for number, event in enumerate(events, 1):
        match event:
            case ("start", cap, way):
                flows.append(Flow(Nobody(), 0, 1e12, cap, [resources[each] for each in way]))
                sharing.start(flows[-1])
            case ("stop", which) if flows:
                sharing.stop(flows.pop(which % len(flows)))
            case ("resize", which, capacity):
                sharing.resize(resources[which], capacity)
            case ("recap", which, cap) if flows:
                sharing.recap(flows[which % len(flows)], cap)
        if number % batch == 0:
            sharing.settle()
            check(flows, resources, exact=reach == EVERYWHERE)


def check(flows: list[Flow], resources: list[Resource], exact: bool) -> None:
    rates = [flow.rate for flow in flows]
    for resource in resources:
        assert sum(flow.rate for flow in resource.flows) <= resource.capacity * (1 + 1e-6) + 1e-9
    if exact:
        ways = [[resources.index(each) for each in flow.resources] for flow in flows]
        fair = reference([flow.cap for flow in flows], ways, [resource.capacity for resource in resources])
        assert all(map(close, rates, fair)), (rates, fair)
    else:
        assert all(rate <= flow.cap * (1 + 1e-9) for rate, flow in zip(rates, flows, strict=True))


@given(histories(), st.integers(1, 4))
def test_rates_are_those_of_progressive_filling(history: tuple[list[float], list[Any]], batch: int) -> None:
    run_events(*history, reach=EVERYWHERE, batch=batch)


@given(histories())
def test_a_short_reach_never_exceeds_a_capacity(history: tuple[list[float], list[Any]]) -> None:
    run_events(*history, reach=1, batch=1)


def test_the_textbook_case() -> None:
    """Flow a uses links of 10 and 4, b the first, c the second: a and c have 2 each, b has 10 - 2 = 8."""
    sharing = Sharing(Agenda())
    wide, narrow = Resource(10.0), Resource(4.0)
    a, b, c = (Flow(Nobody(), 0, 1e9, 100.0, way) for way in ([wide, narrow], [wide], [narrow]))
    for flow in (a, b, c):
        sharing.start(flow)
    sharing.settle()
    assert (a.rate, b.rate, c.rate) == (2.0, 8.0, 2.0)
    sharing.stop(c)
    sharing.settle()
    assert (a.rate, b.rate) == (4.0, 6.0)


def test_what_is_left_follows_the_rates() -> None:
    """Of 100 units, 4 s alone at rate 10 and 5 s shared at rate 5 leave 35, which are due 7 s later."""
    agenda = Agenda()
    sharing, link = Sharing(agenda), Resource(10.0)
    one, two = (Flow(Nobody(), 0, 100.0, 10.0, [link]) for _ in range(2))
    sharing.start(one)
    agenda.now_s = 4.0
    sharing.start(two)
    sharing.settle()
    agenda.now_s = 9.0
    assert (one.left_at(9.0), one.due_s, agenda.next_s()) == (35.0, 16.0, 16.0)
    assert link.moved_until(9.0) == 40.0 + 25.0 + 25.0
