"""The output of `sacct --parsable2`: jobs without their steps, every spelling of times, and wrong lines."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from schedbed.tasks.errors import BadInput
from schedbed.tasks.traces.describe import facts
from schedbed.tasks.traces.detect import read_trace
from schedbed.tasks.traces.trace import TracedMachine

SHARED = Path(__file__).parents[4] / "shared" / "traces" / "slurm"
HEAD = "JobID|User|Partition|Submit|Start|End|Elapsed|AllocCPUS|Timelimit|State|TotalCPU"
ROWS = [
    "10|ana|long|2024-01-31T12:00:00|2024-01-31T12:01:00|2024-02-01T13:01:00|1-01:00:00|4|2-00:00:00|COMPLETED|4-03:00:00",
    "10.batch||||2024-01-31T12:01:00||1-01:00:00|4||COMPLETED|00:01.500",
    "11_2|bo|short|2024-01-31T12:00:10|2024-01-31T12:00:10|Unknown|00:00:30|2|UNLIMITED|CANCELLED by 7|00:00.000",
    "12|bo|short|2024-01-31T12:00:20|Unknown|Unknown|00:00:00|0|00:10:00|PENDING|00:00:00",
]


def written(tmp_path: Path, *rows: str, head: str = HEAD) -> Path:
    """Write a header and rows to a file, and return the path."""
    path = tmp_path / "sacct.txt"
    path.write_text("\n".join((head, *rows)) + "\n")
    return path


def test_jobs_are_rigid_and_steps_are_part_of_them(tmp_path: Path) -> None:
    trace = read_trace(written(tmp_path, *ROWS))
    first, second = trace.jobs
    assert (trace.format, first.name, first.user, first.queue, len(first.maps)) == (
        "slurm",
        "10",
        "ana",
        "long",
        4,
    )
    assert (first.maps[0].duration_s, first.maps[0].cpu_s) == (90_000.0, 89_100.0)  # 99 h of four CPUs
    assert (first.duration_s, first.requested_s) == (90_060.0, 172_800.0)
    assert (second.name, len(second.maps), second.requested_s, second.maps[0].cpu_s) == (
        "11_2",
        2,
        30.0,
        30.0,
    )
    assert second.submit_s - first.submit_s == 10.0
    assert trace.machine == TracedMachine(
        nodes=4, processors=4, why="most CPUs that the trace has in use at a time"
    )
    told = dict(facts(trace))
    assert told["jobs"] == "2 (2 map-only)"
    assert "1 jobs that never ran are left out" in trace.warnings
    assert "1 jobs did not complete and are taken as if they had run as long as they did" in trace.warnings
    assert "no bytes, locations or deadlines in Slurm's accounting" in trace.warnings[0]


def test_raw_seconds_and_epoch_times_are_read(tmp_path: Path) -> None:
    head = "JobID|Submit|Start|ElapsedRaw|NCPUS|TimelimitRaw"
    trace = read_trace(written(tmp_path, "1|1700000000|1700000005|60|3|2", head=head))
    job = trace.jobs[0]
    assert (job.submit_s, job.duration_s, job.requested_s, len(job.maps)) == (1.7e9, 65.0, 120.0, 3)


@pytest.mark.parametrize(
    ("rows", "head", "told"),
    [
        (["1|2"], HEAD, ":2: 2 columns, expected 11 as in the head"),
        (["1|x|5"], "JobID|Submit|ElapsedRaw", ":2: submit: 'x' is not a time such as 2024-01-31T12:00:00"),
        (["1|Unknown|5"], "JobID|Submit|ElapsedRaw", ":2: Submit: 'Unknown' is not a time"),
        (["1|5|abc:1"], "JobID|Submit|Elapsed", ":2: elapsed: 'abc:1' is not [days-]hours:minutes:seconds"),
        (["1|5"], "JobID|Submit", ":1: expected the columns JobID, Submit, and Elapsed or Start and End"),
        ([], HEAD, "no job that ran in it"),
        (
            ["1|5|9|99999999"],
            "JobID|Submit|ElapsedRaw|AllocCPUS",
            "alloccpus: 99999999 CPUs, expected 1000000",
        ),
    ],
)
def test_the_wrong_line_is_named(tmp_path: Path, rows: list[str], head: str, told: str) -> None:
    with pytest.raises(BadInput) as caught:
        read_trace(written(tmp_path, *rows, head=head))
    assert told in str(caught.value)


JOBCOMP = (
    "JobId=7 UserId=ana(1000) GroupId=g(1) Name=a b JobState=FAILED JobState=COMPLETED Partition=p q=1 TimeLimit=3 "
    "StartTime=2024-01-31T12:00:05 EndTime=2024-01-31T12:01:05 NodeList=n[1-2] NodeCnt=2 ProcCnt=4 "
    "WorkDir=/x Partition=no ReservationName= Tres=cpu=4 SubmitTime=2024-01-31T12:00:00 ExitCode=0:0 \n"
)


def test_a_line_of_jobcomp_has_the_data_of_one_of_sacct(tmp_path: Path) -> None:
    """The job's name and folder contain keys."""
    path = tmp_path / "jobcomp.txt"
    path.write_text(
        f"{JOBCOMP}\n{JOBCOMP.replace('TimeLimit=3', 'TimeLimit=UNLIMITED').replace('JobId=7', 'JobId=8')}"
    )
    [job, other] = (trace := read_trace(path)).jobs
    row = "7|ana|p|2024-01-31T12:00:00|2024-01-31T12:00:05|2024-01-31T12:01:05||4|00:03:00|COMPLETED|"
    assert (trace.format, [job]) == ("slurm", list(read_trace(written(tmp_path, row)).jobs))
    assert (other.name, other.requested_s) == ("8", 60.0)


