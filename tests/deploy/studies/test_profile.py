"""Tests `schedbed profile`: values of a run computed by hand, and the whole command on simulated nodes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from schedbed.cluster.spec import NodeSpec
from schedbed.cluster.virtual.latencies import Latencies
from schedbed.deploy.cli.main import app
from schedbed.deploy.results.learn import demands, phase_profile, resource_profile
from schedbed.deploy.scenario.resolve import resolve
from schedbed.deploy.studies.profile import alone, chosen
from schedbed.scheduler.admission.fgcs import DEMAND, IO_RATES
from schedbed.scheduler.models.fgcs_demand import Demands, Hardware, read_demands
from schedbed.scheduler.models.resource_profiles import RESOURCES, Amounts, read_profile
from schedbed.scheduler.profiles import ProfileStore
from schedbed.scheduler.registry.registry import build_policy
from schedbed.tasks.errors import BadInput
from schedbed.tasks.specs import Demand
from schedbed.tasks.workloads.planned import PlannedJob
from tests.harness.tables import NODES, run_of

MB = 10**6
SPECS = {each["node"]: NodeSpec(**each) for each in NODES}  # 2 cores at 0.5, 512 MiB, 40 MB/s


def planned(**changes: Any) -> PlannedJob:
    """Return a planned job with four maps and one reduce; `changes` are other fields of the job."""
    demand = Demand(memory_bytes=2**27)
    fields: dict[str, Any] = {"maps": 4, "reduces": 1, "map_demand": demand, "reduce_demand": demand}
    return PlannedJob(job="job_0001", name="etl", app="sort", user="ana", **(fields | changes))


MAPS = [
    {
        "assigned": 0.0,
        "start": 1.0,
        "end": 11.0,
        "cpu_s": 2.5,
        "read_local_bytes": 60 * MB,
        "spill_bytes": 20 * MB,
    },
    {
        "assigned": 0.0,
        "start": 1.0,
        "end": 11.0,
        "cpu_s": 2.5,
        "read_remote_bytes": 60 * MB,
        "spill_bytes": 20 * MB,
    },
]
REDUCE = {
    "kind": "reduce",
    "assigned": 1.5,
    "start": 2.0,
    "shuffle_end": 12.0,
    "sort_end": 12.0,
    "end": 17.0,
    "cpu_s": 1.0,
    "shuffle_bytes": 32 * MB,
    "output_bytes": 10 * MB,
}
FAILED = {
    "assigned": 0.0,
    "start": 1.0,
    "end": 3.0,
    "state": "failed",
    "cpu_s": 9.0,
    "read_local_bytes": 900 * MB,
}


def test_shares_are_what_tasks_used_while_they_ran() -> None:
    """The shares of a node with 1 host core, 40 MB/s and 512 MiB are those computed here by hand.

    Maps: 5 s of CPU in 20 s = 25%; (120 + 40) MB in 20 s = 8 MB/s = 20%. Shuffle: 32 MB in 10 s = 8%, with
    four copies at once 2% each. Reduce: 1 s of CPU in 5 s = 20%; 10 MB twice in 5 s = 4 MB/s = 10%. Memory:
    64 MiB per map, 128 MiB per reduce. Network, of 12.5 MB/s: a map receives 60 MB in 20 s = 24%, a shuffle 32 MB in
    10 s, 6.4% for each copy, and a reduce sends one of its two replicas, 10 MB in 5 s = 16%.
    """
    mib = 2**20
    heartbeats = [
        {"running_maps": 1, "memory_bytes": 64 * mib},
        {"running_maps": 2, "running_reduces": 1, "memory_bytes": 256 * mib},
        {"running_reduces": 1, "memory_bytes": 128 * mib},
        {"memory_bytes": 999 * mib},
    ]
    run = run_of(attempts=[*MAPS, REDUCE, FAILED], heartbeats=heartbeats)
    profile = resource_profile(run, planned(), SPECS, replication=2, scale=0.1)
    assert profile.map == pytest.approx(Amounts(25, 20, 12.5, 24))
    assert profile.shuffle == pytest.approx(Amounts(0, 2, 25, 6.4))
    assert profile.reduce == pytest.approx(Amounts(20, 10, 25, 16))
    assert profile.map_s == pytest.approx(110)  # 11 s from the assignment at 0, before the scale
    assert read_profile(profile.to_values()) == profile


def test_no_task_takes_more_than_a_core() -> None:
    """A map used 5.2 s of CPU in 10 s on a core that gives 5 s: its share is one core, half of the node."""
    busy = [{"assigned": 0.0, "start": 0.0, "end": 10.0, "cpu_s": 5.2}]
    profile = resource_profile(run_of(attempts=busy), planned(), SPECS, replication=1, scale=1)
    assert profile.map.cpu == 50


def test_memory_that_nodes_do_not_tell_is_what_tasks_declare() -> None:
    profile = resource_profile(run_of(attempts=MAPS), planned(), SPECS, replication=1, scale=1)
    assert profile.map.memory == profile.reduce.memory == 25


def test_a_job_without_a_measurable_map_is_bad_input() -> None:
    with pytest.raises(BadInput, match="etl: its maps took no time"):
        resource_profile(
            run_of(attempts=[{"start": 1.0, "end": 1.0}]), planned(), SPECS, replication=1, scale=1
        )


def test_cpu_demands_by_equation_2() -> None:
    """CPU demands are the share of CPU time in the time for CPU and disk, rounded up.

    Maps: 2.5 s at half a host core take 5 s, 80 MB at 40 MB/s take 2 s: 71.4%. Reduce: 2 s and 0.25 s: 88.9%.
    """
    run = run_of(attempts=[*MAPS, REDUCE, FAILED])
    known = Hardware(core_speed=0.5, disk_bps=40e6)
    assert demands(run, planned(), SPECS, 5.0) == Demands(map=72, reduce=89, hardware=known)


def test_phases_before_the_scale() -> None:
    """At scale 0.1, phases of 11 s (map), 1 s (shuffle after the last map) and 5 s (reduce) are stored as ten
    times that.
    """
    profile = phase_profile(run_of(attempts=[*MAPS, REDUCE]), 0.1)
    assert profile.map.avg_s == pytest.approx(110) and profile.first_shuffle.avg_s == pytest.approx(10)
    assert profile.reduce.avg_s == pytest.approx(50)


SCENARIO: dict[str, Any] = {
    "seed": 3,
    "scale": 0.1,
    "cluster": {
        "nodes": 2,
        "node": {"cores": 2, "core_speed": 0.1, "memory": "512MiB", "disk": "40MB/s", "map_slots": 1},
        "heartbeat": "200ms",
    },
    "blocks": {"size": "64MiB", "replication": 1},
    "workload": {
        "jobs": [
            {
                "name": "burn",
                "app": "synthetic",
                "maps": 8,
                "map": {"cpu": "30s"},
                "count": 2,
                "deadline": "9s",
            },
            {
                "name": "scan",
                "app": "synthetic",
                "maps": 8,
                "map": {"cpu": "1s", "write": "640MiB"},
                "submit": "5s",
                "reduces": 0,
            },
        ]
    },
    "policies": ["fifo"],
    "faults": [{"at": "1s", "kill": "n1"}],
}


def test_the_first_job_of_each_workload_runs_alone() -> None:
    scenario = resolve(SCENARIO)
    assert [job.name for job in chosen(scenario, "synthetic")] == ["burn", "scan"]
    assert [job.name for job in chosen(scenario, "burn")] == ["burn"]
    with pytest.raises(BadInput, match="--app bum: no job of the scenario is of it, expected one of"):
        chosen(scenario, "bum")
    burn = chosen(scenario, "burn")[0]
    single = alone(scenario, burn, 3)
    assert [(job.name, job.submit_s, job.deadline_s) for job in single.jobs] == [("burn", 0.0, None)]
    assert {node.map_slots for node in single.cluster.nodes} == {3} and not single.faults


@pytest.mark.long  # seconds
def test_the_command_keeps_the_fastest_number_of_slots(tmp_path: Path) -> None:
    """On two cores, two maps at a time are fastest, each with half of the node's CPU.

    The policies RAS, FGCS and ARIA can read the stored profile.
    """
    share = Latencies().core_share
    path, store = tmp_path / "s.yaml", tmp_path / "profiles.sqlite"
    path.write_text(yaml.safe_dump(SCENARIO))
    command = [
        "profile",
        str(path),
        "--app",
        "burn",
        "--machines",
        "sim",
        "--most",
        "3",
        "--store",
        str(store),
    ]
    result = CliRunner().invoke(app, command)
    assert result.exit_code == 0, result.output
    assert "fastest of 3 with 2 map slots a node" in " ".join(result.output.split())
    found = read_profile(ProfileStore(store).load_all(RESOURCES)["burn"])
    assert found.map.cpu == pytest.approx(50 * share, abs=1) and found.map_s == pytest.approx(
        30 / share, abs=1
    )
    demand = read_demands(ProfileStore(store).load_all(DEMAND)["burn"])
    assert demand == Demands(map=100, hardware=Hardware(0.1, 40e6))
    for name in ("ras", "fgcs", "aria"):
        assert build_policy(f"{name}:profiles={store}")


def test_io_rates_are_measured_on_the_cluster_itself(tmp_path: Path) -> None:
    """The measured rate of simulated disks is the declared 40 MB/s, and the block store with one replica has
    the same rate.
    """
    path, store = tmp_path / "s.yaml", tmp_path / "profiles.sqlite"
    path.write_text(yaml.safe_dump(SCENARIO))
    command = ["profile", str(path), "--app", "io-rates", "--machines", "sim", "--store", str(store)]
    result = CliRunner().invoke(app, command)
    assert result.exit_code == 0, result.output
    found = ProfileStore(store).load_all(IO_RATES)["disk of 40000000 bytes/s"]
    assert found == {"disk_bps": pytest.approx(40e6, rel=0.1), "hdfs_bps": pytest.approx(40e6, rel=0.1)}


def test_wrong_options_are_bad_input(tmp_path: Path) -> None:
    path = tmp_path / "s.yaml"
    path.write_text(yaml.safe_dump(SCENARIO))
    for arguments, message in (
        (["--app", "nothing"], "--app nothing: no job of the scenario is of it"),
        (["--app", "burn", "--machines", "toys"], "--machines toys: unknown kind of machine"),
    ):
        result = CliRunner().invoke(app, ["profile", str(path), *arguments])
        assert result.exit_code == 2 and message in result.output
