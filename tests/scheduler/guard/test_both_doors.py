"""The core calls shipped policies directly and users' policies through the guard.

Both ways give the same rows.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from schedbed.scheduler.guard.guarded_policy import guarded
from schedbed.scheduler.policy import AVOIDED
from schedbed.scheduler.registry.registry import AXES, POLICIES, build_policy
from schedbed.scheduler.registry.speculation import with_speculation
from schedbed.scheduler.simulate.setup import Setup
from tests.harness.simulation import (
    SpecifiedCosts,
    cluster,
    random_faults,
    random_jobs,
    simulate,
    with_room_for_gangs,
)

SPECS = [
    *POLICIES,
    *(f"order={order},locality=delay:node_wait=1s+rack_wait=1s" for order in AXES["order"]),
    *(f"locality={locality},admission=containers" for locality in AXES["locality"]),
]
FAULTS = ("kill", "slow", "partition", "fill_disk", "kill_tracker", "crash_jobtracker", "lose_replies")


def direct(spec: str, speculation: str) -> Any:
    return with_speculation(build_policy(spec, store="none"), speculation)


def through_the_guard(spec: str, speculation: str) -> Any:
    own = build_policy(spec, store="none")
    return with_speculation(guarded(lambda: own, type(own)), speculation)


def rows(spec: str, make: Callable[[], Any], seed: int, *, faults: bool) -> str:
    """Return the rows of a simulation, without heartbeats and without skips of jobs that avoid the node.

    The guard skips some heartbeats and hides such jobs from the policy, so these rows may differ.
    """
    jobs, files = random_jobs(seed)
    setup = Setup(
        cluster=cluster(4),
        costs=SpecifiedCosts(),
        contention=False,
        jobs=jobs,
        files=files,
        seed=seed,
        policy=make,
        faults=random_faults(seed, 4, FAULTS) if faults else (),
    )
    text = simulate(with_room_for_gangs(setup, spec)).text("decision", "attempt", "job", "block", "fault")
    return "".join(line for line in text.splitlines(keepends=True) if not line.endswith(f"'{AVOIDED}')\n"))


@pytest.mark.parametrize("spec", SPECS)
def test_both_doors_give_the_same_rows(spec: str) -> None:
    for seed, faults, speculation in ((1, False, "none"), (2, True, "none"), (3, True, "late")):
        kept = rows(spec, partial(direct, spec, speculation), seed, faults=faults)
        assert kept == rows(spec, partial(through_the_guard, spec, speculation), seed, faults=faults)
        assert "succeeded" in kept
