"""Traces converted to scenario files: times, a cluster that fits, and columns that contradict each other."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from schedbed.deploy.cli.trace_commands import convert_trace, show_trace
from schedbed.deploy.scenario.resolve import resolve
from schedbed.tasks.traces.convert import conversion, scenario_of, trace_demands
from schedbed.tasks.traces.describe import contradictions
from schedbed.tasks.traces.detect import read_trace
from schedbed.tasks.traces.fit_cluster import fit_cluster
from schedbed.tasks.traces.trace import Trace, TracedMachine, TraceJob, TraceTask

# Columns of SWF: number, submit, wait, run, processors, CPU, memory, requested processors, requested time, ...
SWF_ROWS = (
    "1 0 0 100 4 90 -1 4 300 -1 1 1 1 -1 1 -1 -1 -1\n"
    "2 10 90 50 2 1 -1 2 -1 -1 1 2 1 -1 1 -1 -1 -1\n"
    "3 20 80 90 8 90 -1 8 60 -1 1 2 1 -1 1 -1 -1 -1\n"
)


@pytest.fixture
def swf(tmp_path: Path) -> Path:
    """Write a trace of three rigid jobs on 8 nodes with two processors each; return its path."""
    path = tmp_path / "log.swf"
    path.write_text(f"; Version: 2.2\n; MaxNodes: 8 (all alike)\n; MaxProcs: 16\n{SWF_ROWS}")
    return path


def task(cpu_s: float | None, duration_s: float) -> TraceTask:
    """Return a task that ran for `duration_s` seconds."""
    return TraceTask(duration_s=duration_s, work_s=duration_s, cpu_s=cpu_s)


def test_requested_times_and_the_machine_of_a_header_are_kept(swf: Path) -> None:
    trace = read_trace(swf)
    assert [job.requested_s for job in trace.jobs] == [300.0, 50.0, 60.0]
    assert trace.machine == TracedMachine(nodes=8, processors=16, why="header of the trace")
    assert "assumed: 1 jobs without a requested time requested what they ran" in trace.warnings
    assert "1 jobs ran longer than they had requested" in trace.warnings


def test_without_a_header_the_machine_is_what_was_in_use(tmp_path: Path) -> None:
    """Without a header, the machine has the most processors in use at a time: two jobs with 2 + 8."""
    path = tmp_path / "log.swf"
    path.write_text(SWF_ROWS)
    assert read_trace(path).machine == TracedMachine(
        nodes=10, processors=10, why="most processors that the trace has in use at a time"
    )


def test_a_converted_trace_runs_on_its_own_machine_and_lasts_as_long(swf: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.yaml"
    convert_trace(swf, out, None, None, fit=True)
    resolved = resolve(out)
    assert (len(resolved.cluster.nodes), resolved.cluster.nodes[0].map_slots) == (8, 2)
    assert [choice.spec for choice in resolved.policies] == ["fifo", "easy:backfill=false", "easy"]
    first = resolved.jobs[0]
    assert (first.maps, first.requested_s, first.map_costs[0].duration_s) == (4, 300.0, 100.0)
    assert resolved.simulate.costs == "trace"


def test_the_file_says_what_the_values_say(swf: Path, tmp_path: Path) -> None:
    """The file, which is written line by line, is valid YAML of the whole scenario."""
    trace, out = read_trace(swf), tmp_path / "out.yaml"
    convert_trace(swf, out, None, 2)
    values, notes = scenario_of(trace, "log", 2)
    assert yaml.safe_load(out.read_text()) == values
    assert values["cluster"]["nodes"] == 6 and any("--fit-cluster" in note for note in notes)


def test_jobs_are_made_one_at_a_time(swf: Path) -> None:
    made = conversion(read_trace(swf), "log")
    jobs = made.jobs
    assert (next(jobs)["name"], made.job_count, made.task_count) == ("1", 1, 4)


def test_names_that_yaml_would_read_otherwise_stay_names() -> None:
    job = TraceJob(name="yes: {1} # é\n", submit_s=0.0, user="on", queue="1e3", maps=(task(1.0, 2.0),))
    made = conversion(Trace(format="swf", jobs=(job,)), "t")
    read = yaml.safe_load("\n".join(made.lines()))["workload"]["jobs"][0]
    assert (read["name"], read["user"], read["queue"]) == (job.name, "on", "1e3")


def test_slots_follow_the_load_where_the_trace_says_no_machine() -> None:
    """Without a machine, the slots are those that would be busy for 70% of the time.

    Ten jobs of 40 maps of 70 s, submitted every 100 s, need 28,000 s of maps in 970 s.
    """
    jobs = tuple(TraceJob(name=f"{n}", submit_s=100.0 * n, maps=(task(70.0, 70.0),) * 40) for n in range(10))
    trace = Trace(format="swf", jobs=jobs)
    fit = fit_cluster(trace, trace_demands(trace))
    assert (fit.nodes, fit.map_slots, fit.reduce_slots) == (11, 4, 0)  # 28,000 / 970 / 0.7 = 41.2 slots
    assert fit.why == "slots busy to 70%; 66% of the map slots are busy"


def test_a_cpu_column_that_cannot_be_right_is_told() -> None:
    constant = [TraceJob(name=f"{n}", submit_s=0.0, maps=(task(1.0, 56_000.0 + n),)) for n in range(4)]
    told = contradictions(Trace(format="swf", jobs=tuple(constant)))
    assert told[0].startswith("contradiction: 4 of 4 tasks of a minute or more have a CPU time below 1%")
    assert told[0].endswith("the column is hardly CPU time")
    assert told[1] == "contradiction: all 4 tasks have a CPU time of 1.0s, with 4 durations"
    more = TraceJob(name="m", submit_s=0.0, duration_s=3.0, maps=(task(20.0, 10.0),))
    assert contradictions(Trace(format="swf", jobs=(more,))) == (
        "contradiction: 1 of 1 tasks have more CPU time than duration, for one core each",
        "contradiction: 1 jobs are shorter than the longest of their own tasks",
    )
    fine = TraceJob(name="f", submit_s=0.0, duration_s=20.0, maps=(task(9.0, 10.0), task(None, 12.0)))
    assert contradictions(Trace(format="swf", jobs=(fine,))) == ()


def test_describe_proposes_a_cluster_and_tells_contradictions(
    swf: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    swf.write_text(f"; MaxProcs: 16\n{SWF_ROWS.replace(' 50 2 1 ', ' 5000 2 1 ')}")
    show_trace(swf, None, fit=True)
    out = capsys.readouterr().out
    assert "a cluster  16 nodes in 1 racks, 1 map and 0 reduce slots each (header of the trace;" in out
    assert "note: contradiction: 1 of 3 tasks of a minute or more have a CPU time below 1%" in out


def test_a_converted_job_waits_for_the_same_job(tmp_path: Path) -> None:
    """A name that two jobs share is made unique; a job of which the other is not selected does not wait."""
    rows = f"{SWF_ROWS}{SWF_ROWS.splitlines()[0]}\n"
    rows += "4 30 90 50 2 1 -1 2 -1 -1 1 2 1 -1 1 -1 1 7\n5 40 90 50 2 1 -1 2 -1 -1 1 2 1 -1 1 -1 3 -1\n"
    path = tmp_path / "log.swf"
    path.write_text(rows)
    values, notes = scenario_of(read_trace(path), "log")
    waits = {
        job["name"]: (job["after"], job.get("think")) for job in values["workload"]["jobs"] if "after" in job
    }
    assert waits == {"4": ("1 #3", "7.000s"), "5": ("3", None)}
    assert "2 jobs are submitted after the end of another job, as the trace says" in notes
    out = tmp_path / "out.yaml"
    convert_trace(path, out, None, None, fit=True)
    assert [job.after for job in resolve(out).jobs] == [job.after for job in resolve(_traced(path)).jobs]


def _traced(path: Path) -> Path:
    """Write a scenario of a trace on a cluster that holds its jobs, and return the scenario's path."""
    scenario = path.with_suffix(".yaml")
    cluster = {"nodes": 16, "node": {"map_slots": 1}}
    scenario.write_text(yaml.safe_dump({"cluster": cluster, "workload": {"trace": path.name}}))
    return scenario


