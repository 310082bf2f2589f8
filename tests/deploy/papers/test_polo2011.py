"""Tests the experiments of polo2011 (RAS) on small runs, the computed values, and the policy for Fair's
slots.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from schedbed.deploy.papers import paper_file
from schedbed.deploy.papers.bench import Bench
from schedbed.deploy.papers.polo2011 import hardware_map, nine_jobs, ras_figures, ras_idle
from schedbed.deploy.results.metrics import RunTables
from schedbed.deploy.scenario.resolve import resolve
from schedbed.scheduler.models.resource_profiles import read_profile

ABOUT = paper_file.load("polo2011").experiments


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    """Return a bench that simulates the nine jobs with a twentieth of their maps on four nodes.

    Fair runs with one and with four slots.
    """
    full = nine_jobs.job

    def small(*arguments: Any, **options: Any) -> dict[str, Any]:
        job = full(*arguments, **options)
        return {**job, "maps": max(2, job["maps"] // 20), "reduces": min(2, job["reduces"])}

    for module in (nine_jobs, ras_figures):
        monkeypatch.setattr(module, "job", small)
    monkeypatch.setattr(nine_jobs, "SLOTS", (1, 4))
    small_size = nine_jobs.Size(4, 0.25)
    for module in (nine_jobs, hardware_map):
        monkeypatch.setattr(module, "QUARTER", small_size)
    monkeypatch.setattr(hardware_map, "TRIED", (4,))
    return Bench(tmp_path, machines="sim", repeats=1, seed=5)


def test_the_utility_is_as_the_text_says() -> None:
    measured = ras_figures.fig2(Bench(Path(), machines="sim", repeats=1, seed=0))
    assert {key: measured.samples(key)[0] for key in measured.values} == {
        "required": 0,
        "all": 1,
        "no_reduce": 1,
        "falls": 0,
        "none": 1,
    }
    assert ras_figures.utility(5, 10) == pytest.approx(-0.4628, abs=1e-4)  # log 5 / log 20 - 1


def test_fair_keeps_to_fewer_slots_than_the_node_has(tmp_path: Path) -> None:
    asked = nine_jobs.scenario(
        [{"app": "synthetic", "maps": 40, "map": {"cpu": "10s"}, "reduces": 0}],
        [nine_jobs.fair_spec(1), nine_jobs.fair_spec(3)],
        nine_jobs.Size(4, 0.2),
    )
    finished = Bench(tmp_path, machines="sim", repeats=1, seed=0).run("slots", asked)
    for policy, most in zip(finished.policies, (1, 3), strict=True):
        attempts = finished.of(policy).attempts
        for _, mine in attempts.groupby("node"):
            begins = ((t, sum((mine["assigned"] <= t) & (t < mine["end"]))) for t in mine["assigned"])
            assert max(running for _, running in begins) == most


def test_goals_are_since_the_submission() -> None:
    tight = nine_jobs.goals(tight=True)
    assert (tight["J1"], tight["J2"], tight["J9"]) == (3000, 750, 500)
    assert set(nine_jobs.goals(tight=False).values()) == {nine_jobs.RELAXED_S}


def test_all_experiments_have_one_cluster_and_live_ones_the_same_at_a_smaller_scale() -> None:
    simulated = nine_jobs.experiment1(nine_jobs.QUARTER)
    assert nine_jobs.experiment2(nine_jobs.QUARTER)["cluster"] == simulated["cluster"]
    other = nine_jobs.on_hardware(nine_jobs.QUARTER, nine_jobs.PAPER_NODE, (4,))["cluster"]
    assert other == simulated["cluster"]
    node = simulated["cluster"]["node"]
    assert (node["disk"]["seek"], node["memory"]["paging"]) == (nine_jobs.SEEK, nine_jobs.PAGING)
    live = nine_jobs.experiment1(nine_jobs.LIVE)
    assert live["workload"] == simulated["workload"]
    assert live["cluster"]["node"] | {"core_speed": 1.0} == node
    scale = nine_jobs.LIVE_SCALE
    costs, mine = (resolve({"name": "n", **each}).framework for each in (simulated, live))
    assert (costs.setup_s, costs.out_of_band, costs.maps_per_heartbeat) == (1.6, False, 0)
    assert (mine.setup_s, mine.out_of_band) == (pytest.approx(scale * 1.6), False)
    assert live["cluster"]["heartbeat"] == "0.06s"


def test_full_size_has_four_times_the_nodes_and_maps_and_reduces_that_do_the_same() -> None:
    full, quarter = (nine_jobs.job("J1", 0.0, None, size) for size in (nine_jobs.FULL, nine_jobs.QUARTER))
    assert nine_jobs.FULL.nodes == 4 * nine_jobs.QUARTER.nodes
    assert quarter["maps"] == -(-full["maps"] // 4)
    assert full["reduces"] == 4 * quarter["reduces"]
    assert (full["map"], full["reduce"]) == (quarter["map"], quarter["reduce"])


def test_tasks_have_the_shares_of_table_2() -> None:
    made = nine_jobs.job("J7", 0.0, None, nine_jobs.FULL)
    took_s = nine_jobs.MAPS_S["combine"]
    assert float(made["map"]["cpu"].removesuffix("s")) == pytest.approx(0.25 * nine_jobs.CORES * took_s)
    assert int(made["map"]["read"].removesuffix("B")) + 64_000 == pytest.approx(
        0.1 * nine_jobs.DISK_BPS * took_s
    )
    assert made["map"]["memory"] == f"{int(0.1 * nine_jobs.MEMORY_BYTES)}B"


def test_j3_and_j4_have_each_other_s_size_unless_the_printed_ones_are_asked_for() -> None:
    mine, printed = nine_jobs.sizes_gb(), nine_jobs.sizes_gb(printed=True)
    assert (mine["J3"], mine["J4"]) == (25, 10)
    assert (printed["J3"], printed["J4"]) == (10, 25)
    assert {**mine, "J3": 0, "J4": 0} == {**printed, "J3": 0, "J4": 0}


def test_profiles_follow_the_node() -> None:
    """Demands are shares of the node: with 8 cores a map of Sort uses 3/8 of 30% CPU.

    On a disk of 2 GB/s it uses a fiftieth of 45% I/O.
    """
    profile = read_profile(nine_jobs.ras()["ras"]["profiles"]["J1"])
    asked = nine_jobs.on_hardware(nine_jobs.QUARTER, nine_jobs.NodeHardware(cores=8, disk_bps=2e9), (4,))
    (spec, *_) = resolve(asked).cluster.nodes
    assert profile.on(spec).map == pytest.approx((30 * 3 / 8, 45 / 50, 25, 0))


@pytest.mark.slow  # simulates whole experiments
def test_experiments_1_and_2_report_what_the_yaml_knows(bench: Bench) -> None:
    sweep = ras_figures.fig3(bench)
    assert set(sweep.values) == set(ABOUT["fig3"].values)
    fair_s, (ras_s,) = sweep.series["fair"], sweep.series["ras"]
    assert sweep.series["slots"] == (1, 4)
    assert sweep.samples("gain_most") == [pytest.approx(100 * (max(fair_s)[0] / ras_s - 1))]
    assert sweep.samples("best_slots") == [4.0 if fair_s[1] < fair_s[0] else 1.0]
    submits_s = nine_jobs.said()["submits"].numbers
    ends_s = [sweep.samples(name)[0] + s for name, s in zip(nine_jobs.JOBS, submits_s, strict=True)]
    assert max(ends_s) == pytest.approx(ras_s, rel=0.01)

    over_time = ras_figures.fig4(bench)
    assert set(over_time.values) == set(ABOUT["fig4"].values)
    assert 0 <= over_time.samples("fewer")[0] <= 100
    ras = over_time.series["RAS"]
    assert ras["sort maps"].max() > 0 and ras["cpu"].max() > 0

    utilities = ras_figures.fig5(bench)
    assert set(utilities.values) == set(ABOUT["fig5"].values)
    assert set(utilities.series["utilities"]["name"]) <= set(nine_jobs.JOBS)
    assert utilities.samples("satisfied")[0] > 50

    tight = ras_figures.fig6(bench)
    assert set(tight.values) == set(ABOUT["fig6"].values)
    since_s = nine_jobs.goals(tight=True)
    met = sum(tight.samples(name)[0] <= since_s[name] for name in nine_jobs.JOBS)
    assert tight.samples("met") == [met]


@pytest.mark.slow  # simulates twelve kinds of nodes
def test_the_map_has_a_gain_for_each_node(bench: Bench) -> None:
    mapped = hardware_map.hardware_map(bench)
    assert set(mapped.values) == set(ABOUT["map"].values)
    assert mapped.samples("nvme_c8_ras")[0] < mapped.samples("old_c3_ras")[0]


def test_idle_cpu_counts_for_what_the_nearest_map_lacks() -> None:
    """A map of Sort (J1) uses 30% of the CPU, 45% of the disk and 25% of the memory: a third map finds no I/O.

    The node is half idle for 10 s with room for a second map, for 10 s with two maps, and for 20 s without a
    map to start.
    """
    maps = [(0.0, 40.0), (10.0, 40.0), (20.0, 40.0)]
    attempts = pd.DataFrame(maps, columns=["assigned", "end"]).assign(
        job="j", kind="map", node="n1", shuffle_end=0.0
    )
    heartbeats = pd.DataFrame({"t": [0.0, 10.0, 20.0, 40.0], "node": "n1", "cpu_util": 0.5})
    jobs = pd.DataFrame([{"job": "j", "name": "J1", "maps": 3, "submit": 0.0, "finish": 40.0}])
    tables = {"attempts": attempts, "heartbeats": heartbeats, "jobs": jobs}
    found = ras_idle.idle(RunTables("ras", 0, tables, ({"node": "n1"},)))
    assert found == pytest.approx(
        {"idle": 50, "idle_room": 12.5, "idle_io": 12.5, "idle_no_map": 25, "idle_cpu": 0, "idle_memory": 0}
    )


def test_the_settings_of_ras_differ_in_one_thing_each_from_the_usual() -> None:
    asked = {key: each["ras"] for key, each in ras_idle.settings().items()}
    usual = asked[ras_idle.USUAL]
    assert usual == nine_jobs.ras()["ras"] | {"capacity": 100, "steps": 100}
    assert asked[f"{ras_idle.USUAL}_memory"]["profiles"]["J1"]["shuffle"] == {"io": 0.15, "memory": 60}
    assert set(asked) < set(ABOUT["knobs"].values)


@pytest.mark.slow  # seconds
def test_jobs_alone_take_their_time_and_maps_use_what_they_are_built_to(bench: Bench) -> None:
    measured = ras_figures.table1(bench)
    assert set(measured.values) <= set(ABOUT["table1"].values)
    assert measured.samples("J4_printed")[0] > measured.samples("J4_alone")[0]
    assert 0 < measured.samples("combine_map_io")[0] < measured.samples("combine_map_cpu")[0] <= 50
