"""Every order with every locality and every admission, including compositions that nobody published."""

from __future__ import annotations

from itertools import product

import pytest

from schedbed.scheduler.registry.registry import AXES, build_policy
from tests.harness.world import GIB, World, job, node

COMPOSITIONS = [
    ",".join(f"{axis}={name}" for axis, name in zip(AXES, names, strict=True))
    for names in product(*AXES.values())
]


@pytest.mark.parametrize("spec", COMPOSITIONS)
def test_all_jobs_end_under_each_composition(spec: str) -> None:
    """Jobs of two users and two queues, with priorities and reduces, all succeed.

    One node crashes meanwhile.
    """
    nodes = [
        node("n1", maps=5 if "gang" in spec else 2, cores=3),  # A gang needs a slot for each of its maps.
        node("n2", rack="r1", maps=2, cores=3),
        node("n3", rack="r1", memory_bytes=2 * GIB),
    ]
    world = World(build_policy(spec), nodes, task_ms=3_000)
    world.submit(job("a", ["n1 n2", "n2", "n3", ""], reduces=2))
    world.submit(job("b", 5, user="bo", queue="night", submit_s=1, priority="high", memory=2 * GIB))
    world.submit(job("c", ["n1"] * 4, reduces=1, user="bo", submit_s=2, deadline_s=30.0))
    world.at(5, lambda: world.crash("n3"))
    world.run()
    assert set(world.ended_jobs().values()) == {"succeeded"}
