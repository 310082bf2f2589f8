"""Tests the experiments of verma2011 (ARIA) on small runs: the values computed from tables, and the drawn
jobs.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest

from schedbed.deploy.papers import paper_file
from schedbed.deploy.papers.bench import Bench
from schedbed.deploy.papers.figures import draw
from schedbed.deploy.papers.verdict import Exact
from schedbed.deploy.papers.verma2011 import arrivals, job_phases, slo_slots, spawned_jobs
from schedbed.deploy.papers.verma2011.slo_slots import profile_of, wikitrends
from schedbed.deploy.results.metrics import RunTables
from schedbed.deploy.scenario.resolve import resolve
from schedbed.scheduler.models.job_profile import JobProfile, Times

ABOUT = paper_file.load("verma2011").experiments
TABLE2 = ABOUT["table2"].values


def bench(folder: Path, repeats: int = 1) -> Bench:
    return Bench(folder, machines="sim", repeats=repeats, seed=4)


def test_the_model_gives_the_printed_table() -> None:
    profile = wikitrends(ABOUT["fig5"].values)
    top = (
        profile.map.max_s + profile.first_shuffle.max_s + profile.typical_shuffle.max_s + profile.reduce.max_s
    )
    assert top == pytest.approx(ABOUT["fig5"].values["maxima"].number)
    for bound in ("low", "avg", "up"):
        for slo_s in slo_slots.SLOS_S:
            asked = slo_slots._asked(profile, 71, 64, bound, slo_s, 64)
            assert list(asked) == ABOUT["fig5"].values[f"{bound}_{slo_s}"].value


def test_the_cheapest_point_of_the_curve_is_between_its_ends(tmp_path: Path) -> None:
    measured = slo_slots.fig4(bench(tmp_path))
    points = measured.series["points"]
    assert sum(points["C"]) < min(sum(points["A"]), sum(points["B"]))
    assert points["B"][0] < points["C"][0] < points["A"][0]
    draw(tmp_path / "a.svg", slo_slots.EXPERIMENTS[0], ABOUT["fig4"].values, measured)
    assert "<svg" in (tmp_path / "a.svg").read_text()


@pytest.mark.slow  # seconds
def test_jobs_run_with_the_slots_that_their_names_say(tmp_path: Path) -> None:
    """The job of Figure 5 runs with at most 5 map and 2 reduce slots, then with at most 15 map slots."""
    plain = slo_slots.job(live=True)  # 18 maps, 16 reduces
    jobs = [plain | {"name": "w@5x2"}, plain | {"name": "w@15x15", "submit": "3000s"}]
    few = slo_slots.scenario(jobs, [slo_slots.SPEC], live=True)
    finished = bench(tmp_path).run("fixed", few)
    attempts = finished.of(finished.policies[0]).attempts
    for job, kind, most in (("job_0001", "map", 5), ("job_0001", "reduce", 2), ("job_0002", "map", 15)):
        mine = attempts[(attempts["job"] == job) & (attempts["kind"] == kind)]
        at_once = [int(((mine["start"] <= t) & (mine["end"] > t)).sum()) for t in mine["start"]]
        assert max(at_once) == most
    with pytest.raises(ValueError, match="does not end in @"):
        slo_slots.slots_of("w")


def test_the_jobs_of_figure_5_ask_by_their_own_profile() -> None:
    slow = JobProfile(map=Times(90.0, 110.0), first_shuffle=Times(10.0, 12.0), reduce=Times(16.0, 17.0))
    jobs = slo_slots.jobs_by_bound(slow, slo_slots.job(live=False), slo_slots.SLOTS)
    assert len({job["submit"] for job in jobs}) == len(jobs) == 16
    slots = [slo_slots.slots_of(job["name"]) for job in jobs]
    for bound in range(4):  # a later deadline never asks for more
        asked = [sum(each) for each in slots[4 * bound : 4 * bound + 4]]
        assert asked == sorted(asked, reverse=True)


def attempts_of(rows: list[dict[str, Any]]) -> RunTables:
    columns = ("task", "kind", "node", "assigned", "start", "end", "sort_end", "shuffle_end")
    frame = pd.DataFrame([{column: row.get(column, float("nan")) for column in columns} for row in rows])
    more = {"job": "job_0001", "state": "succeeded", "length": 10, "output_bytes": 20, "shuffle_bytes": 5}
    return RunTables("fifo", 0, {"attempts": frame.assign(**more)}, ())


def task(
    name: str, kind: str, node: str, start: float, end: float, sort_end: float = float("nan")
) -> dict[str, Any]:
    return {
        "task": name,
        "kind": kind,
        "node": node,
        "assigned": start,
        "start": start,
        "end": end,
        "sort_end": sort_end,
    }


RUN = attempts_of(
    [
        task("m0", "map", "n1", 0, 10),
        task("m1", "map", "n2", 0, 14),
        task("m2", "map", "n1", 10, 20),
        task("r0", "reduce", "n1", 12, 30, sort_end=23),  # 3 s after the last map
        task("r1", "reduce", "n1", 30, 45, sort_end=35),  # a whole shuffle of 5 s
    ]
)


def test_a_profile_is_made_of_the_attempts_table() -> None:
    profile = profile_of(RUN, "job_0001")
    assert profile.map == pytest.approx((34 / 3, 14)) and profile.map_min_s == 10
    assert (profile.first_shuffle.avg_s, profile.typical_shuffle.avg_s) == (3, 5)
    assert profile.reduce == pytest.approx((8.5, 10)) and profile.map_selectivity == 2
    with pytest.raises(ValueError, match="no map"):
        profile_of(RUN, "job_0002")


def test_waves_are_counted_by_machine() -> None:
    assert (job_phases.waves_of(RUN, "map"), job_phases.waves_of(RUN, "reduce")) == (2, 2)
    assert job_phases._overlapping(RUN) == 50


def test_machines_that_ran_one_reduce_more_had_short_ones() -> None:
    """A machine that ran more reduces than the rounded-up mean per machine is listed.

    Here two machines ran four reduces, three of them on `n1`. The last map ends at 10 s.
    """
    run = attempts_of(
        [
            task("m0", "map", "n1", 0, 10),
            task("r0", "reduce", "n1", 5, 14, sort_end=12),
            task("r1", "reduce", "n1", 14, 18, sort_end=15),
            task("r2", "reduce", "n1", 18, 22, sort_end=19),
            task("r3", "reduce", "n2", 5, 30, sort_end=12),
        ]
    )
    busier = job_phases._busier(run)
    assert busier == ["n1"] and job_phases._busier(RUN) == []
    assert job_phases._lengths([RUN], [[]]) == []
    (note,) = job_phases._lengths([run], [busier])
    assert "took 4.0 s after the map stage on average, and 20.0 s on the other" in note


def test_machines_have_a_slot_of_a_kind_or_none() -> None:
    groups = job_phases.sort_job(16, 22, live=False)["cluster"]["nodes"]
    assert (sum(g["map_slots"] for g in groups), sum(g["reduce_slots"] for g in groups)) == (16, 22)
    live = job_phases.sort_job(16, 22, live=True)["cluster"]["nodes"]
    assert (len(live), sum(g["map_slots"] for g in live), sum(g["reduce_slots"] for g in live)) == (8, 2, 3)


def month(map_s: float, took_s: float, slots: int = 4) -> job_phases.Month:
    profile = JobProfile(
        map=Times(map_s, map_s),
        first_shuffle=Times(1, 1),
        typical_shuffle=Times(2, 2),
        reduce=Times(10, 10),
        map_input_bytes=100.0,
    )
    return job_phases.Month(profile=profile, took_s=took_s, maps=8, reduces=4, slots=(slots, slots))


def test_figure_3_predicts_from_september(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A job is predicted with the mean of ARIA's bounds, computed from the job of September.

    With 4 slots, 8 maps of 50 s and 4 reduces of 1 + 10 s, the lower bound is 100 + 1 + 10 s, and the upper
    bound is 137.5 + 1 + 2 + 17.5 s.
    """
    jobs = {name: [month(50, 120)] for name in job_phases.JOBS}
    monkeypatch.setattr(job_phases, "run_months", lambda _: jobs)
    measured = job_phases.fig3(bench(tmp_path))
    assert measured.samples("oct_64") == pytest.approx([100 * abs(134.5 / 120 - 1)])
    assert measured.samples("oct_64_within") == [1.0]


