"""Tests `workload: {generate: ...}`: jobs drawn from the seed with the distributions that the scenario
declares.
"""

from __future__ import annotations

from typing import Any

import pytest

from schedbed import run
from schedbed.deploy.scenario.resolve import resolve
from schedbed.deploy.scenario.resolved import ResolvedScenario
from schedbed.tasks.errors import BadInput

MIB = 2**20
CLUSTER = {"nodes": 5, "node": {"cores": 2, "map_slots": 2, "reduce_slots": 1}}


def resolved(
    scale: float = 1.0, seed: int = 5, beside: dict[str, Any] | None = None, **generate: Any
) -> ResolvedScenario:
    asked = {"jobs": 60, "arrivals": {"poisson": "30s"}, **generate}
    workload = {"generate": asked, **(beside or {})}
    return resolve(
        {"seed": seed, "scale": scale, "cluster": CLUSTER, "workload": workload, "policies": ["fifo"]}
    )


def input_bytes(scenario: ResolvedScenario) -> list[int]:
    return [sum(cost.read_bytes for cost in job.map_costs) for job in scenario.jobs]


def test_poisson_arrivals_and_heavy_tailed_sizes() -> None:
    """Sixty gaps have a mean near 30 s.

    Half of the sizes, of a Pareto law of shape 1, are below twice the minimum.
    """
    jobs = resolved(input={"least": "64MiB", "most": "4GiB"}).jobs
    submits = [job.submit_s for job in jobs]
    assert submits == sorted(submits) and 20 < submits[-1] / 60 < 45
    sizes = sorted(input_bytes(resolved(input={"least": "64MiB", "most": "4GiB"})))
    assert sizes[0] >= 64 * MIB * 0.99 and sizes[-1] <= 4097 * MIB and sizes[-1] > 8 * sizes[0]
    assert 1.5 < sizes[30] / (64 * MIB) < 3
    assert {job.user for job in jobs} == {"u1", "u2", "u3", "u4", "u5"}
    assert all(job.deadline_s is None for job in jobs)


def test_the_seed_decides_and_scale_shrinks_durations_and_bytes() -> None:
    assert resolved() == resolved()
    assert input_bytes(resolved()) != input_bytes(resolved(seed=6))
    large, small = resolved(), resolved(scale=0.1)
    assert [job.submit_s for job in small.jobs] == pytest.approx([job.submit_s / 10 for job in large.jobs])
    assert sum(input_bytes(small)) == pytest.approx(sum(input_bytes(large)) / 10, rel=1e-3)


def test_deadlines_are_factors_of_the_time_alone() -> None:
    """With a fixed factor of 2, each job has twice as long until its deadline as with a fixed factor of 1."""
    once, twice = (
        [
            job.deadline_s - job.submit_s
            for job in resolved(deadline={"least": f, "most": f}).jobs
            if job.deadline_s
        ]
        for f in (1, 2)
    )
    assert len(once) == 60 and twice == pytest.approx([2 * left_s for left_s in once])
    drawn = [job.deadline_s - job.submit_s for job in resolved(deadline={}).jobs if job.deadline_s]
    factors = [a / b for a, b in zip(drawn, once, strict=True)]
    assert min(factors) >= 1 and max(factors) <= 3 and max(factors) - min(factors) > 1


def test_arrivals_by_threshold_come_sooner_when_more_load_is_allowed() -> None:
    """Each job arrives as soon as the total load of the running jobs permits, so earlier with a higher
    threshold.
    """
    submits = {
        threshold: [job.submit_s for job in resolved(arrivals={"threshold": threshold}, deadline={}).jobs]
        for threshold in (0.5, 0.95)
    }
    assert submits[0.95][0] == submits[0.5][0] == 0
    assert submits[0.5][-1] > 1.3 * submits[0.95][-1] > 0
    assert all(times == sorted(times) for times in submits.values())


def test_popular_files_are_read_by_several_jobs() -> None:
    scenario = resolved(files={"count": 10, "exponent": 1})
    readers = sorted(
        (sum(job.input == file.path for job in scenario.jobs) for file in scenario.inputs), reverse=True
    )
    assert len(readers) <= 10 and sum(readers) == 60
    assert readers[0] >= 3 * readers[-1]


@pytest.mark.parametrize(
    ("generate", "message"),
    [
        ({"arrivals": {}}, "expected poisson: DURATION or threshold: SHARE of the slots, one of the two"),
        ({"arrivals": {"poisson": "1s", "threshold": 1}}, "one of the two"),
        (
            {"arrivals": {"poisson": "0s"}},
            "workload.generate: mean_gap_s: 0 is not possible, expected above 0",
        ),
        ({"input": {"least": "2MiB", "most": "1MiB"}}, "expected a range"),
        ({"deadline": {"least": 3, "most": 1}}, "deadline factors from 3 to 1: expected a range above 0"),
        ({"jobs": 0}, "workload.generate.jobs: 0 is not at least 1"),
        ({"sizes": 3}, "workload.generate.sizes: unknown key"),
    ],
)
def test_nonsense_is_told_in_a_line(generate: dict[str, Any], message: str) -> None:
    with pytest.raises(BadInput) as raised:
        resolved(**generate)
    assert message in str(raised.value)


def test_only_the_keys_that_mean_something_stand_beside_it() -> None:
    maps = [sum(job.maps for job in resolved(beside={"block": size}).jobs) for size in ("64MiB", "128MiB")]
    assert maps[0] > 1.4 * maps[1]
    with pytest.raises(BadInput) as raised:
        resolved(beside={"traced_nodes": 600})
    assert "workload.traced_nodes: only goes with trace: FILE, not with generate" in str(raised.value)


def test_a_generated_workload_runs() -> None:
    scenario = resolved(jobs=8, scale=0.1, arrivals={"threshold": 0.9}, deadline={})
    jobs = run(scenario, machines="sim", policies=["aria:profiles=none"]).jobs
    assert len(jobs) == 8 and set(jobs["state"]) == {"succeeded"}


@pytest.mark.parametrize("load", [0.3, 0.8])
def test_arrivals_of_a_load_keep_that_share_of_the_scarcer_slots_busy(load: float) -> None:
    """The work that arrives per second and slot equals the load, except for the randomness of the gaps.

    The work counts for the kind of slots, map or reduce, that is needed more.
    """
    jobs = resolved(jobs=600, arrivals=None, load=load, input={"least": "64MiB", "most": "256MiB"}).jobs
    work = [
        sum(cost.cpu_s + (cost.read_bytes + cost.write_bytes) / 40e6 for cost in job.map_costs)
        for job in jobs
    ]
    fetched = [sum(cost.write_bytes for cost in job.map_costs) for job in jobs]
    reduced = [
        sum(cost.cpu_s + cost.write_bytes / 40e6 for cost in job.reduce_costs) + bytes_ / 40e6
        for job, bytes_ in zip(jobs, fetched, strict=True)
    ]
    arriving = max(sum(work) / 10, sum(reduced) / 5) / jobs[-1].submit_s
    assert arriving == pytest.approx(load, rel=0.12)  # 600 exponential gaps: 4% standard deviation


def test_arrivals_or_a_load_one_of_the_two() -> None:
    asked: dict[str, Any]
    for asked in ({"arrivals": None}, {"load": 0.5}):
        with pytest.raises(BadInput, match=r"expected arrivals: \{poisson or threshold\} or load"):
            resolved(**asked)
