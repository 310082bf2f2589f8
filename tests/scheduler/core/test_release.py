"""Memory after jobs have ended: the core keeps short entries for the live display and no objects in reference
cycles.
"""

from __future__ import annotations

import gc

import pytest

from schedbed.scheduler.core import ledger
from schedbed.scheduler.core.entities import Attempt, Task
from schedbed.scheduler.registry.registry import build_policy
from tests.harness.world import World, job, node


def test_ended_jobs_are_let_go(monkeypatch: pytest.MonkeyPatch):
    """With Python's garbage collector disabled, no task or attempt of an ended job remains in memory.

    The status shows only the latest five jobs.
    """
    monkeypatch.setattr(ledger, "ENDED_KEPT", 5)
    world = World(build_policy("delay"), [node("n1", maps=2), node("n2", maps=2)], task_ms=1000, audit=False)
    for number in range(12):
        world.submit(job(f"job_{number:04d}", ["n1", "n2", "n1 n2"], reduces=1, submit_s=number / 4))
    world.failing = lambda attempt, _: "bad luck" if attempt.endswith("_m_000001_0") else None
    gc.collect()
    before = {id(thing) for thing in gc.get_objects() if isinstance(thing, Task | Attempt)}
    gc.disable()
    try:
        world.run()
        left = [thing for thing in gc.get_objects() if isinstance(thing, Task | Attempt)]
        assert [thing for thing in left if id(thing) not in before] == []
    finally:
        gc.enable()
    shown = world.core.status()["jobs"]
    last = [row.job for row in world.tape.jobs][-5:]
    assert sorted(entry["job"] for entry in shown) == sorted(last)
    assert all(entry["maps"] == 3 and entry["state"] == "succeeded" for entry in shown)
    with pytest.raises(ValueError, match="submitted before"):
        world.core.submit(world.now_s, job("job_0000"))
