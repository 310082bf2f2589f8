"""Notes of the axes in the reasons of launches, and reports of the axes about a whole run."""

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
    """The order FIFO with notes and a report."""

    def note(self, view: Any, node: Any, job: Any, kind: Any) -> str:
        """Return a text with the job, the kind of task and the node."""
        return f"{job.job} {kind} on {node.node}"

    def report(self) -> dict[str, Any]:
        """Return a profile and a figure."""
        return {"profiles": {"order": {"a": {"b": 1}}}, "figures": {"x": 1}}


class TalkingSlots(Slots):
    """The admission by slots with notes and a report."""

    def note(self, view: Any, node: Any, job: Any, kind: Any) -> str:
        """Return a text with the number of free slots."""
        return f"{node.free_slots(kind)} free"

    def report(self) -> dict[str, Any]:
        """Return another profile."""
        return {"profiles": {"slots": {"a": {"c": 2}}}}


def test_notes_end_the_reasons_and_reports_are_one() -> None:
    """Each reason ends with the note of the order and then that of the admission.

    The reports of both axes are merged.
    """
    policy = Explained(TalkingOrder(), Greedy(), TalkingSlots())
    world = World(policy, [node("n1")]).submit(job("a", 1, reduces=1)).run()
    reasons = [row.reason for row in world.tape.decisions if row.answer == "launch"]
    assert reasons == ["no preferred node; a map on n1; 1 free", "reduce; a reduce on n1; 1 free"]
    assert policy.report() == {
        "profiles": {"order": {"a": {"b": 1}}, "slots": {"a": {"c": 2}}},
        "figures": {"x": 1},
    }


def test_compositions_that_say_nothing_stay_plain() -> None:
    """A composition whose axes have no notes is a plain `Composed`, which costs less time."""
    assert type(build_policy("delay")) is Composed
    assert type(build_policy("capacity")) is Explained
