"""Tests the costs of simulated tasks: declared by jobs, from the shipped table, or measured on this host."""

from __future__ import annotations

from dataclasses import replace

import pandas as pd
import pytest

from schedbed.deploy.results.metrics import RunTables
from schedbed.deploy.scenario.resolve import resolve
from schedbed.deploy.simulated.measure_apps import measure, sample_of
from schedbed.deploy.simulated.task_costs import HANDLING, ScenarioCosts, costs_of
from schedbed.deploy.studies.validate import cpu_factors_of, laws_of
from schedbed.scheduler.simulate.setup import stage_costs
from schedbed.tasks.appkit.app_catalogue import APPS
from schedbed.tasks.appkit.cost_law import AppCosts, Law
from schedbed.tasks.specs import BlockRange, Cost, Split, TaskKind
from schedbed.tasks.workloads.planned import build_job

SORT = {"app": "sort", "input": {"generate": "records", "size": "1MiB"}, "reduces": 2}
WORDS = {"app": "wordcount", "input": {"generate": "text", "size": "1MiB"}, "reduces": 2}
LAW = AppCosts(
    map_start_s=0.1,
    map_cpu_s=1e-6,
    map_sort_s=2e-6,
    map_output=Law(100.0, 0.5),
    map_records=0.01,
    reduce_start_s=0.2,
    reduce_sort_s=3e-6,
    reduce_cpu_s=4e-6,
    output=Law(0.5),
)


def locate(path: str) -> tuple[BlockRange, ...]:
    raise AssertionError(f"{path} was not asked for")


def a_scenario(*jobs: dict, **changes: object):
    return resolve({"workload": {"jobs": list(jobs)}, "policies": ["fifo"], **changes})


def test_every_application_declares_its_costs() -> None:
    """All shipped applications declare costs, except two, since costs measured on the host vary between
    simulations.
    """
    assert {name for name, app in APPS.items() if app.costs is None} == {"streaming", "synthetic"}


def test_an_application_costs_what_its_laws_say() -> None:
    (job,) = a_scenario(SORT).jobs
    split = Split(index=0, file="/in/x", length=10_000)
    spec = replace(
        build_job(replace(job, input=None, maps=2), locate), splits=(split, replace(split, index=1))
    )
    costs = ScenarioCosts({job.job: LAW}, core_speed=0.1)
    mapped = costs.map_cost(spec, 1)
    # 0.1 s + 10,000 x 1 us = 0.11 core-seconds of the host, ten times that on a core of a tenth.
    assert mapped.cpu_s == pytest.approx(1.1)
    # 100 x sqrt(10,000) = 10,000 bytes; sorting them takes 2 us each.
    assert (mapped.output_bytes, mapped.spill_bytes, mapped.read_bytes) == (10_000, 10_000, 10_000)
    assert mapped.sort_cpu_s == pytest.approx(0.2)
    assert mapped.records_in == 100
    reduced = costs.reduce_cost(spec, 0)
    # Each of the two reduces fetches half of 2 x 10,000 bytes, and writes half of 0.5 x 20,000.
    assert reduced.cpu_s == pytest.approx((0.2 + 0.04) / 0.1)
    assert reduced.sort_cpu_s == pytest.approx(0.3)
    assert reduced.output_bytes == 5_000
    assert costs.map_cost(spec, 0) is mapped


def test_the_costs_of_a_stage_are_those_of_its_tasks() -> None:
    (job,) = a_scenario({"app": "synthetic", "maps": 1, "map": {"cpu": "3s"}}).jobs
    short, long, reduce = Cost(cpu_s=1.0, write_bytes=8), Cost(cpu_s=9.0, write_bytes=4), Cost(cpu_s=2.0)
    mixed = replace(job, maps=4, reduces=2, map_costs=(short, long, short, long), reduce_costs=(reduce,) * 2)
    splits = tuple(Split(index=number, file="/in/x", length=10_000) for number in range(4))
    specs = [build_job(replace(mixed, input=None), locate)]
    specs.append(replace(specs[0], job="job_2", map_costs=(), reduce_costs=(), splits=splits))
    for spec in specs:
        costs = ScenarioCosts({"job_2": LAW}, core_speed=0.1)
        for kind, one, count in ((TaskKind.MAP, costs.map_cost, 4), (TaskKind.REDUCE, costs.reduce_cost, 2)):
            found = [cost for cost, times in stage_costs(costs, spec, kind) for _ in range(times)]
            assert found == [one(spec, number) for number in range(count)]


