"""Classes of policies and axes declare whether heartbeats may be skipped for them and whether the compiled
loop has them.

Subclasses do not inherit these declarations.
"""

from __future__ import annotations

from typing import Any

import pytest

from schedbed.scheduler.admission.containers import Containers
from schedbed.scheduler.admission.slots import Slots
from schedbed.scheduler.hooks import QUIET, Proposal, acts_on_ticks, quiet_of
from schedbed.scheduler.locality.delay import Delay
from schedbed.scheduler.locality.greedy import Greedy
from schedbed.scheduler.order.fair import Fair
from schedbed.scheduler.order.fifo import Fifo
from schedbed.scheduler.policies.explained import Explained
from schedbed.scheduler.policy import Composed, Policy
from schedbed.scheduler.registry.registry import build_policy
from schedbed.scheduler.simulate.compiled.covers import Forms, forms_of
from schedbed.scheduler.simulate.skipping import is_quiet
from schedbed.scheduler.view import NodeView, View
from schedbed.tasks.specs import TaskKind


class Newest(Fifo):
    """A user's order without declarations."""


class Eager(Delay):
    """A user's locality that declares that heartbeats may be skipped."""

    quiet = QUIET  # pyright: ignore[reportAssignmentType, reportIncompatibleMethodOverride]


class Mine:
    """A policy that is not composed of axes."""

    def decide(self, view: View, node: NodeView, kind: TaskKind) -> Proposal | None:
        """Return no proposal."""
        return None


class Watching(Composed):
    """A user's subclass of `Composed` without declarations."""


@pytest.mark.parametrize(
    ("policy", "quiet", "forms"),
    [
        (Composed(Fifo(), Greedy(), Slots()), True, Forms("fifo", "greedy", "slots")),
        (Composed(Fair(), Delay(), Slots()), True, Forms("fair", "delay", "slots")),
        (Composed(Fair(min_share_timeout_s=5.0), Delay(), Slots()), True, Forms(None, "delay", "slots")),
        (Composed(Newest(), Greedy(), Slots()), False, Forms(None, "greedy", "slots")),
        (Composed(Fifo(), Eager(), Slots()), True, Forms("fifo", None, "slots")),
        (Explained(Fifo(), Greedy(), Slots()), True, Forms("fifo", "greedy", "slots")),
        (Watching(Fifo(), Greedy(), Slots()), False, None),
        (Mine(), False, None),
        (build_policy("capacity"), True, Forms("capacity", "greedy", "slots")),
        (build_policy("capacity:map_slot_memory=1GiB"), True, Forms(None, "greedy", "slots")),
        (build_policy("csla"), False, None),
    ],
)
def test_what_a_parent_class_says_is_not_taken_for_an_answer(
    policy: Policy, quiet: bool, forms: Forms | None
) -> None:
    assert is_quiet(policy) is quiet
    assert forms_of(policy) == forms


@pytest.mark.parametrize(
    ("spec", "acts"),
    [
        ("fifo", False),
        ("fair", False),
        ("fair:min_share_timeout=5s", True),
        ("ras", True),
        ("delay", False),
        ("capacity", False),
        ("easy", False),
        ("slurm-fcfs", True),
        ("easy:interval=1s", True),
        ("order=capacity,admission=containers", True),
    ],
)
def test_ticks_are_for_who_does_something_on_them(spec: Any, acts: bool) -> None:
    assert acts_on_ticks(build_policy(spec)) is acts


@pytest.mark.parametrize(
    ("spec", "rests"),
    [
        ("ras", True),
        ("fgcs", True),
        ("easy", True),
        ("slurm-backfill", True),
        ("order=fifo,admission=gang", True),
        ("order=fifo,admission=containers", True),
        ("fifo", False),
        ("csla", False),
    ],
)
def test_nodes_rest_by_the_word_of_the_policy_or_of_its_admission(spec: Any, rests: bool) -> None:
    quiet = quiet_of(build_policy(spec))
    assert (quiet is not None and quiet.rests is not None) is rests


def test_what_a_parent_admission_says_of_rests_is_not_taken_for_an_answer() -> None:
    class Mean(Containers):
        """A user's subclass of the admission by memory and vcores."""

    assert quiet_of(Composed(Fifo(), Greedy(), Mean())) is None
