"""Tests the faults of a scenario: the keys of every kind, many faults from a seed, and a sequence computed by
hand.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schedbed.cluster.faults import KINDS, PlannedFault
from schedbed.deploy.scenario.fault_models import DRAWN
from schedbed.deploy.scenario.planned_faults import fault_now
from schedbed.deploy.scenario.resolve import resolve
from schedbed.deploy.scenario.resolved import ResolvedScenario
from schedbed.tasks.errors import BadInput


def scenario(faults: Any, **keys: Any) -> ResolvedScenario:
    """Return the resolved scenario with these faults on six nodes, with two replicas per block."""
    given = {"cluster": {"nodes": 6}, "blocks": {"replication": 2}, "workload": {"jobs": [{"app": "pi"}]}}
    return resolve({**given, "faults": faults, **keys})


def one(**fault: Any) -> PlannedFault:
    (planned,) = scenario([{"at": "10s", **fault}], scale=0.5).faults
    return planned


def test_each_kind_has_its_own_words() -> None:
    late = one(delay="n1", by="2s", **{"for": "10s"})
    assert (late.kind, late.nodes, late.by_s, late.at_s, late.until_s) == ("delay", ("n1",), 1.0, 5.0, 10.0)
    assert one(loss="all", share=0.2).nodes == ()
    cut = one(partition=["n1", "n2"], **{"from": "masters"})
    assert (cut.kind, cut.nodes) == ("cut_off", ("n1", "n2"))
    assert one(partition=["n1", "n2"]).kind == "partition"
    attempt = one(kill_attempt="job_0001_m_000003")
    assert (attempt.target, attempt.shown) == ("job_0001_m_000003", "job_0001_m_000003")
    anywhere = one(kill_attempt="any", node="n3")
    assert (anywhere.target, anywhere.nodes, 0 < anywhere.luck < 1) == ("", ("n3",), True)
    assert one(corrupt_replica="/in/x").target == "/in/x"
    assert (one(crash="namenode").kind, one(crash="jobtracker").kind) == (
        "restart_namenode",
        "crash_jobtracker",
    )
    assert one(kill=["n1", "n2"]).shown == "n1,n2"


@pytest.mark.parametrize(
    ("fault", "line"),
    [
        ({"delay": "n1"}, "delay goes with by"),
        ({"loss": "n1"}, "loss goes with share"),
        ({"kill": "n1", "share": 0.2}, "share only goes with loss, lose_requests, lose_replies"),
        ({"kill": "n1", "from": "masters"}, "from only goes with partition"),
        ({"kill_attempt": "any", "for": "1s"}, "kill_attempt is over at once: it goes without for"),
        ({"kill_attempt": "any", "node": "n9"}, "no node 'n9', the nodes are n1 to n6"),
        ({"kil": "n1"}, "unknown key, did you mean 'kill'?"),
        ({}, "expected exactly one of kill, "),
    ],
)
def test_what_makes_no_sense_is_one_line(fault: dict[str, Any], line: str) -> None:
    with pytest.raises(BadInput) as caught:
        scenario([{"at": "1s", **fault}])
    assert line in str(caught.value) and "\n" not in str(caught.value)
    assert "faults[0]" in str(caught.value) and "one fault" not in str(caught.value)


def test_listed_and_drawn_faults_stand_in_either_form_and_in_run_json() -> None:
    listed, drawn = {"at": "1s", "kill": "n1", "for": "5s"}, {"count": 4, "seed": 3, "until": "10m"}
    as_list, as_mapping = scenario([listed, {"random": drawn}]), scenario({"at": [listed], "random": drawn})
    assert as_list.faults == as_mapping.faults
    assert len(as_list.faults) == 5
    assert ResolvedScenario.from_json(as_list.to_json()).faults == as_list.faults
    other = scenario({"random": drawn | {"seed": 4}})
    assert other.faults != scenario({"random": drawn}).faults == scenario({"random": drawn}).faults


def test_a_rate_gives_about_so_many_and_times_are_scaled() -> None:
    asked = {"rate": "60/h", "until": "100h", "kinds": ["slow"], "for": "10s"}
    plain, scaled = scenario({"random": asked}).faults, scenario({"random": asked}, scale=0.1).faults
    assert 5700 < len(plain) < 6300
    assert [fault.at_s * 0.1 for fault in plain] == pytest.approx([fault.at_s for fault in scaled])
    assert all(1 < (fault.until_s or 0) - fault.at_s < 16 for fault in plain)


@given(seed=st.integers(0, 10**6), kinds=st.sets(st.sampled_from(DRAWN), min_size=1), sure=st.booleans())
def test_one_replica_of_each_block_survives(seed: int, kinds: set[str], sure: bool) -> None:
    """With two replicas, drawn faults never take down two nodes at once, even if another fault is declared by
    hand.
    """
    drawn = {"random": {"rate": "1/m", "until": "2h", "kinds": sorted(kinds), "seed": seed, "for": "2m"}}
    faults = scenario([{"at": "30m", "kill": "n2", "for": "10m"}, drawn] if sure else [drawn]).faults
    out = [fault for fault in faults if KINDS[fault.kind].hides_replicas]
    for fault, later in pairwise(out):
        assert fault.back_s is not None and later.at_s >= fault.back_s
        assert not KINDS[fault.kind].harms_for_good  # else it is the last


def test_without_spare_nodes_may_fall_together() -> None:
    asked = {"count": 50, "until": "1m", "kinds": ["kill"], "for": "1m", "spare": False}
    faults = scenario({"random": asked}).faults
    assert len({fault.nodes for fault in faults}) == 6
    spared = scenario({"random": asked | {"spare": True}}).faults
    assert 0 < len(spared) < 6


@pytest.mark.parametrize(
    ("asked", "line"),
    [
        ({"rate": "often", "count": 1}, "'often' is not a rate (such as 3/h, 0.5/m)"),
        ({}, "expected rate (such as 3/h) or count, one of the two"),
        ({"count": 1, "rate": "3/h"}, "expected rate (such as 3/h) or count, one of the two"),
        ({"count": 1, "kinds": ["flood"]}, "'flood' is not one of 'kill'"),
        ({"count": 1, "nodes": "n7"}, "no node 'n7'"),
        ({"count": 1, "from": "2h"}, "until is not later than from"),
    ],
)
def test_a_random_plan_that_makes_no_sense_is_one_line(asked: dict[str, Any], line: str) -> None:
    with pytest.raises(BadInput) as caught:
        scenario({"random": asked})
    assert line in str(caught.value) and "\n" not in str(caught.value)


def test_a_fault_by_hand_counts_from_now_by_the_clock() -> None:
    planned_at_scale = scenario([{"at": "50s", "delay": "n4", "by": "2s", "for": "60s"}], scale=0.1)
    cluster = planned_at_scale.cluster
    planned = fault_now({"delay": "n4", "by": "2s", "for": "60s"}, cluster, now_s=50.0, luck=0.5)
    assert (planned.kind, planned.at_s, planned.until_s, planned.by_s) == ("delay", 50.0, 110.0, 2.0)
    (scaled,) = planned_at_scale.faults
    assert (scaled.at_s, scaled.until_s, scaled.by_s) == pytest.approx((5.0, 11.0, 0.2))
    with pytest.raises(BadInput, match="no node 'n9'"):
        fault_now({"kill": "n9"}, cluster, now_s=0.0, luck=0.5)
    with pytest.raises(BadInput, match="unknown key"):
        fault_now({"kil": "n1"}, cluster, now_s=0.0, luck=0.5)
