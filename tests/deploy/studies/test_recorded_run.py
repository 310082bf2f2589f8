"""Tests `validate --recorded`: a recording of two small jobs is compared with its simulation."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from schedbed.deploy.cli.main import app
from schedbed.deploy.failures import RunFailed
from schedbed.deploy.fit.fit import fit
from schedbed.deploy.options import RunOptions
from schedbed.deploy.scenario.resolve import resolve
from schedbed.deploy.studies.recorded_run import framework_for, validate_recorded
from schedbed.deploy.whole_run import run_scenario
from schedbed.scheduler.framework import HADOOP1
from schedbed.tasks.errors import BadInput
from schedbed.tasks.traces.detect import read_trace
from schedbed.tasks.traces.recording import read_recording

EPOCH_MS = 1_000_000_000_000
PLACES = [{"layers": ["rack\\.1", "a"]}]
SETTINGS = {
    "mapreduce.tasktracker.map.tasks.maximum": "4",
    "mapreduce.tasktracker.outofband.heartbeat": "true",
    "mapreduce.jobtracker.taskscheduler": "org.apache.hadoop.mapred.CapacityTaskScheduler",
}


def task(kind: str, host: str, begin_s: float, end_s: float, **more: Any) -> dict[str, Any]:
    """Return a recorded task with one attempt on `host`.

    Times are seconds since the start of the recording.
    """
    begin, end = (EPOCH_MS + round(1000 * at) for at in (begin_s, end_s))
    tried = {"result": "SUCCESS", "hostName": host, "startTime": begin, "finishTime": end, **more}
    return {
        "taskType": kind,
        "startTime": begin,
        "finishTime": end,
        "attempts": [tried],
        "preferredLocations": PLACES,
    }


def job(number: int, submit_s: float, finish_s: float, **more: Any) -> dict[str, Any]:
    """Return a recorded job with two parallel maps of 20 s, a reduce, set-up and clean-up.

    The reduce shuffles until 3 s after the maps and then works for 7 s.
    """
    at = submit_s + 5
    reduce = task("REDUCE", "b", at + 10, at + 30, shuffleFinished=EPOCH_MS + round(1000 * (at + 23)))
    return {
        "jobID": f"job_1_{number:04d}",
        "submitTime": EPOCH_MS + round(1000 * submit_s),
        "finishTime": EPOCH_MS + round(1000 * finish_s),
        "outcome": "SUCCESS",
        "user": "ana",
        "mapTasks": [
            task("MAP", host, at, at + 20, hdfsBytesRead=100) for host in ("/rack.1/a", "/rack.1/b")
        ],
        "reduceTasks": [reduce],
        "otherTasks": [task("SETUP", "a", at - 3, at), task("CLEANUP", "a", at + 30, at + 32)],
        **more,
    }


def written(folder: Path, *jobs: dict[str, Any]) -> Path:
    """Write the recorded jobs to a file in `folder`; return its path."""
    path = folder / "trace.json"
    path.write_text("\n".join(json.dumps(each) for each in jobs))
    return path


def test_the_cluster_is_the_recorded_one(tmp_path: Path) -> None:
    said = read_recording(written(tmp_path, job(1, 0, 37, jobProperties=SETTINGS)))
    assert said.hosts == (("rack.1", "a"), ("rack.1", "b"))
    assert (said.map_slots, said.reduce_slots, said.heartbeat_s) == (4, 1, 3.0)
    assert (said.out_of_band, said.scheduler) == (True, "CapacityTaskScheduler")
    silent = read_recording(written(tmp_path, job(1, 0, 37), job(2, 5, 42)))
    assert (silent.map_slots, silent.reduce_slots, silent.out_of_band) == (2, 2, None)


def test_tasks_that_are_no_maps_and_no_reduces_are_told_of(tmp_path: Path) -> None:
    trace = read_trace(written(tmp_path, job(1, 0, 37)))
    assert [each for each in trace.warnings if "left out" in each] == [
        "1 cleanup tasks are left out; `framework: hadoop1` simulates such tasks",
        "1 setup tasks are left out; `framework: hadoop1` simulates such tasks",
    ]
    assert trace.jobs[0].reduces[0].shuffle_s == 3.0
    assert trace.jobs[0].succeeded


def test_settings_of_the_recording_come_before_the_profile(tmp_path: Path) -> None:
    said = read_recording(written(tmp_path, job(1, 0, 37, jobProperties=SETTINGS)))
    assert framework_for("hadoop1", said)["hadoop1"]["init_poll"] == "5s"
    assert framework_for("hadoop1", said)["hadoop1"]["out_of_band"] is True
    assert framework_for("none", said) == "none"
    assert "init_poll" not in framework_for("yarn", said)["yarn"]


def test_a_simulation_within_its_bounds(tmp_path: Path) -> None:
    told: list[str] = []
    band = {"mapreduce.tasktracker.outofband.heartbeat": "true"}
    failed = job(3, 120, 157, outcome="FAILED")
    trace = written(tmp_path, job(1, 0, 37, jobProperties=band), job(2, 60, 97), failed)
    (found,) = validate_recorded([trace], tmp_path / "out", say=told.append)
    assert [each.judged for each in found.jobs] == [True, True, False]
    assert found.jobs[0].recorded_s == 37.0
    assert abs(found.errors[0]) < 0.25 and len(found.errors) == 2
    kept = json.loads((tmp_path / "out" / "validate.json").read_text())
    assert kept["policies"][0]["jobs"][0]["recorded_s"] == 37.0
    assert kept["framework"]["name"] == "hadoop1"
    assert any("2 hosts" in line for line in kept["assumed"])
    assert any("not judged" in line for line in told)
    again = resolve(tmp_path / "out" / "scenario.yaml")
    assert len(again.jobs) == 3 and again.framework.name == "hadoop1"


def test_without_a_framework_the_simulation_is_outside(tmp_path: Path) -> None:
    trace = written(tmp_path, job(1, 0, 60), job(2, 20, 100))
    with pytest.raises(RunFailed, match="mean absolute error per job"):
        validate_recorded([trace], tmp_path / "out", framework="none", say=lambda _: None)
    assert (tmp_path / "out" / "validate.json").is_file()  # what was found is kept


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--framework", "hadoop1"], "only goes with --recorded"),
        (["--recorded", "--framework", "mesos"], "unknown profile, expected none, hadoop1, yarn"),
        (["--recorded", "--set", "workload.select.jobs=1"], "the whole trace is replayed at scale 1"),
    ],
)
def test_what_does_not_go_together_is_one_line(tmp_path: Path, options: list[str], said: str) -> None:
    trace = written(tmp_path, job(1, 0, 37), job(2, 60, 97))
    result = CliRunner().invoke(app, ["validate", str(trace), "--out", str(tmp_path / "out"), *options])
    assert result.exit_code == 2
    assert said in " ".join(result.output.split())


def test_a_recording_without_hosts_is_refused(tmp_path: Path) -> None:
    bare = job(1, 0, 37)
    for one in (*bare["mapTasks"], *bare["reduceTasks"]):
        one["attempts"][0]["hostName"] = None
    with pytest.raises(BadInput, match="no attempt with a host and times"):
        read_recording(written(tmp_path, bare))


def scenario(framework: Any, **more: Any) -> dict[str, Any]:
    """Return a small scenario with the section `framework` and further keys `more`."""
    jobs = [{"app": "synthetic", "maps": 2, "map": {"cpu": "1s"}}]
    return {
        "cluster": {"nodes": 3},
        "workload": {"jobs": jobs},
        "framework": framework,
        "policies": ["fifo"],
        **more,
    }


def test_a_scenario_takes_a_profile_or_numbers() -> None:
    assert resolve(scenario("none")).framework.is_none
    assert resolve(scenario("hadoop1", scale=0.1)).framework == HADOOP1  # no scale changes a framework
    own = resolve(scenario({"hadoop1": {"setup": "2500ms", "maps_per_heartbeat": 0}})).framework
    assert (own.setup_s, own.maps_per_heartbeat, own.cleanup_s) == (2.5, 0, HADOOP1.cleanup_s)
    assert resolve(resolve(scenario({"yarn": {"jvm": "1s"}})).to_json()).framework.jvm_s == 1.0


@pytest.mark.parametrize(
    ("framework", "said"),
    [
        ("mesos", "framework"),
        ({"hadoop1": {"setup": "2h"}}, "3600"),
        ({"hadoop1": {}, "yarn": {}}, "expected one of hadoop1"),
        ({"hadoop1": {"set_up": "1s"}}, "set_up"),
    ],
)
def test_what_is_no_framework_is_refused(framework: Any, said: str) -> None:
    with pytest.raises(BadInput, match=said):
        resolve(scenario(framework))


def test_a_crash_of_the_jobtracker_and_simulated_shuffles_live_are_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="not with a crash of the JobTracker"):
        resolve(scenario("hadoop1", faults=[{"at": "1s", "crash": "jobtracker", "for": "1s"}]))
    recorded = resolve(scenario({"hadoop1": {"recorded_shuffle": True}}))
    with pytest.raises(BadInput, match="framework: recorded_shuffle: only simulated"):
        run_scenario(recorded, RunOptions(out=tmp_path, machines="process"))


SHARED = Path(__file__).parents[4] / "shared" / "traces"
needs_recordings = pytest.mark.skipif(
    not SHARED.is_dir(), reason="the folder with recordings of real systems is not here"
)


@needs_recordings
@pytest.mark.parametrize(
    ("names", "policy", "bound"),
    [
        ("spark-standalone/w1-fifo-*.json.gz", "spark-fifo", 0.015),
        ("spark-standalone/w1-fair-*.json.gz", "spark-fair:wait=0s", 0.03),
        ("spark-standalone/w3-wait0-*.json.gz", "spark-fair:wait=0s", 0.015),
        ("slurm/over-easy-?.sacct", "slurm-backfill:reservations=1,interval=1s", 0.02),
        ("slurm/exact-conservative-?.sacct", "slurm-backfill:interval=1s", 0.02),
        ("slurm/exact-fcfs-?.sacct", "slurm-fcfs", 0.02),
        ("slurm/over-fcfs-?.sacct", "slurm-fcfs", 0.02),
        ("swf/NASA-iPSC-1993-3.first-records.swf", "easy", 0.02),
    ],
)
def test_jobs_of_real_systems_end_as_recorded(tmp_path: Path, names: str, policy: str, bound: float) -> None:
    files = sorted(SHARED.glob(names))
    told: list[str] = []
    found = validate_recorded(files, tmp_path / "out", policies=[policy], say=told.append)
    assert len(found) == len(files) > 0
    assert max(each.job_error for each in found) < bound
    assert len(files) == 1 or any(f"{len(files)} recordings" in line for line in told)
    kept = json.loads((tmp_path / "out" / "validate.json").read_text())
    assert len(kept.get("recordings", [kept])) == len(files)


@needs_recordings
def test_the_two_records_of_a_slurm_cluster_tell_the_same(tmp_path: Path) -> None:
    files = [SHARED / "slurm" / name for name in ("over-easy-1.sacct", "over-easy-1.jobcomp.txt")]
    of_sacct, of_jobcomp = validate_recorded(files, tmp_path / "o", policies=["easy"], say=lambda _: None)
    assert of_sacct == of_jobcomp


def spark_log(folder: Path, **settings: str) -> Path:
    """Write a log of two jobs of a pool each, which ran on one slot one after the other; return its path."""
    events: list[dict[str, Any]] = [
        {
            "Event": "SparkListenerExecutorAdded",
            "Executor ID": "0",
            "Executor Info": {"Host": "h", "Total Cores": 2},
        },
    ]
    if settings:
        properties = {f"spark.{key.replace('_', '.')}": value for key, value in settings.items()}
        events.append({"Event": "SparkListenerEnvironmentUpdate", "Spark Properties": properties})
    for number in range(2):
        stage = {"Stage ID": number, "Parent IDs": []}
        start = {
            "Event": "SparkListenerJobStart",
            "Job ID": number,
            "Submission Time": EPOCH_MS,
            "Stage Infos": [stage],
        }
        info = {
            "Index": 0,
            "Launch Time": EPOCH_MS + 9000 * number,
            "Finish Time": EPOCH_MS + 9000 * (number + 1),
        }
        ended = {"Event": "SparkListenerTaskEnd", "Stage ID": number, "Task Info": {**info, "Host": "h"}}
        end = {
            "Event": "SparkListenerJobEnd",
            "Job ID": number,
            "Completion Time": EPOCH_MS + 9000 * (number + 1),
        }
        result = {"Job Result": {"Result": "JobSucceeded"}}
        events += [start, ended | {"Task End Reason": {"Reason": "Success"}}, end | result]
    path = folder / "log"
    path.write_text("\n".join(map(json.dumps, events)))
    return path


def test_a_spark_log_names_its_policy_and_its_slots(tmp_path: Path) -> None:
    """Two cores of an executor, of which a task takes both, are a slot."""
    file = spark_log(tmp_path, scheduler_mode="FAIR", locality_wait="500", task_cpus="2", speculation="true")
    told: list[str] = []
    (found,) = validate_recorded([file], tmp_path / "out", say=told.append)
    assert found.policy == "spark-fair:wait=0.5s" and found.job_error < 0.05
    assert "assumed: 1 hosts of 1 slots: cores of the executors" in told
    assert any("not copied again" in line for line in told) and any(
        "all pools are equal" in line for line in told
    )


def test_a_scenario_of_a_spark_log_has_the_policy_that_the_log_names(tmp_path: Path) -> None:
    path = tmp_path / "my.yaml"
    fit(
        [spark_log(tmp_path, scheduler_mode="FAIR", locality_wait="500", task_cpus="2")],
        [],
        path,
        lambda _: None,
    )
    (found,) = validate_recorded([path], tmp_path / "out", say=lambda _: None)
    assert found.policy == "spark-fair:wait=0.5s" and found.job_error < 0.05


def test_a_recording_that_does_not_name_its_policy_needs_one(tmp_path: Path) -> None:
    result = CliRunner().invoke(
        app, ["validate", "--recorded", str(spark_log(tmp_path)), "--out", str(tmp_path / "o")]
    )
    assert result.exit_code == 2
    assert "expected --policy spark-fifo or spark-fair" in " ".join(result.output.split())


def test_a_job_that_waits_for_another_counts_from_that_end_in_both(tmp_path: Path) -> None:
    """The second job was recorded from its own submission, 80 s before the first one's end."""
    path = tmp_path / "t.swf"
    tail = "-1 -1 1 100 -1 1 1 1 -1 1 -1"
    path.write_text(f"1 0 0 100 1 {tail} -1 -1\n2 20 110 50 1 {tail} 1 30\n")
    (found,) = validate_recorded([path], tmp_path / "out", policies=["easy"], say=lambda _: None)
    assert [job.recorded_s for job in found.jobs] == [100, 50] and found.job_error < 0.03


