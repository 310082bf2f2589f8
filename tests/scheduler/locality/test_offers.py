"""The locality wait of YARN's FairScheduler, offer by offer. Thresholds of 0.5 are 2 offers of 4 nodes."""

from __future__ import annotations

from typing import Any

import pytest

from schedbed.cluster.messages import AttemptStatus, Heartbeat
from schedbed.scheduler.core.core import Core, CoreConfig
from schedbed.scheduler.registry.registry import build_policy
from schedbed.tasks.errors import BadInput
from schedbed.tasks.specs import JobSpec
from tests.harness.world import GIB, Tape, job, node

HALF = {"locality_threshold_node": 0.5, "locality_threshold_rack": 0.5}
RACKS = {"n1": "r0", "n2": "r0", "n3": "r1", "n4": "r0"}


class Offered:
    """A core with four nodes, of which n3 is alone in its rack, and jobs whose containers run on."""

    def __init__(self, policy: Any, *jobs: JobSpec, memory: dict[str, int] | None = None) -> None:
        self.tape = Tape()
        self.core = Core(CoreConfig(expiry_s=1000), build_policy(policy), self.tape)
        for name, rack in RACKS.items():
            gib = (memory or {}).get(name, 4)
            self.core.register(0, node(name, rack=rack, maps=4, memory_bytes=gib * GIB, cores=4), 1)
        for each in jobs:
            self.core.submit(0, each)
        self._sent = dict.fromkeys(RACKS, 0)
        self._now_s = 0.0

    def heartbeats(self, *names: str) -> list[str]:
        """Return what each heartbeat of these nodes starts, as `JOB REASON`; empty texts for nothing."""
        return [self._heartbeat(name) for name in names]

    def _heartbeat(self, name: str) -> str:
        before = len(self.tape.decisions)
        running = self.core.status()["nodes"][int(name[1]) - 1]["running"]
        statuses = tuple(AttemptStatus(attempt=each, progress=0, phase="map") for each in running)
        sequence, self._sent[name] = self._sent[name], self._sent[name] + 1
        beat = Heartbeat(node=name, incarnation=1, sequence=sequence, running=statuses)
        self._now_s += 1
        self.core.heartbeat(self._now_s, beat)
        rows = [row for row in self.tape.decisions[before:] if row.answer == "launch"]
        return " ".join(f"{row.job} {row.reason}" for row in rows)


def preset(**settings: Any) -> dict[str, Any]:
    return {"yarn-fair": {**HALF, **settings}}


def test_each_level_lasts_for_more_offers_than_its_threshold():
    """The third offer allows the rack, the sixth any node."""
    offered = Offered(preset(), job("a", ["n4"] * 9))
    assert offered.heartbeats(*["n3"] * 6) == [""] * 5 + ["a off-rack"]
    offered = Offered(preset(), job("a", ["n4"] * 9))
    assert offered.heartbeats("n3", "n3", "n1") == ["", "", "a rack-local"]
    assert offered.tape.decisions[0].reason == "waits for a local node, 2 offers"


def test_offers_count_on_after_a_launch():
    """After the level rack was reached, n1 is the first offer, n3 twice are the second and third."""
    offered = Offered(preset(), job("a", ["n4"] * 9))
    offered.heartbeats("n3", "n3", "n3")
    assert offered.heartbeats("n1", "n3", "n3") == ["a rack-local", "", "a off-rack"]


def test_a_map_nearer_than_the_level_makes_that_its_level():
    offered = Offered(preset(), job("a", ["n4"] * 9))
    offered.heartbeats(*["n3"] * 6)
    assert offered.heartbeats("n4", "n1", "n1") == ["a node-local", "", "a rack-local"]


def test_a_full_node_is_an_offer_and_one_that_is_too_small_is_none():
    """a fills n3, whose heartbeats count for b. With 2 GiB, n3 could never run a map of b: it does not count."""
    filler, waiting = job("a", 4, queue="a"), job("b", ["n4"], queue="b", memory=3 * GIB)
    offered = Offered(preset(), filler)
    assert offered.heartbeats(*["n3"] * 4) == ["a no preferred node"] * 4
    offered.core.submit(5, waiting)
    assert offered.heartbeats("n3", "n3", "n1") == ["", "", "b rack-local"]
    offered = Offered(preset(), waiting, memory={"n3": 2})
    assert offered.heartbeats("n3", "n3", "n1", "n1", "n1") == ["", "", "", "", "b rack-local"]


def test_a_heartbeat_that_a_job_before_takes_is_no_offer():
    """b is behind a in the first heartbeat and before it, having less, in the second."""
    offered = Offered(preset(), job("a", 2, queue="a"), job("b", ["n4"], queue="b", memory=2 * GIB))
    assert offered.heartbeats("n1", "n1") == ["a no preferred node"] * 2
    assert offered.heartbeats("n1", "n1") == ["", "b rack-local"]


def test_a_negative_threshold_is_no_wait():
    for settings in ({"locality_threshold_rack": -1}, {"locality_threshold_node": -1}):
        offered = Offered(preset(**settings), job("a", ["n4"]))
        assert offered.heartbeats("n3") == ["a off-rack"]
    with pytest.raises(BadInput, match="0 to 1, or -1"):
        build_policy(preset(locality_threshold_node=2))


@pytest.mark.parametrize("admission", ["slots", {"load": {"local_data": False}}])
def test_with_another_order_and_admission_offers_are_counted_too(admission: Any):
    """The admission `load` has a class of policy of its own, so that only the picks are offers."""
    wait = {"yarn-fair-wait": HALF}
    offered = Offered({"order": "fifo", "locality": wait, "admission": admission}, job("a", ["n4"]))
    reasons = [each.partition(";")[0] for each in offered.heartbeats("n3", "n3", "n1")]
    assert reasons == ["", "", "a rack-local"]