def test_table_1_compares_jobs_and_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    jobs = {name: [month(100, 1), month(102, 1)] for name in job_phases.JOBS}
    jobs["oct_64"] = [month(110, 1), month(112.2, 1)]
    monkeypatch.setattr(job_phases, "run_months", lambda _: jobs)
    measured = job_phases.table1(bench(tmp_path))
    assert set(measured.values) == set(ABOUT["table1"].values)
    assert measured.samples("spread_map") == pytest.approx([100 * 10 / 102.5] * 2)
    assert measured.samples("variation") == pytest.approx([100 / 101] * 2)


def test_the_months_are_smaller_alike() -> None:
    for live, size in ((False, job_phases.SMALLER), (True, job_phases.LIVE_MONTHS)):
        jobs = job_phases.scenario("256", live=live)["workload"]["jobs"]
        assert [job["maps"] for job in jobs] == [720 // size, 740 // size]
    assert resolve(job_phases.scenario("64", live=False)).framework.fetch_rate == 11e6
    assert resolve(job_phases.scenario("64", live=False)).framework.fetch_poll_s == 4.5
    assert resolve(job_phases.scenario("64", live=True)).framework.is_none


def test_w1_and_w2_are_table_2(tmp_path: Path) -> None:
    measured = spawned_jobs.drawn_jobs(bench(tmp_path))
    for app in arrivals.APPS:
        assert measured.values[f"{app}_maps"] == Exact(value=tuple(TABLE2[f"{app}_maps"].numbers))
        assert measured.samples(f"{app}_map_s")[0] == pytest.approx(TABLE2[f"{app}_map_s"].number, rel=0.03)


@pytest.mark.parametrize("name", ["W1", "W2"])
def test_deadlines_are_up_to_three_times_the_time_alone_and_can_be_spawned(name: str) -> None:
    jobs = arrivals.workload(name, 20, 0.9, 5)
    assert jobs == arrivals.workload(name, 20, 0.9, 5) != arrivals.workload(name, 20, 0.9, 6)
    for job in jobs:
        alone_s = job.profile.map.avg_s + job.profile.reduce.avg_s
        assert job.deadline_s > alone_s and job.load <= 0.9
        assert job.profile.map.max_s == max(job.maps_s)


@pytest.mark.slow  # seconds
def test_jobs_are_spawned_by_load_and_end_by_their_deadlines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrivals, "W1_REDUCES", 64)
    drawn = arrivals.workload("W1", 6, 0.9, 5, "avg")
    jobs = [replace(job, maps_s=job.maps_s[:40]) for job in drawn]
    calm, busy = (arrivals.simulate_jobs(jobs, threshold, 5, "first_map", "avg") for threshold in (0.9, 1.8))
    assert len(calm.jobs) == 6 and calm.late == 0 and calm.exceeded == 0
    assert calm.load < busy.load < 1
    assert max(submit for submit, _, _ in calm.jobs) > max(submit for submit, _, _ in busy.jobs)
    late = replace(calm, jobs=((10.0, 40.0, 30.0), (0.0, 9.0, 10.0)))
    assert (late.late, late.exceeded) == (1, pytest.approx(0.5))