def test_synthetic_jobs_do_what_they_say_and_traced_ones_last_as_long_as_they_did() -> None:
    synthetic = {"app": "synthetic", "maps": 2, "map": {"cpu": "3s", "read": "1MiB", "write": "2MiB"}}
    scenario = a_scenario(synthetic)
    (job,) = scenario.jobs
    timed = replace(job, input=None, map_costs=(Cost(cpu_s=1.0, duration_s=7.5),) * 2)
    cost = costs_of(scenario).map_cost(build_job(replace(job, input=None), locate), 0)
    assert cost.cpu_s == pytest.approx(3.0)
    assert (cost.read_bytes, cost.output_bytes, cost.duration_s) == (2**20, 2**21, None)
    for asked, duration_s in ((True, 7.5), (False, None)):
        costs = ScenarioCosts({}, 0.1, timed=asked)
        assert costs.map_cost(build_job(timed, locate), 1).duration_s == duration_s


def test_moving_data_is_part_of_what_a_synthetic_task_computes() -> None:
    job_of = {
        "app": "synthetic",
        "maps": 4,
        "map": {"cpu": "1s", "read": "64MiB", "write": "64MiB"},
        "reduces": 2,
    }
    (job,) = a_scenario({**job_of, "reduce": {"cpu": "9s", "write": "1MiB"}}).jobs
    costs, spec = ScenarioCosts({}, 0.1), build_job(replace(job, input=None), locate)
    # 3.3 ms + 64 MiB x (1 + 3.3) ns = 0.292 core-seconds of the host, more than the 0.1 that the job asks for.
    assert costs.map_cost(spec, 0).cpu_s == pytest.approx(2.919, abs=0.001)
    # Of 9 s, the shuffle uses 3.3 ms + 4 x 1 ms + 128 MiB x 1.4 ns = 0.195 core-seconds; 0.9 are asked for.
    reduce = costs.reduce_cost(spec, 0)
    assert reduce.cpu_s == pytest.approx(7.048, abs=0.001)
    fetched_s = 4 * reduce.fetch_cpu_s + 2**27 * reduce.fetched_byte_cpu_s
    assert reduce.cpu_s + fetched_s == pytest.approx(9.0 - 0.033)
    assert not costs.reduce_cost(spec, 1).merges


def test_applications_of_a_live_run_cost_what_they_have_used_there() -> None:
    scenario = a_scenario(SORT)
    (job,) = scenario.jobs
    length = scenario.inputs[0].length
    row = {
        "job": job.job,
        "state": "succeeded",
        "speculative": False,
        "split_of": "",
        "length": length,
        "start": 0.0,
    }
    reduced = {"shuffle_bytes": 1000, "output_bytes": 900, "shuffle_end": 1.0, "sort_end": 1.5, "end": 9.0}
    attempts = pd.DataFrame(
        [
            {
                **row,
                "task": "m0",
                "attempt": "m0_0",
                "kind": "map",
                "cpu_s": 0.203,
                **dict.fromkeys(reduced, 0.0),
            },
            {**row, "task": "r0", "attempt": "r0_0", "kind": "reduce", "cpu_s": 0.305, **reduced},
        ]
    )
    run = RunTables("fifo", 0, {"attempts": attempts}, ())
    law = laws_of(scenario, [run, run])[job.job]
    host_s = law.map_start_s + law.map_cpu_s * length + law.map_sort_s * law.map_output.of(length)
    assert host_s == pytest.approx(0.203 - HANDLING.attempt_s)
    known = APPS[job.app].costs  # says how the CPU divides; writing comes after the merge
    assert known is not None
    merge_s = known.reduce_sort_s * 1000
    then_s = known.reduce_start_s + known.reduce_cpu_s * 1000 + HANDLING.written_byte_s * 900
    used_s = 0.305 - HANDLING.shuffle_s(1, 1000)
    assert law.reduce_sort_s * 1000 == pytest.approx(used_s * merge_s / (merge_s + then_s))
    assert law.reduce_start_s + law.reduce_sort_s * 1000 == pytest.approx(0.305 - HANDLING.shuffle_s(1, 1000))


