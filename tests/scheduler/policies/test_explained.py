"""What axes say beside their decisions: in the reasons of launches, and of a whole run."""

from __future__ import annotations

from typing import Any

from schedbed.scheduler.admission.slots import Slots
from schedbed.scheduler.locality.greedy import Greedy
from schedbed.scheduler.order.fifo import Fifo
from schedbed.scheduler.policies.explained import Explained
from schedbed.scheduler.policy import Composed
from schedbed.scheduler.registry.registry import build_policy
from tests.harness.world import World, job, node


class TalkingOrder(Fifo):
    """Says who is asked."""

    def note(self, view: Any, node: Any, job: Any, kind: Any) -> str:
        """The job, the node and the kind."""
        return f"{job.job} {kind} on {node.node}"

    def report(self) -> dict[str, Any]:
        """Something learnt, and something else."""
        return {"profiles": {"order": {"a": {"b": 1}}}, "figures": {"x": 1}}


class TalkingSlots(Slots):
    """Says more."""

    def note(self, view: Any, node: Any, job: Any, kind: Any) -> str:
        """What is free."""
        return f"{node.free_slots(kind)} free"

    def report(self) -> dict[str, Any]:
        """Another thing learnt."""
        return {"profiles": {"slots": {"a": {"c": 2}}}}


def test_notes_end_the_reasons_and_reports_are_one() -> None:
    """The order's first, then the admission's."""
    policy = Explained(TalkingOrder(), Greedy(), TalkingSlots())
    world = World(policy, [node("n1")]).submit(job("a", 1, reduces=1)).run()
    reasons = [row.reason for row in world.tape.decisions if row.answer == "launch"]
    assert reasons == ["no preferred node; a map on n1; 1 free", "reduce; a reduce on n1; 1 free"]
    assert policy.report() == {
        "profiles": {"order": {"a": {"b": 1}}, "slots": {"a": {"c": 2}}},
        "figures": {"x": 1},
    }


def test_compositions_that_say_nothing_stay_plain() -> None:
    """So that they cost what they cost."""
    assert type(build_policy("delay")) is Composed
    assert type(build_policy("capacity")) is Explained