def test_table_3_and_figure_7_count_the_simulated_jobs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spans = {"map": [(0.0, 10.0)] * 128, "reduce": [(10.0, 20.0)] * 64}
    outcome = arrivals.Outcome(jobs=((0.0, 20.0, 15.0), (0.0, 10.0, 30.0)), load=0.25, attempts=spans)
    monkeypatch.setattr(spawned_jobs, "simulate_jobs", lambda *_: outcome)
    measured = spawned_jobs.table3(bench(tmp_path), jobs=2)
    assert set(measured.values) == set(ABOUT["table3"].values)
    assert measured.samples("W2_95_late") == [50] and measured.samples("W1_85_load") == [25]
    assert measured.samples("W1_105_exceeded") == pytest.approx([100 * (5 / 15) * 50])
    asked: list[int] = []
    with monkeypatch.context() as patched:
        patched.setattr(spawned_jobs, "workload", lambda _name, jobs, *_: asked.append(jobs) or [])
        spawned_jobs.table3(bench(tmp_path))
        spawned_jobs.table3(Bench(tmp_path, machines="sim", repeats=1, seed=4, full=True))
    assert set(asked) == {spawned_jobs.JOBS, 100}
    shown = spawned_jobs.fig7(bench(tmp_path), jobs=2)
    assert set(shown.values) == set(ABOUT["fig7"].values)
    assert shown.samples("peak_95") == [50] and shown.samples("below_105") == [0.5]


def test_the_upper_bound_asks_for_more_slots_of_the_same_jobs() -> None:
    average, upper = (arrivals.workload("W1", 5, 2.0, 3, bound) for bound in ("avg", "up"))
    assert [each.maps_s for each in average] == [each.maps_s for each in upper]
    assert [each.deadline_s for each in average] == [each.deadline_s for each in upper]
    assert all(few.load < many.load for few, many in zip(average, upper, strict=True))


def test_few_nodes_have_the_testbeds_slots() -> None:
    for kind in ("map_slots", "reduce_slots"):
        few, all_ = (each["nodes"] * each["node"][kind] for each in (arrivals.SLOTS_ALONE, arrivals.TESTBED))
        assert few == all_ == 256


def test_a_round_of_scheduling_fills_all_slots_for_maps() -> None:
    jobs = arrivals.workload("W1", 5, 0.9, 5)
    spent_s, launched = spawned_jobs.round_s(spawned_jobs.setup_for(jobs, 2, 5))
    assert launched == 8
    assert 0 < spent_s < 5


@pytest.mark.slow  # seconds
def test_table_4_reduces_a_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Table 4 is computed from a run of its live scenario, simulated here."""
    monkeypatch.setattr(spawned_jobs, "LIVE_JOBS", 2)
    virtual = bench(tmp_path)
    stage = SimpleNamespace(live=True, repeats=1, seed=4, run=virtual.run, sizes=[])
    measured = spawned_jobs.table4(stage)  # pyright: ignore[reportArgumentType]
    assert set(measured.values) <= set(ABOUT["table4"].values)
    assert 0 < measured.samples("load_95")[0] < 100 and len(measured.samples("accuracy")) == 2