# Job histories of MapReduce on YARN, recorded by us: skipped where the folder is missing.
YARN = Path(__file__).parents[4] / "shared" / "traces" / "hadoop-mapreduce-yarn"
recorded = pytest.mark.skipif(not YARN.is_dir(), reason="needs the recorded job histories beside the project")


@recorded
@pytest.mark.parametrize(
    ("name", "policy"),
    [
        ("ss1.0-1", "yarn-capacity"),
        ("ramp", "yarn-fair"),
        ("wc2-cap", "yarn-capacity"),
        ("uber", "yarn-fifo"),
    ],
)
def test_a_job_on_yarn_is_within_a_tenth_of_its_history(tmp_path: Path, name: str, policy: str) -> None:
    history = YARN / f"{name}.json.jhist.gz"
    [found] = validate_recorded([history], tmp_path / "out", policies=[policy], say=lambda _: None)
    assert [job.judged for job in found.jobs] == [True] and found.job_error <= 0.1


@recorded
def test_a_scenario_of_a_history_is_checked_by_validate_and_by_each_run(tmp_path: Path) -> None:
    history = tmp_path / "history"
    history.mkdir()
    for number in (1, 2, 3):
        (history / f"{number}.jhist.gz").symlink_to(YARN / f"fifo-2-j{number}.json.jhist.gz")
    site = tmp_path / "yarn-site.xml"
    scheduler = "org.apache.hadoop.yarn.server.resourcemanager.scheduler.fifo.FifoScheduler"
    site.write_text(
        f"<configuration><property><name>yarn.resourcemanager.scheduler.class</name><value>{scheduler}</value>"
        "</property></configuration>"
    )
    path = tmp_path / "my.yaml"
    fit([history], [site], path, lambda _: None)
    [found] = validate_recorded([path], tmp_path / "checked", say=lambda _: None)
    [same] = validate_recorded([history], tmp_path / "again", confs=[site], say=lambda _: None)
    assert found.policy == "yarn-fifo" and found == same
    assert found.job_error <= 0.1
    scenario = resolve(path, policies=["yarn-fair", "yarn-fifo"])
    run_scenario(scenario, RunOptions(machines="sim", out=tmp_path / "out", live=False))
    policies = json.loads((tmp_path / "out" / "summary.json").read_text())["policies"]
    errors = sorted(abs(job.error) for job in found.jobs if job.error is not None)
    assert policies["yarn-fifo"]["record_error"]["median"]["mean"] == pytest.approx(errors[1])
    told = f"simulated, checked against the record: median error of a job {errors[1]:.1%} (3 jobs)"
    assert policies["yarn-fifo"]["evidence"] == told
    assert policies["yarn-fair"]["evidence"] == "simulated, unchecked"


