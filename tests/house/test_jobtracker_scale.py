"""The model of schedulers that share slots, and the arithmetic of a JobTracker's load."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.bench.figures import ROOT
from tests.bench.jobtracker_load import BeatCosts, Load, Measured, hadoop_interval_s
from tests.bench.shared_slots import Case, conflict_probability, schedulers_needed, simulate

CASE = Case(slots=4_000, free_share=0.25, task_s=30.0, schedulers=1, decision_s=0.008, seconds=60.0)
FREE = CASE.slots * CASE.free_share


def with_crew(decision_s: float, **changes: float) -> Case:
    """Return the case with schedulers that keep up."""
    crew = schedulers_needed(CASE.launches_per_s, decision_s, FREE)
    return replace(CASE, decision_s=decision_s, schedulers=crew, **changes)


def test_one_scheduler_has_no_conflicts_and_keeps_up() -> None:
    outcome = simulate(CASE)
    assert outcome.conflicts == 0
    assert outcome.launches / outcome.seconds == pytest.approx(CASE.launches_per_s, rel=0.05)


def test_one_scheduler_that_is_too_slow_decides_without_a_pause() -> None:
    """With more work than time, it launches one task in each decision time, and the waits grow."""
    slow = simulate(replace(CASE, decision_s=0.02))
    assert slow.launches / slow.seconds == pytest.approx(1 / 0.02, rel=0.01)
    assert slow.wait_s / slow.launches > 10 * simulate(CASE).wait_s / simulate(CASE).launches


def test_conflicts_grow_with_the_time_of_a_decision() -> None:
    shares = [simulate(with_crew(decision_s)).conflict_share for decision_s in (0.02, 0.2, 2.0)]
    assert 0 < shares[0] < shares[1] < shares[2] < 1


@pytest.mark.parametrize("decision_s", [0.5, 1.0, 3.0])
def test_the_simulated_share_of_conflicts_is_that_of_the_formula(decision_s: float) -> None:
    case = with_crew(decision_s, seconds=240.0, warm_s=90.0)
    expected = conflict_probability(case.launches_per_s, decision_s, case.schedulers, FREE)
    assert simulate(case).conflict_share == pytest.approx(expected, rel=0.15)


def test_the_formula_has_its_limits() -> None:
    assert conflict_probability(100.0, 1.0, 1, 50.0) == 0
    assert conflict_probability(100.0, 1.0, 2, 1e9) == pytest.approx(50 / 1e9)
    assert conflict_probability(100.0, 1.0, 10, 1e-3) == 1


def test_schedulers_that_are_needed_keep_up_and_half_of_them_do_not() -> None:
    enough = with_crew(1.0, seconds=120.0, warm_s=60.0)
    wanted = enough.launches_per_s
    rates = [
        outcome.launches / outcome.seconds
        for outcome in (
            simulate(enough),
            simulate(replace(enough, schedulers=enough.schedulers // 2)),
        )
    ]
    assert rates[0] == pytest.approx(wanted, rel=0.05)
    assert rates[1] < 0.8 * wanted


def test_shards_have_no_conflicts_but_tasks_that_wait_beside_free_slots() -> None:
    shared = replace(CASE, schedulers=8, decision_s=0.05, job_tasks=100)
    outcomes = {shards: simulate(replace(shared, shards=shards)) for shards in (1, 8)}
    assert outcomes[1].conflicts > 0 and outcomes[1].blocked_s == 0
    assert outcomes[8].conflicts == 0 and outcomes[8].blocked_s > 0
    assert outcomes[8].wait_s / outcomes[8].launches > outcomes[1].wait_s / outcomes[1].launches


def test_jobs_that_go_to_the_least_loaded_shard_wait_less() -> None:
    random = replace(CASE, schedulers=8, shards=8, decision_s=0.05, job_tasks=100)
    waits = [simulate(each).wait_s for each in (random, replace(random, balanced=True))]
    assert waits[1] < waits[0]


def test_the_same_seed_gives_the_same_counts() -> None:
    case = with_crew(0.5)
    assert simulate(case) == simulate(case)
    assert simulate(case) != simulate(replace(case, seed=2))


def test_heartbeats_of_a_full_cluster() -> None:
    load = Load(nodes=100_000)
    assert round(load.periodic_per_s) == 33_333 and round(load.ends_per_s) == 13_333
    assert load.changing_share == pytest.approx(2 / 7)
    assert [hadoop_interval_s(nodes) for nodes in (10, 1_000, 100_000)] == [0.3, 10, 1_000]


def test_at_the_shortest_interval_one_core_is_full() -> None:
    costs, load = BeatCosts(quiet_s=1e-4, busy_s=2e-4), Load(nodes=10_000)
    shortest_s = costs.shortest_interval_s(load)
    assert shortest_s is not None
    assert costs.cores(replace(load, interval_s=shortest_s)) == pytest.approx(1.0)
    assert costs.shortest_interval_s(Load(nodes=100_000)) is None


def test_parts_of_the_live_costs_add_up() -> None:
    """The whole JobTracker costs more than its core with the journal, and that more than the core alone."""
    measured = Measured.load(Path(ROOT) / "docs" / "results" / "figures")
    for nodes in (1_000, 10_000, 100_000):
        costs = [
            each("fair", 100, nodes)
            for each in (measured.core_costs, measured.kept_costs, measured.live_costs)
        ]
        assert costs[0].quiet_s < costs[1].quiet_s < costs[2].quiet_s
        assert costs[0].busy_s < costs[1].busy_s < costs[2].busy_s
        assert costs[2].quiet_s - costs[1].quiet_s == pytest.approx(measured.messages_s)
