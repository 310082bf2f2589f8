"""Random tests of computations that policies use.

They cover fair shares, percentiles, remaining times, sorted lists, user limits, replica placement and ticks.
"""

from __future__ import annotations

from math import ceil, inf
from types import SimpleNamespace
from typing import Any

from schedbed.cluster.blocks.live_nodes import CandidateNode, NodeIndex
from schedbed.cluster.blocks.placement import place_file, place_hdfs, surplus
from schedbed.scheduler.core.index import TaskIndex
from schedbed.scheduler.core.states import TaskState
from schedbed.scheduler.hooks import acts_on_ticks, drop
from schedbed.scheduler.models.time_left import percentile, time_left_s
from schedbed.scheduler.order.capacity import Held, over_max, user_limit
from schedbed.scheduler.order.preemption import Claim, fair_shares
from schedbed.scheduler.order.sorted_keys import SortedKeys
from schedbed.scheduler.policy import Composed
from schedbed.tasks.chance import chance
from tests.search.oracles.placement_rule import check_places
from tests.search.shares import pour
from tests.search.violation import hold

EPSILON = 1e-6


class SumsStory:
    """Draws arguments from a seed and compares each function's result with a second computation."""

    def __init__(self, seed: int, steps: int) -> None:
        self._luck, self._seed = chance(seed, "sums alone"), seed
        self._steps = steps
        self._sorted: SortedKeys[str] = SortedKeys()
        self._keys: dict[str, tuple[Any, ...]] = {}

    def run(self) -> None:
        """Run every check once per step. Raises Violation for a wrong result."""
        for step in range(self._steps):
            self._shares()
            self._percentiles()
            self._sort()
            self._limits()
            self._places(step)
            self._index()
            self._ticks()

    def _shares(self) -> None:
        luck = self._luck
        claims = [
            (luck.choice((0, 1, 3, 10)), luck.choice((0.5, 1.0, 2.0)), luck.choice((0, 0, 1, 4)))
            for _ in range(luck.randint(0, 5))
        ]
        slots = luck.choice((0, 1, 2, 5, 9, 40))
        found = fair_shares(slots, [Claim(*claim) for claim in claims])
        wanted = pour(slots, claims)
        near = len(found) == len(wanted) and all(
            abs(a - b) < EPSILON for a, b in zip(found, wanted, strict=True)
        )
        hold(near, "fair shares fill like water", f"{slots} for {claims}: {found} instead of {wanted}")

    def _percentiles(self) -> None:
        luck = self._luck
        values = sorted(round(luck.random(), 2) for _ in range(luck.randint(1, 7)))
        percent = luck.choice((0, 25, 50, 90, 100))
        found = percentile(values, percent)
        share = percent / 100
        below = sum(value < found - EPSILON for value in values)
        above = sum(value > found + EPSILON for value in values)
        rest = len(values) - 1
        fits = below <= ceil(rest * share + EPSILON) and above <= ceil(rest * (1 - share) + EPSILON)
        hold(fits, "a percentile has so many below", f"{percent} of {values}: {found}")
        for place, value in enumerate(values):
            if rest and abs(place / rest - share) < EPSILON:
                hold(abs(found - value) < EPSILON, "a percentile has so many below", f"{percent} of {values}")
        try:
            hold(percentile([], 50) is None, "of nothing there is no percentile", "an answer")
        except ValueError:
            pass
        done, elapsed_s = luck.choice((0.0, 0.25, 0.5, 1.0)), luck.uniform(1, 9)
        left_s = time_left_s(done, elapsed_s)
        total_s = elapsed_s / done if done else inf
        near = left_s == total_s == inf or abs(left_s + elapsed_s - total_s) < EPSILON
        hold(near, "a task goes on as it did", f"{done} after {elapsed_s} s: {left_s} s")

    def _sort(self) -> None:
        luck, item = self._luck, f"i{self._luck.randrange(8)}"
        if luck.random() < 0.7:
            self._keys[item] = (luck.randrange(4), item)
            self._sorted.put(item, self._keys[item])
        else:
            self._keys.pop(item, None)
            self._sorted.drop(item)
        wanted = sorted(self._keys, key=self._keys.__getitem__)
        check = "sorted lists are sorted"
        hold(list(self._sorted) == wanted and len(self._sorted) == len(wanted), check, f"{wanted}")
        hold(
            all((f"i{place}" in self._sorted) is (f"i{place}" in wanted) for place in range(8)), check, wanted
        )
        hold(not wanted or self._sorted.first() == wanted[0], check, wanted)

    def _limits(self) -> None:
        """Check a queue's sums by user, and the user limit by the rule of Hadoop 0.20."""
        luck, held = self._luck, Held()
        amounts: dict[str, int] = {}
        for _ in range(luck.randint(0, 4)):
            user, amount = luck.choice(("ana", "bo")), luck.choice((1, 2, 5, -1))
            held.add(user, amount)
            amounts[user] = amounts.get(user, 0) + amount
        seen = f"{amounts}: {held.by_user}, {held.total}"
        hold(held.by_user == amounts and held.total == sum(amounts.values()), "a queue adds up", seen)
        need, users = luck.randint(1, 3), luck.randint(1, 4)
        promised, percent = luck.choice((0.0, 0.5, 3.0, 10.0)), luck.choice((25.0, 34.0, 100.0))
        factor, most = luck.choice((0.5, 1.0, 2.0)), luck.choice((0.0, 2.0, 5.0, inf))
        has = max(promised, need) if held.total < promised else held.total + need
        parts = [ceil(has / users - EPSILON), ceil(has * percent / 100 - EPSILON)]
        wanted = max(parts)
        if promised > 0:
            wanted = min(wanted, int(promised * factor + EPSILON))
        found = user_limit(held, need, promised, users, percent, factor)
        hold(
            found == max(need, wanted), "a user's limit is Hadoop's", f"{seen}, {promised}: {found}, {wanted}"
        )
        above = held.total > 0 and held.total + need > most + EPSILON
        hold(
            over_max(held, need, most) is above, "no queue goes over its maximum", f"{seen}, {need} of {most}"
        )

    def _index(self) -> None:
        """Check that a task index returns the task added last, on a node and on any node."""
        luck = self._luck
        tasks: list[Any] = [
            SimpleNamespace(
                index=at,
                state=TaskState.UNSTARTED,
                hosts=tuple(luck.sample(("n0", "n1"), luck.randrange(3))),
                racks=(),
            )
            for at in range(luck.randint(0, 4))
        ]
        luck.shuffle(tasks)
        index: TaskIndex[Any] = TaskIndex(tasks)
        check = "the task that was added last comes first"
        hold(index.first() is (tasks[-1] if tasks else None), check, f"{index.first()} of {tasks}")
        near = [task for task in tasks if "n0" in task.hosts]
        hold(index.on_host("n0") is (near[-1] if near else None), check, f"{index.on_host('n0')} of {tasks}")

    def _ticks(self) -> None:
        """Check that a composed policy acts on ticks if the policy itself or one of its axes does.

        An axis with pre-emption switched off does not count.
        """
        luck = self._luck
        own, hook = luck.random() < 0.3, luck.choice(("tick", "preempt"))
        axes: list[Any] = []
        acts = own
        for _ in range(3):
            names = [name for name in ("tick", "preempt") if luck.random() < 0.25]
            axis: Any = SimpleNamespace(limits=None, room=None, refuses=None, jobs=None, pick=None)
            for name in names:
                setattr(axis, name, lambda view: [])
            off = luck.random() < 0.5
            if off:
                drop(axis, "preempt")
            acts = acts or "tick" in names or ("preempt" in names and not off)
            axes.append(axis)
        kind: Any = type("Own", (Composed,), {hook: lambda policy, view: []} if own else {})
        found = acts_on_ticks(kind(*axes))
        hold(found is acts, "who acts on ticks says so", f"{own}, {axes}: {found}")

    def _places(self, step: int) -> None:
        """Check the placement of replicas on clusters of zero to nine nodes with random loads."""
        luck = self._luck
        nodes = [
            CandidateNode(f"n{place}", f"r{luck.randrange(3)}", luck.choice((0, 0, 10, 50, 400)))
            for place in range(luck.randint(0, 9))
        ]
        field, count = NodeIndex(nodes), luck.randint(1, 5)
        racks, loads = dict(field.racks), dict(field.load_bytes)
        held = luck.sample(nodes, min(len(nodes), luck.choice((0, 0, 1, 2))))
        writer = luck.choice([None, "n0", "n8"])
        left = {node: rack for node, rack in racks.items() if node not in {each.node for each in held}}
        chosen = place_hdfs(field, count, seed=self._seed, block=f"b{step}", writer=writer, existing=held)
        weights = {node: loads[node] for node in left}
        check_places(left, weights, chosen, count, writer=writer, existing=[each.rack for each in held])
        lengths = [luck.choice((1, 20, 100)) for _ in range(luck.randint(0, 4))]
        blocks = [f"b{step}_{place}" for place in range(len(lengths))]
        for length, where in zip(
            lengths, place_file(field, count, blocks, lengths, seed=self._seed), strict=True
        ):
            check_places(racks, loads, where, count)
            for node in where:
                loads[node] += length
        seen = f"{field.load_bytes} instead of {loads}"
        hold(
            field.load_bytes == loads and field.total_bytes == sum(loads.values()), "loads are charged", seen
        )
        self._give_way(nodes, luck.randint(1, 3))

    @staticmethod
    def _give_way(nodes: list[CandidateNode], target: int) -> None:
        """Check that surplus replicas leave the fullest node of the rack with the most replicas."""
        gone, staying = surplus(nodes, target), {node.node: node for node in nodes}
        hold(len(gone) == max(0, len(nodes) - target), "the fullest node of the fullest rack gives way", gone)
        for name in gone:
            racks = [node.rack for node in staying.values()]
            most = max(map(racks.count, racks))
            full = [node for node in staying.values() if racks.count(node.rack) == most]
            victim = staying.pop(name)
            good = victim in full and victim.load_bytes == max(node.load_bytes for node in full)
            hold(good, "the fullest node of the fullest rack gives way", f"{gone} of {nodes}")