@settings(max_examples=30, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 9), st.integers(1, 9), st.integers(1, 4)), min_size=1, max_size=9))
def test_the_jobs_of_a_recorded_schedule_never_need_more_than_their_machine(
    rows: list[tuple[int, int, int]],
) -> None:
    """Jobs (submission, run time, processors), run one after the other by FCFS on four processors, waits recorded."""
    free_s, jobs = [0.0] * 4, list[TraceJob]()
    for number, (submit_s, run_s, processors) in enumerate(sorted(rows)):
        free_s.sort()
        start_s = max(submit_s, free_s[processors - 1])
        free_s[:processors] = [start_s + run_s] * processors
        lasted_s = start_s + run_s - submit_s
        maps = (task(run_s, run_s),) * processors
        jobs.append(TraceJob(name=str(number), submit_s=submit_s, duration_s=lasted_s, maps=maps))
    machine = TracedMachine(nodes=4, processors=4, why="so it was")
    trace = Trace(format="swf", jobs=tuple(jobs), machine=machine)
    assert int(fit_cluster(trace, trace_demands(trace)).why.split()[3].rstrip("%")) <= 100


def test_jobs_without_recorded_waits_may_keep_the_machine_busy_for_longer() -> None:
    jobs = tuple(TraceJob(name=f"{n}", submit_s=n, maps=(task(9.0, 9.0),) * 2) for n in range(2))
    trace = Trace(format="swf", jobs=jobs, machine=TracedMachine(nodes=2, processors=2, why="header"))
    fit = fit_cluster(trace, trace_demands(trace))
    assert fit.why == "header; all map slots are busy, 1.8 times as long as jobs would last without waits"
