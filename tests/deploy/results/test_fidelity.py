"""Tests when a run is marked as not to be trusted, and the stated reasons."""

from __future__ import annotations

from typing import Any

import pytest

from schedbed.deploy.results.fidelity import SIMULATED, assess, combine, doubt_unfinished, doubts
from tests.harness.tables import NODES, table


def heartbeats(cpu: float, seconds: int = 20) -> list[dict[str, Any]]:
    return [{"t": t / 2, "cpu_util": cpu, "disk_util": 0.1, "net_util": 0.1} for t in range(2 * seconds)]


def judge(**changes: Any) -> dict[str, Any]:
    given: dict[str, Any] = {
        "machines": "process",
        "host_cores": 4,
        "host_samples": [(float(t), 0.5) for t in range(20)],
        "nodes": NODES,
        "heartbeats": table("heartbeats", heartbeats(0.9)),
    }
    return assess(**(given | changes))


def test_a_quiet_host_and_kept_limits_are_trusted_and_say_what_was_achieved() -> None:
    found = judge()
    assert found["trusted"] and found["why"] == [] and found["host_cpu_saturated"] == 0.0
    assert found["limits"]["cpu"]["configured"] == 1.0 and found["limits"]["cpu"]["configured_total"] == 2.0
    assert found["limits"]["cpu"]["achieved_max"] == pytest.approx(0.9)
    assert found["limits"]["disk"]["achieved_p95"] == pytest.approx(0.1 * 40e6)


def test_a_run_that_ended_before_its_jobs_is_not_trusted_live_or_simulated() -> None:
    for machines in ("process", "sim"):
        whole = judge(machines=machines)
        assert (
            doubt_unfinished(whole, ["job_0001"], {"job_0001", "job_0002"}) is whole and doubts(whole) == []
        )
        cut = doubt_unfinished(whole, ["job_0001", "job_0002"], {"job_0001"})
        assert not cut["trusted"] and "before 1 of its 2 jobs did" in cut["why"][0]
        assert doubts(cut) == cut["why"][:1] and (SIMULATED in cut["why"]) == (machines == "sim")
        stopped = doubt_unfinished(whole, ["job_0001"], {"job_0001"}, interrupted=True)
        assert not stopped["trusted"] and "was interrupted" in doubts(stopped)[0]


def test_more_cores_than_the_host_has_are_trusted_when_time_is_stretched() -> None:
    assert not judge(host_cores=1.0)["trusted"]
    assert judge(host_cores=1.0, stretch=2.0)["trusted"]


def test_a_saturated_host_is_not_trusted() -> None:
    samples = [(float(t), 0.99 if t < 5 else 0.5) for t in range(20)]
    found = judge(host_samples=samples)
    assert found["host_cpu_saturated"] == pytest.approx(0.25) and not found["trusted"]
    assert found["why"] == [
        "The host's CPU was saturated (above 95%) for 25% of the time; more than 5% is not trusted. Tasks used 0.9 of "
        "its 4 cores on average, other programs and the emulation the rest: end other programs, or declare fewer or "
        "slower nodes."
    ]
    slower = [row | {"cpu_util": 0.2} for row in heartbeats(0.9)]
    (why,) = judge(host_samples=samples, heartbeats=table("heartbeats", slower), stretch=2.0)["why"]
    assert "Tasks used 0.1 of its 4 cores" in why


def test_more_declared_than_the_host_has_is_not_trusted() -> None:
    (why,) = judge(host_cores=1)["why"]
    assert "declared 2 host cores and the host has 1" in why


def test_a_limit_that_did_not_hold_names_the_node_and_a_short_burst_does_not() -> None:
    (why,) = judge(heartbeats=table("heartbeats", heartbeats(1.3)))["why"]
    assert why.startswith("Node n1 used 1.30 times its declared cpu rate")
    burst = [row | ({"cpu_util": 3.0} if row["t"] == 7.0 else {}) for row in heartbeats(0.7)]
    assert judge(heartbeats=table("heartbeats", burst))["trusted"]


def test_an_unsampled_host_is_not_trusted_and_a_simulated_one_needs_no_samples() -> None:
    assert "not sampled" in judge(host_samples=[])["why"][0]
    assert judge(host_samples=[], machines="sim", host_cores=1)["trusted"]


