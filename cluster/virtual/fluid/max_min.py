"""Max-min fair rates of flows, such as transfers and computations, that share resources.

A flow's rate is as high as its cap and the capacities permit without lowering a smaller rate. A change
affects another flow only over a resource that the caps of its flows could exceed. Connected changes at one
time are computed together, for about the `REACH` nearest flows; others keep their rates until a change near
them. Capacities are never exceeded. `scheduler.simulate.compiled.contended.sharing` is a twin in compiled
code.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from operator import attrgetter
from typing import NamedTuple

from schedbed.cluster.virtual.agenda import Agenda, Item, Owner

REACH = 16
REPEATS_FROM = 6
"""The least number of resources of a flow that can pass one of them twice (a shared disk of two nodes)."""
_ROUNDING = 1 + 1e-9
_by_cap = attrgetter("cap")


# Max-min fairness, and how far a change reaches
#
# A transfer uses several resources at once: the source's disk and link, the target's link and disk. Its
# rate is the least of its shares of these. Sharing is max-min fair (progressive filling): raise the rates
# of all flows together; when a resource is full, its flows keep their rate; go on with the others. Nobody
# can get more without taking from somebody who has less. TCP flows and disk queues come close to it, and
# unlike packets it can be computed exactly.
#
# A change of one flow can reach every other flow through a chain of shared resources, and a cluster of
# thousands of nodes is one such chain. But a resource that could carry the caps of all its flows limits
# nobody, so that the chain ends there. Behind full resources the effect shrinks with each step. A
# computation therefore updates about `REACH` flows nearest to the change, and treats the others as fixed
# load: no capacity is exceeded, but a distant flow may keep a rate that is slightly too low or too high for
# its fair share until something changes near it. Results count how often this happened
# (`Solved.cut_short`), and runs with approximate rates say so.


class Resource:
    """A shared resource with `capacity` (units per second), and the `declared` one.

    With `seek`, `n` flows together get 1 / (1 + seek x (n - 1)) of it, a flow counting as often as it uses
    the resource.
    """

    __slots__ = (
        "_due",
        "_free",
        "_over",
        "_seen",
        "_solved",
        "_unfixed",
        "capacity",
        "declared",
        "demand",
        "extra",
        "flows",
        "moved",
        "seek",
    )

    def __init__(self, capacity: float, seek: float = 0.0) -> None:
        self.declared = self.capacity = capacity
        self.seek = seek
        self.flows: dict[Flow, None] = {}  # In order of start.
        self.extra = 0  # Number of passes beyond the first pass of each flow.
        self.demand = 0.0  # Sum of the flows' caps.
        self.moved = 0.0  # Units moved by flows that have ended.
        self._over = False  # True if the flows could exceed the capacity together.
        self._seen = self._solved = self._due = 0
        self._free = 0.0
        self._unfixed = 0

    def given(self) -> float:
        """Return the number of units per second that the resource can now move for all flows together."""
        if not self.seek or not self.flows:
            return self.capacity
        return self.capacity / (1 + self.seek * (len(self.flows) + self.extra - 1))

    def passes(self) -> Iterable[Flow]:
        """Return the flows that use the resource. A flow that uses it n times occurs n times."""
        if not self.extra:
            return self.flows
        return [flow for flow in self.flows for _ in range(1 + flow.repeated.count(self))]

    def moved_until(self, now_s: float) -> float:
        return self.moved + sum(flow.total - flow.left_at(now_s) for flow in self.passes())


class Flow(Item):
    """A flow of `total` units through all `resources` at once, at most `cap` per second. The end fires
    `owner`.

    `repeated` lists resources that it uses more than once, such as a disk with several replicas of a block.
    """

    __slots__ = (
        "_fair",
        "_seen",
        "at_s",
        "cap",
        "detail",
        "left",
        "nominal",
        "rate",
        "repeated",
        "resources",
        "total",
    )

    def __init__(
        self,
        owner: Owner,
        role: int,
        total: float,
        cap: float,
        resources: Sequence[Resource],
        detail: object = None,
    ) -> None:
        self.owner = owner
        self.role = role
        self.due_s = self.queued_s = math.inf
        self.total = self.left = total
        self.cap = self.nominal = cap
        self.resources = resources
        self.repeated = _repeated(resources) if len(resources) >= REPEATS_FROM else ()
        self.detail = detail
        self.rate = self.at_s = 0.0  # `left` is the amount at the time `at_s`.
        self._seen = 0
        self._fair = 0.0

    def left_at(self, now_s: float) -> float:
        return max(0.0, self.left - self.rate * (now_s - self.at_s))


class Solved(NamedTuple):
    """The computations of rates, and those `cut_short` because more than `REACH` flows were affected."""

    times: int = 0
    cut_short: int = 0


class Sharing:
    """The running flows and their rates. Changes at one time are collected, then processed by `settle`."""

    def __init__(self, agenda: Agenda, reach: int = REACH) -> None:
        self._agenda = agenda
        self._reach = reach
        self._dirty: list[Resource] = []
        self._stamp = 0
        self._solves = self._cut_short = 0

    @property
    def solved(self) -> Solved:
        return Solved(self._solves, self._cut_short)

    def start(self, flow: Flow) -> None:
        """Start a flow. If no resource limits the flow, its rate is its cap immediately."""
        cap, now_s, alone = flow.cap, self._agenda.now_s, True
        flow.at_s = now_s
        for resource in flow.resources:
            if flow.repeated and flow in resource.flows:
                resource.extra += 1
            resource.flows[flow] = None
            resource.demand = demand = resource.demand + cap
            if demand > resource.given() * _ROUNDING:
                resource._over = True
                self._dirty.append(resource)
                alone = False
        if alone and cap > 0:
            flow.rate = cap
            self._agenda.at(now_s + flow.left / cap, flow)

    def stop(self, flow: Flow) -> None:
        """Stop a flow, complete or not. Afterwards, `flow.left` is the number of units not moved."""
        now_s, cap = self._agenda.now_s, flow.cap
        left = flow.left - flow.rate * (now_s - flow.at_s)
        flow.left = left = left if left > 0.0 else 0.0
        flow.at_s, flow.rate, flow.due_s = now_s, 0.0, math.inf
        moved, again = flow.total - left, list(flow.repeated)
        for resource in flow.resources:
            flows = resource.flows
            if again and resource in again:
                again.remove(resource)
                resource.extra -= 1
            else:
                del flows[flow]
            resource.demand = demand = resource.demand - cap if flows else 0.0
            resource.moved += moved
            if resource._over:
                self._dirty.append(resource)
                resource._over = demand > resource.given() * _ROUNDING

    def resize(self, resource: Resource, capacity: float) -> None:
        """Change the capacity of a resource to `capacity` units per second."""
        resource.capacity = capacity
        resource._over = resource.demand > resource.given() * _ROUNDING
        self._dirty.append(resource)

    def recap(self, flow: Flow, cap: float) -> None:
        """Change the maximum rate of a flow to `cap` units per second."""
        for resource in flow.resources:
            resource.demand += cap - flow.cap
            resource._over = resource.demand > resource.given() * _ROUNDING
            self._dirty.append(resource)
        flow.cap = cap
        if not flow.resources:
            self._set(flow, cap)

    def advance(self, now_s: float) -> None:
        """Process events up to `now_s`, with rates computed after those of one time."""
        agenda = self._agenda
        while True:
            at_s = agenda.next_s()
            if self._dirty and at_s > agenda.now_s:
                self.settle()
            elif at_s > now_s:
                break
            else:
                item = agenda.pop()
                item.owner.fire(item)
        if now_s > agenda.now_s:
            agenda.now_s = now_s

    @property
    def settled(self) -> bool:
        """Return whether the rates of all flows are up to date."""
        return not self._dirty

    def settle(self) -> None:
        """Compute rates again after all changes at the current time."""
        dirty, self._dirty = self._dirty, []
        self._stamp += 1
        instant = self._stamp
        for resource in dirty:
            resource._due = instant
        for resource in dirty:
            if resource._solved < instant and (resource._over or not _is_settled(resource, instant)):
                self._solve(resource, instant)

    def _solve(self, start: Resource, instant: int) -> None:
        flows, links = self._collect(start, instant)
        if len(links) == 1 and not start.extra:
            _fill_one(start, flows)
        else:
            fill(flows, links, self._stamp)
        for flow in flows:
            fair, rate = flow._fair, flow.rate
            if not -1e-9 * fair <= fair - rate <= 1e-9 * fair:
                self._set(flow, fair)

    def _collect(self, start: Resource, instant: int) -> tuple[list[Flow], list[Resource]]:
        """Return the flows that a change at `start` affects, and what limits them. `instant` numbers the `settle`."""
        self._stamp = stamp = self._stamp + 1
        self._solves += 1
        flows: list[Flow] = []
        links = [start]
        start._seen = stamp
        reach = self._reach
        far: list[Resource] = []
        for link in links:
            if len(flows) >= reach and link._due < instant:
                far.append(link)
                continue
            link._solved = instant
            link._free, link._unfixed = link.given(), len(link.flows) + link.extra
            for flow in link.flows:
                if flow._seen != stamp:
                    flow._seen = stamp
                    flows.append(flow)
                    for other in flow.resources:
                        if other._over and other._seen != stamp:
                            other._seen = stamp
                            links.append(other)
        held = 0
        for link in far:
            outside = [flow.rate for flow in link.passes() if flow._seen != stamp]
            link._free = max(0.0, link.given() - sum(outside))
            link._unfixed = len(link.flows) + link.extra - len(outside)
            held += len(outside)
        if held:
            self._cut_short += 1
        return flows, links

    def _set(self, flow: Flow, rate: float) -> None:
        now_s, left = self._agenda.now_s, flow.left
        if flow.rate:
            left -= flow.rate * (now_s - flow.at_s)
            flow.left = left = left if left > 0.0 else 0.0
        flow.at_s, flow.rate = now_s, rate
        self._agenda.at(now_s + left / rate if rate > 0 else math.inf, flow)


def _repeated(resources: Sequence[Resource]) -> Sequence[Resource]:
    if len(set(resources)) == len(resources):
        return ()
    return [resource for place, resource in enumerate(resources) if resource in resources[:place]]


def _is_settled(resource: Resource, instant: int) -> bool:
    """Return whether all flows have their maximum rates, or got a rate in this `settle` (`instant`)."""
    return all(flow.rate == flow.cap or flow._seen > instant for flow in resource.flows)


def _fill_one(resource: Resource, flows: list[Flow]) -> None:
    """Share one resource equally. What flows with lower caps leave is divided among the others."""
    free, waiting = resource._free, len(flows)
    for flow in sorted(flows, key=_by_cap):
        flow._fair = fair = min(flow.cap, free / waiting)
        free -= fair
        waiting -= 1


def fill(flows: Iterable[Flow], links: Sequence[Resource], stamp: int) -> None:
    """Compute rates by progressive filling: all rise until the cap or an exhausted resource.

    Flows not marked with `stamp` keep their rates.
    """
    order = sorted(flows, key=_by_cap)
    for flow in order:
        flow._fair = -1.0
    open_links = list(links)
    at, count = 0, len(order)
    while True:
        level, tight = math.inf, None
        for link in open_links:
            waiting = link._unfixed
            if waiting and link._free < level * waiting:
                level, tight = link._free / waiting, link
        level = max(0.0, level)
        before = at
        while at < count and ((flow := order[at])._fair >= 0.0 or flow.cap <= level):
            at += 1
            if flow._fair < 0.0:
                flow._fair = cap = flow.cap
                for resource in flow.resources:
                    resource._free -= cap
                    resource._unfixed -= 1
        if at == count:
            return
        if at == before and tight is not None:
            for flow in tight.flows:
                if flow._seen == stamp and flow._fair < 0.0:
                    flow._fair = level
                    for resource in flow.resources:
                        resource._free -= level
                        resource._unfixed -= 1
            open_links.remove(tight)
