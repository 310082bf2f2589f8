"""The real traces in the folder beside the project are read completely; tests are skipped without them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from schedbed.tasks.traces.convert import scenario_of
from schedbed.tasks.traces.describe import facts, quantiles
from schedbed.tasks.traces.detect import read_trace

TRACES = Path(os.environ.get("SCHEDBED_TRACES", "../shared/traces"))
pytestmark = pytest.mark.skipif(
    not TRACES.is_dir(), reason=f"no traces at {TRACES} (SCHEDBED_TRACES names another place)"
)


@pytest.mark.long  # seconds
@pytest.mark.parametrize(
    ("name", "jobs", "maps", "reduces"),
    [
        ("swim/FB-2009_samples_24_times_1hr_0_first50jobs.tsv", 50, 0, 0),
        ("swim/FB-2009_samples_24_times_1hr_0.tsv", 5894, 0, 0),
        ("swim/FB-2010_samples_24_times_1hr_0.tsv", 24442, 0, 0),
        ("hadoop-gridmix/trace_1m.json.gz", 5, 42, 5),
        ("hadoop-gridmix/trace_7m.json.gz", 26, 176, 440),
        ("hadoop-gridmix/wordcount.json", 1, 3, 1),
        ("hadoop-mumak/19-jobs.trace.json.gz", 19, 8573, 3256),
        ("hadoop-rumen/zombie_input-trace.json", 3, 154, 49),
        ("hadoop-sls/inputsls.json", 2, 5, 0),
        ("swf/NASA-iPSC-1993-3.first-records.swf", 228, 2118, 0),
        ("swf/alea-hpc2n.swf", 3145, 63578, 0),
        ("alibaba-2018/jobs.csv", 5216, 2551075, 0),
    ],
)
def test_all_of_it_is_read(name, jobs, maps, reduces):
    trace = read_trace(TRACES / name)
    found = (len(trace.jobs), sum(len(j.maps) for j in trace.jobs), sum(len(j.reduces) for j in trace.jobs))
    assert found == (jobs, maps, reduces)
    assert dict(facts(trace))["jobs"].startswith(f"{jobs} ")
    assert quantiles(trace)


def test_the_topology_of_mumak():
    topology = read_trace(TRACES / "hadoop-mumak/19-jobs.topology.json.gz").topology
    assert topology is not None
    assert (len(topology.hosts), len(topology.racks)) == (1545, 41)


def test_every_map_of_gridmix_has_its_hosts_among_eight():
    trace = read_trace(TRACES / "hadoop-gridmix/trace_7m.json.gz")
    assert len(trace.hosts) == 8
    assert all(task.hosts and task.cpu_s for job in trace.jobs for task in job.maps)


def test_the_nodes_and_the_specification_of_sls():
    topology = read_trace(TRACES / "hadoop-sls/nodes-with-resources.json").topology
    assert topology is not None and topology.racks == ("rack1",) and len(topology.hosts) == 4
    drawn = read_trace(TRACES / "hadoop-sls/syn.json").jobs
    assert len(drawn) == 10 and all(1 <= job.submit_s < 60 and job.maps and job.reduces for job in drawn)


@pytest.mark.parametrize(
    "name", ["hadoop-sls/inputsls.json", "hadoop-sls/syn.json", "swf/alea-hpc2n.swf", "alibaba-2018/jobs.csv"]
)
def test_the_first_jobs_become_a_scenario(name):
    trace = read_trace(TRACES / name)
    values, notes = scenario_of(trace, "t", jobs=2)
    assert len(values["workload"]["jobs"]) == 2 and notes[: len(trace.warnings)] == list(trace.warnings)
    assert all(job["map"]["cpu"] != "0.000s" for job in values["workload"]["jobs"])