def test_runs_together_are_as_good_as_the_worst() -> None:
    both = combine([judge(), judge(host_cores=1), judge(host_cores=1)])
    assert not both["trusted"] and len(both["why"]) == 1
    assert not combine([])["trusted"]


def test_a_run_without_heartbeats_has_no_achieved_rates() -> None:
    found = judge(heartbeats=table("heartbeats", []))
    assert found["limits"]["cpu"]["achieved_max"] is None


def test_each_node_is_told_with_its_own_limits_and_runs_together_give_the_higher() -> None:
    rows = [heartbeat | {"node": node} for heartbeat in heartbeats(0.9) for node in ("n1", "n2")]
    low = judge(heartbeats=table("heartbeats", [row | {"cpu_util": 0.2} for row in rows]))
    slow_n2 = [row | ({"cpu_util": 0.5, "memory_bytes": 3} if row["node"] == "n2" else {}) for row in rows]
    high = judge(heartbeats=table("heartbeats", slow_n2))
    nodes = combine([low, high])["limits"]["cpu"]["nodes"]
    assert nodes["n1"]["achieved_max"] == pytest.approx(0.9 * nodes["n1"]["configured"])
    assert nodes["n2"]["achieved_max"] == pytest.approx(0.5 * nodes["n2"]["configured"])
    assert high["limits"]["memory"]["nodes"]["n2"]["achieved_max"] == pytest.approx(3)


def test_a_node_that_was_not_there_for_long_is_told_without_what_it_achieved() -> None:
    brief = [{"t": t / 2, "node": "n2", "cpu_util": 0.9} for t in range(3)]
    rows = [row | {"node": "n1"} for row in heartbeats(0.5)] + brief
    limit = judge(heartbeats=table("heartbeats", rows))["limits"]["cpu"]
    assert limit["node"] == "n1" and limit["nodes"]["n1"]["achieved_p95"] == pytest.approx(0.5)
    assert limit["nodes"]["n2"] == {"configured": 1.0, "achieved_p95": None, "achieved_max": None}
    both = combine(
        [{"limits": {"cpu": limit}, "why": [], "host_cpu_saturated": 0.0, "trusted": True, "machines": "x"}]
        * 2
    )
    assert both["limits"]["cpu"]["nodes"] == limit["nodes"]


def test_twice_a_limit_in_one_window_of_many_is_not_trusted() -> None:
    rows = [
        row | ({"cpu_util": 1.5} if 50.0 <= row["t"] < 55.0 else {}) for row in heartbeats(0.7, seconds=300)
    ]
    (why,) = judge(heartbeats=table("heartbeats", rows), counted={"cpu": "kernel"})["why"]
    assert why == (
        "Node n1 used 1.50 times its declared cpu rate over 5 s by the kernel's count: the limit did not hold."
    )


def test_every_node_beyond_its_limit_is_named_the_worst_first() -> None:
    used = {"n1": 1.3, "n2": 1.6}
    rows = [heartbeat | {"node": node} for node, cpu in used.items() for heartbeat in heartbeats(cpu)]
    (why,) = judge(heartbeats=table("heartbeats", rows))["why"]
    assert why.startswith("Node n2 used 1.60 times its declared cpu rate") and "so did n1 (1.30)" in why


def test_memory_beyond_a_node_is_doubted_only_by_the_kernels_count() -> None:
    held = {"memory_bytes": int(1.5 * NODES[0]["memory_bytes"])}
    rows = table("heartbeats", [row | held for row in heartbeats(0.5)])
    assert judge(heartbeats=rows, counted={"memory": "agent"})["trusted"]
    (why,) = judge(heartbeats=rows, counted={"memory": "kernel"})["why"]
    assert "times its declared memory by the kernel's count" in why


def test_a_limit_says_what_holds_it_and_who_counted() -> None:
    found = judge(enforced={"disk": "software"}, counted={"disk": "agent"})["limits"]
    assert (found["disk"]["enforced"], found["disk"]["counted"]) == ("software", "agent")
    assert (found["cpu"]["enforced"], found["cpu"]["counted"]) == (None, None)
