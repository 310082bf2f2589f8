"""Tests `workload: {trace: ...}`: the jobs that a scenario reads from a trace, and the traces that are
refused.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from schedbed.deploy.scenario.resolve import resolve
from schedbed.tasks.errors import BadInput
from schedbed.tasks.specs import BlockRange
from schedbed.tasks.workloads.planned import build_job

TRACES = Path(os.environ.get("SCHEDBED_TRACES", "../shared/traces"))
MIB = 2**20
SWIM = f"a\t100\t0\t{640 * MIB}\t{640 * MIB}\t{64 * MIB}\nb\t160\t60\t{64 * MIB}\t0\t{64 * MIB}\n"


@pytest.fixture
def swim(tmp_path: Path) -> Path:
    """Write a trace in SWIM's format with two jobs: ten maps and one reduce, and a single map.

    Return its path.
    """
    path = tmp_path / "t.tsv"
    path.write_text(SWIM)
    return path


def rumen(tmp_path: Path, *hosts: str) -> Path:
    """Write a trace in Rumen's format with one map, whose block was on `hosts` in one rack.

    Return its path.
    """
    places = [{"layers": ["rack", host]} for host in hosts]
    attempt = {
        "result": "SUCCESS",
        "startTime": 0,
        "finishTime": 4000,
        "cpuUsages": [2000],
        "hdfsBytesRead": 1000,
    }
    tasks = [{"attempts": [attempt], "preferredLocations": places}]
    path = tmp_path / "t.json"
    path.write_text(json.dumps({"jobID": "job_1_1", "submitTime": 1_300_000_000_000, "mapTasks": tasks}))
    return path


def of(trace: Path, scenario: dict[str, Any] | None = None, **workload: Any):
    """Return the resolved scenario of a trace on four nodes in two racks.

    `scenario` has further keys of the scenario, `workload` of its workload.
    """
    base = {"cluster": {"nodes": 4, "racks": 2}, "blocks": {"replication": 2}}
    return resolve({**base, **(scenario or {}), "workload": {"trace": str(trace), **workload}})


def test_times_and_bytes_are_scaled_and_submits_start_at_zero(swim):
    resolved = of(swim, {"scale": 0.5})
    first, second = resolved.jobs
    assert (first.submit_s, second.submit_s) == (0.0, 30.0)
    assert (first.maps, first.reduces, second.maps, second.reduces) == (10, 1, 1, 0)
    assert first.map_costs[0].read_bytes == first.map_costs[0].write_bytes == 32 * MIB
    assert first.map_costs[0].cpu_s == pytest.approx(5.5)
    assert resolved.input(str(first.input)).blocks == (32 * MIB,) * 10
    assert resolved.warnings


def test_a_smaller_cluster_keeps_a_share_of_the_tasks(swim):
    resolved = of(swim, traced_nodes=20)
    assert [(job.maps, job.reduces) for job in resolved.jobs] == [(2, 1), (1, 0)]
    assert resolved.jobs[0].map_costs[0].read_bytes == 64 * MIB


def test_a_limit_cuts_large_jobs(swim):
    assert of(swim, limit_bytes="128MiB").jobs[0].maps == 2


def test_the_input_lies_where_the_trace_had_it(tmp_path):
    resolved = of(rumen(tmp_path, "h2", "h1"))
    assert resolved.jobs[0].submit_s == 0.0
    assert resolved.jobs[0].map_costs[0].cpu_s == 2.0
    assert resolved.input(str(resolved.jobs[0].input)).preferred == (("n2", "n1"),)


def test_a_resolved_trace_needs_the_file_no_more(swim):
    recorded = json.loads(json.dumps(of(swim).to_json()))
    swim.unlink()
    assert len(resolve(recorded).jobs) == 2


@pytest.mark.parametrize(
    ("workload", "told"),
    [
        ({"select": {"from": "1h"}}, "workload.select: none of the 2 jobs of the trace is in it"),
        ({"format": "rumen"}, "object 1, byte 0: not JSON"),
        (
            {"format": "csv"},
            "workload.format: 'csv' is not one of 'alibaba', 'google', 'jhist', 'rumen', 'sls', 'slurm', 'spark', "
            "'swf' or 'swim'",
        ),
        ({"block": 0}, "workload.block: 0 is not possible, expected above 0"),
        (
            {"jobs": [{"app": "pi"}]},
            "expected one of jobs: [...], suite: NAME, generate: {...} and trace: FILE",
        ),
    ],
)
def test_what_cannot_be_is_refused(swim, workload, told):
    with pytest.raises(BadInput) as caught:
        of(swim, **workload)
    assert told in str(caught.value)


def test_trace_keys_do_not_go_with_jobs():
    with pytest.raises(BadInput, match=r"workload.users: only goes with trace: FILE"):
        resolve({"workload": {"jobs": [{"app": "pi"}], "users": 3}})


def test_a_topology_is_no_workload(tmp_path):
    path = tmp_path / "topology.json"
    path.write_text('{"name": "root", "children": [{"name": "r", "children": [{"name": "h"}]}]}')
    with pytest.raises(BadInput, match="is a topology of 1 hosts, no trace of jobs"):
        of(path)


@pytest.mark.skipif(
    not TRACES.is_dir(), reason=f"no traces at {TRACES} (SCHEDBED_TRACES names another place)"
)
@pytest.mark.parametrize(
    ("scenario", "trace", "jobs"),
    [
        ("fb2009", "swim/FB-2009_samples_24_times_1hr_0_first50jobs.tsv", 50),
        ("gridmix", "hadoop-gridmix/trace_7m.json.gz", 26),
    ],
)
def test_the_shipped_scenarios_of_real_traces_suit_a_laptop(scenario, trace, jobs):
    resolved = resolve(
        f"deploy/scenarios/{scenario}.yaml", sets=[f"workload.trace={(TRACES / trace).resolve()}"]
    )
    cpu_s = sum(cost.cpu_s for job in resolved.jobs for cost in (*job.map_costs, *job.reduce_costs))
    assert len(resolved.jobs) == jobs
    assert resolved.jobs[-1].submit_s < 60
    assert cpu_s < 200  # of an emulated core, of which there are twelve
    assert sum(file.length for file in resolved.inputs) < 200 * MIB


def test_jobs_that_read_one_path_share_one_file(tmp_path):
    """Five jobs read three files: two jobs share `p`, a large and a smaller one share `q`, and the last reads
    `r` alone.
    """
    rows = [("a", 0, 128, "p"), ("b", 1, 128, "p"), ("c", 2, 640, "q"), ("d", 3, 100, "q"), ("e", 4, 64, "r")]
    path = tmp_path / "t.tsv"
    path.write_text(
        "".join(f"{name}\t{at}\t0\t{mib * MIB}\t0\t0\t{read}\tout-{name}\t\n" for name, at, mib, read in rows)
    )
    resolved = of(path)
    assert [job.input for job in resolved.jobs] == ["/in/p", "/in/p", "/in/q", "/in/q", "/in/job_0005.filler"]
    assert {file.path: sum(file.blocks) // MIB for file in resolved.inputs} == {
        "/in/p": 128,
        "/in/q": 640,
        "/in/job_0005.filler": 64,
    }
    blocks = [
        BlockRange(block=f"b{n}", offset=n * 64 * MIB, length=64 * MIB, nodes=("n1",)) for n in range(10)
    ]
    smaller = build_job(resolved.jobs[3], lambda path: blocks)
    assert [(split.block, split.offset // MIB, split.length // MIB) for split in smaller.splits] == [
        ("b0", 0, 50),
        ("b0", 50, 50),
    ]


def test_jobs_with_the_same_bytes_share_their_costs(tmp_path: Path) -> None:
    trace = tmp_path / "many.tsv"
    trace.write_text("".join(f"job{i}\t{i}\t0\t{100 + i % 2}\t9\t{i // 4}\n" for i in range(8)))
    jobs = of(trace).jobs
    assert [job.map_costs[0].read_bytes for job in jobs] == [100, 101] * 4
    assert [job.reduce_costs[0].write_bytes for job in jobs] == [0] * 4 + [1] * 4
    assert jobs[0].map_costs is jobs[2].map_costs and jobs[0].reduce_costs is jobs[2].reduce_costs
    assert len({job.input for job in jobs}) == 8