def test_only_a_scenario_of_a_trace_can_be_held_against_a_record(tmp_path: Path) -> None:
    path = tmp_path / "x.yaml"
    path.write_text("cluster: {nodes: 1}\nworkload: {suite: xu2015}\npolicies: [fifo]\n")
    with pytest.raises(BadInput, match="workload: no trace, expected `trace: FILE`"):
        validate_recorded([path], tmp_path / "out")
    with pytest.raises(BadInput, match="only go with a trace"):
        validate_recorded([path], tmp_path / "out", confs=[path])


# Runs of Slurm and Spark, recorded by us: skipped where the folder is missing.
OTHERS = YARN.parent


@pytest.mark.skipif(not OTHERS.is_dir(), reason="needs the recorded runs beside the project")
@pytest.mark.parametrize(
    ("name", "settings"),
    [
        (
            "slurm/exact-easy-1.sacct",
            "SchedulerType=sched/backfill\nSchedulerParameters=bf_interval=1,bf_resolution=1",
        ),
        ("slurm/over-fcfs-1.sacct", "SchedulerType=sched/builtin"),
        ("spark-standalone/w1-fifo-3.json.gz", "spark.scheduler.mode FIFO"),
        ("spark-standalone/w1-fair-3.json.gz", "spark.scheduler.mode FAIR\nspark.locality.wait 0s"),
    ],
)
def test_a_history_with_its_configuration_is_within_a_twentieth(
    tmp_path: Path, name: str, settings: str
) -> None:
    """The nodes and slots are those of the recording, and heartbeats short, since these systems have none of nodes."""
    conf = tmp_path / "system.conf"
    if name.startswith("slurm"):
        settings += "\nNodeName=n[1-6] CPUs=2 RealMemory=100"
    if "easy" in name:
        settings = settings.replace("bf_interval", "bf_job_part_count_reserve=1,bf_interval")
    conf.write_text(settings + "\n")
    [found] = validate_recorded([OTHERS / name], tmp_path / "out", confs=[conf], say=lambda _: None)
    assert found.job_error <= 0.05
