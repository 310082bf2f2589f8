"""Heartbeats that report no change take a short way through the core, with the effect of a complete one.

So do heartbeats without the progress of attempts, for policies that do not read it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from schedbed.scheduler.core.unchanged import UnchangedHeartbeats
from schedbed.scheduler.hooks import quiet_of
from schedbed.scheduler.registry.registry import build_policy
from schedbed.scheduler.simulate.setup import Setup, Timing
from schedbed.scheduler.simulate.simulation import Simulation
from tests.harness.simulation import Tape, random_faults, random_jobs, setup

Take = Callable[..., bool]


class Counting:
    """A replacement of `UnchangedHeartbeats.take` that counts its results."""

    def __init__(self, take: Take) -> None:
        self._take = take
        self.taken = 0

    def replace_in(self, monkeypatch: pytest.MonkeyPatch) -> Counting:
        """Replace the method, and return this object."""
        monkeypatch.setattr(UnchangedHeartbeats, "take", lambda *arguments: self._count(*arguments))
        return self

    def _count(self, *arguments: Any) -> bool:
        taken = self._take(*arguments)
        self.taken += taken
        return taken


def given(policy: Any, seed: int, faults: Sequence[str], contention: bool) -> Setup:
    """Return the setup of a simulation of random jobs."""
    jobs, files = random_jobs(seed)
    made = setup(jobs, 4, policy=policy, files=files, seed=seed, timing=Timing(), contention=contention)
    return replace(made, faults=random_faults(seed, 4, faults))


def rows(setup: Setup) -> tuple[str, Any]:
    """Return the rows of all tables, with those of heartbeats, and the policy's report."""
    tape = Tape()
    simulation = Simulation(setup, tape)
    simulation.run()
    return tape.text(), simulation.master.report()


@pytest.mark.parametrize("faults", [(), ("kill", "freeze"), ("slow", "partition")])
@pytest.mark.parametrize("contention", [False, True])
@pytest.mark.parametrize("policy", ["csla", "order=fair,locality=delay,admission=load", "ras", "fgcs", "pd"])
def test_no_row_shows_which_way_a_heartbeat_took(
    policy: Any, contention: bool, faults: Sequence[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for seed in range(2):
        made = given(policy, seed, faults, contention)
        counting = Counting(UnchangedHeartbeats.take)
        with monkeypatch.context() as patched:
            counting.replace_in(patched)
            short = rows(made)
        with monkeypatch.context() as patched:
            Counting(lambda *_: False).replace_in(patched)
            complete = rows(made)
        assert short == complete
        if policy == "csla" and not faults:
            assert counting.taken > 50


@pytest.mark.parametrize(
    ("policy", "reads"),
    [
        ("fifo", False),
        ("csla", False),
        ("order=fair,locality=delay,admission=load", False),
        ("pd:remaining=progress", True),
    ],
)
def test_only_policies_that_read_progress_are_told_of_it(policy: Any, reads: bool) -> None:
    assert (quiet_of(build_policy(policy)) is None) is reads


@pytest.mark.parametrize("seed", range(3))
def test_attempts_of_lost_nodes_have_the_starts_that_a_node_had_reported(seed: int) -> None:
    made = given("csla", seed, ("kill", "freeze"), contention=False)
    told = replace(made, process_all_heartbeats=True)
    assert rows(made)[0] == rows(told)[0]