@pytest.mark.skipif(not SHARED.is_dir(), reason="the folder with traces of real systems is not here")
def test_a_jobcomp_file_tells_the_same_jobs_as_sacct() -> None:
    of_sacct, of_jobcomp = (
        read_trace(SHARED / name) for name in ("over-easy-1.sacct", "over-easy-1.jobcomp.txt")
    )
    assert of_sacct.jobs == of_jobcomp.jobs and len(of_sacct.jobs) == 10


def test_a_job_that_ended_at_once_has_run(tmp_path: Path) -> None:
    """A job without processors of its own, or one that was canceled, never ran."""
    start = "2024-01-31T12:00:05"
    rows = [f"{job}|5|{start}|{start}|00:00:00|{cpus}|{state}" for job, cpus, state in (
        (1, 2, "COMPLETED"), (2, 1, "FAILED"), (3, 0, "FAILED"), (4, 1, "CANCELLED by 0"),
    )]  # fmt: skip
    trace = read_trace(written(tmp_path, *rows, head="JobID|Submit|Start|End|Elapsed|AllocCPUS|State"))
    assert [(job.name, job.maps[0].duration_s, len(job.maps)) for job in trace.jobs] == [
        ("1", 0.5, 2),
        ("2", 0.5, 1),
    ]
    assert "assumed: 2 jobs that ended within the second of their start ran for 0.5 s" in trace.warnings


@given(st.text(alphabet="a |_1", max_size=9), st.text(alphabet="b|", max_size=5))
@example("x|y", "")
@example("||1|||_", "")  # 1 may be a time of submission, but a job always has a state.
def test_a_bar_within_a_field_is_resolved_by_the_other_columns(
    tmp_path_factory: Any, name: str, comment: str
) -> None:
    folder = tmp_path_factory.mktemp("bars")
    row = f"1|{name}|ana|2024-01-31T12:00:00|00:01:00|4|COMPLETED|{comment}|p"
    head = "JobID|JobName|User|Submit|Elapsed|AllocCPUS|State|Comment|Partition"
    [job] = read_trace(written(folder, row, head=head)).jobs
    assert (job.user, job.queue, len(job.maps), job.maps[0].duration_s) == ("ana", "p", 4, 60.0)


def test_a_bar_that_nothing_resolves_is_refused(tmp_path: Path) -> None:
    """Here the name may be a|5 or a, with a user 5."""
    with pytest.raises(BadInput, match="only if the other columns tell which field it is"):
        read_trace(written(tmp_path, "1|a|5|b|5|c|7", head="JobID|JobName|User|Account|Submit|ElapsedRaw"))


def test_a_job_is_submitted_when_it_is_eligible(tmp_path: Path) -> None:
    """It waited for another job, or for a begin time, and not for a slot. An odd time does not count."""
    rows = ["1|0|50|60|100|2", "2|0|0|60|100|2", "3|0|Unknown|60|100|2", "4|0|70|60|100|2"]
    trace = read_trace(written(tmp_path, *rows, head="JobID|Submit|Eligible|Start|End|AllocCPUS"))
    assert [(job.name, job.submit_s, job.duration_s) for job in trace.jobs] == [
        ("2", 0, 100),
        ("3", 0, 100),
        ("4", 0, 100),
        ("1", 50, 50),
    ]
    assert any(line.startswith("1 jobs waited for others or for a given time") for line in trace.warnings)


def test_a_bad_line_is_counted(tmp_path: Path) -> None:
    rows = ["1|5|60", "2|5|x:y", "3|7", "4|9|60"]
    trace = read_trace(written(tmp_path, *rows, head="JobID|Submit|Elapsed"))
    assert [job.name for job in trace.jobs] == ["1", "4"]
    [told] = [note for note in trace.warnings if "no jobs" in note]
    assert (
        told.startswith("2 lines are no jobs and are left out, the first: ") and ":3: elapsed: 'x:y'" in told
    )


def test_months_in_a_folder_are_one_trace(tmp_path: Path) -> None:
    head = "JobID|Submit|ElapsedRaw|State"
    (tmp_path / "2024-9").write_text(f"{head}\n1|5|60|COMPLETED\n2|8|30|RUNNING\n")
    (tmp_path / "2024-10").write_text(f"{head}\n2|8|90|COMPLETED\n3|200|5|COMPLETED\n")
    trace = read_trace(tmp_path)
    assert [(job.name, job.maps[0].duration_s) for job in trace.jobs] == [("1", 60), ("2", 90), ("3", 5)]
    assert "1 jobs are listed again, and count as listed last" in trace.warnings


def test_without_a_head_a_line_says_what_to_do(tmp_path: Path) -> None:
    path = tmp_path / "t"
    path.write_text("7|u|2024-01-31T12:00:00|00:01:00\n")
    with pytest.raises(
        BadInput, match=r":1: expected a first line with the names that --format had, or sacct without"
    ):
        read_trace(path)