def test_factors_of_cpu_times_are_of_each_run_apart() -> None:
    """Each run has its own factors: its tasks' CPU times over the mean of all runs.

    Maps used 0.2 and 0.4 core-seconds in one run and twice that in the other, so the mean is 0.45.
    """
    scenario = a_scenario(SORT)
    (job,) = scenario.jobs
    length = scenario.inputs[0].length
    common = {"job": job.job, "kind": "map", "state": "succeeded", "speculative": False, "split_of": ""}
    common |= {"length": length, "start": 0.0, "end": 9.0, "shuffle_bytes": 0.0}
    common |= {"shuffle_end": None, "sort_end": None}
    runs = [
        RunTables(
            "fifo",
            repeat,
            {
                "attempts": pd.DataFrame(
                    [
                        {
                            **common,
                            "task": f"m{index}",
                            "attempt": f"m{index}_0",
                            "cpu_s": (repeat + 1) * used_s + HANDLING.attempt_s,
                        }
                        for index, used_s in enumerate((0.2, 0.4))
                    ]
                )
            },
            (),
        )
        for repeat in range(2)
    ]
    found = cpu_factors_of(scenario, laws_of(scenario, runs), runs)
    assert list(found) == [(job.job, TaskKind.MAP)]
    slow, fast = found[job.job, TaskKind.MAP]
    assert slow == pytest.approx((0.2 / 0.45, 0.4 / 0.45))
    assert fast == pytest.approx((0.4 / 0.45, 0.8 / 0.45))


def test_sorting_is_measured_to_keep_every_byte() -> None:
    scenario = a_scenario(SORT)
    (job,) = scenario.jobs
    found = measure(job, scenario.inputs[0], scenario.seed)
    length = scenario.inputs[0].length
    assert found.map_output.of(length) == pytest.approx(length, rel=0.001)
    assert found.output.of(length) == pytest.approx(length, rel=0.05)
    assert found.map_records == pytest.approx(0.01, rel=0.001)
    assert 0 < found.map_start_s + found.map_cpu_s * length < 5


def test_counting_is_measured_to_combine_equal_words() -> None:
    scenario = a_scenario(WORDS, simulate={"costs": "profile"})
    (job,) = scenario.jobs
    assert len(sample_of(scenario.inputs[0])) == 2**20
    cost = costs_of(scenario)
    spec = replace(build_job(replace(job, input=None), locate), splits=(Split(index=0, length=2**20),) * 4)
    output = cost.map_cost(spec, 0).output_bytes
    assert 2**16 < output < 2**19  # 20,000 words at most, of 7 bytes or so with their counts
    both = 2 * cost.reduce_cost(spec, 0).output_bytes
    assert output < both < 2.5 * output  # most words are in every map's output


def test_an_application_without_input_is_measured_by_its_parameter() -> None:
    scenario = a_scenario({"app": "randomtextwriter", "maps": 2, "params": {"bytes": "256KiB"}})
    (job,) = scenario.jobs
    found = measure(job, None, 1)
    assert found.map_output.of(2**18) == pytest.approx(2**18, rel=0.01)


def test_work_that_a_job_s_maps_share_is_divided_among_them() -> None:
    scenario = a_scenario({"app": "bbp", "maps": 4, "params": {"digits": 1600}})
    (job,) = scenario.jobs
    found = measure(job, None, 1)
    cost = ScenarioCosts({job.job: found}, core_speed=1.0)
    spec = build_job(job, locate)
    lines_bytes = 1600 // 8 * len("000000000001\t1234567890\n")
    written = sum(cost.map_cost(spec, index).output_bytes for index in range(4))
    assert 0.9 * lines_bytes < written < 1.6 * lines_bytes  # the first map's share has the most digits
    assert cost.reduce_cost(spec, 0).output_bytes == pytest.approx(1600 // 8 * 22, rel=0.3)
