"""SWF and Alibaba's batch tasks: jobs read from lines, notes for the user, and the place of wrong lines."""

from __future__ import annotations

from collections import Counter
from operator import mul
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from schedbed.tasks.errors import BadInput
from schedbed.tasks.traces.describe import facts, quantiles
from schedbed.tasks.traces.detect import detect, read_trace
from schedbed.tasks.traces.formats.alibaba import read_alibaba
from schedbed.tasks.traces.formats.swf import read_swf
from schedbed.tasks.traces.lanes import lanes

HEAD = "; Version: 2.2\n; MaxProcs: 128\n\n"


Cell = int | float | str


def swf_line(
    number: Cell = 1,
    submit: Cell = 0,
    wait: Cell = -1,
    run: Cell = 60,
    processors: Cell = 4,
    cpu: Cell = -1,
    asked: Cell = -1,
    status: Cell = 1,
    user: Cell = 3,
    queue: Cell = 0,
    after: Cell = -1,
    think: Cell = -1,
) -> str:
    """Return an SWF line of 18 numbers."""
    values = [
        number,
        submit,
        wait,
        run,
        processors,
        cpu,
        -1,
        asked,
        -1,
        -1,
        status,
        user,
        1,
        -1,
        queue,
        -1,
        after,
        think,
    ]
    return "  ".join(map(str, values)) + "\n"


def written(folder: Path, text: str, name: str = "t.txt") -> Path:
    """Write the text to a file, and return the path."""
    path = folder / name
    path.write_text(text)
    return path


def test_an_swf_job_is_a_map_a_processor(tmp_path):
    path = written(tmp_path, HEAD + swf_line(2, 100, 7, 50.5, 3, 20.5, queue=-1) + swf_line(1, 40, user=-1))
    assert detect(path) == "swf"
    first, second = read_trace(path).jobs
    assert (first.name, first.submit_s, first.user, first.queue, first.duration_s) == (
        "1",
        40,
        None,
        "q0",
        60,
    )
    assert (second.user, second.queue, second.duration_s) == ("u3", None, 57.5)
    assert [(task.work_s, task.cpu_s) for task in second.maps] == [(50.5, 20.5)] * 3
    assert [task.cpu_s for task in first.maps] == [60] * 4 and not second.reduces


def test_a_trace_without_bytes_is_described_without_them(tmp_path):
    trace = read_swf(written(tmp_path, swf_line(1) + swf_line(2, submit=60)))
    assert dict(facts(trace))["bytes"] == "not in the trace"
    assert [label for label, _ in quantiles(trace)] == [
        "between submits", "job: duration", "job: maps", "job: reduces", "map: duration", "map: CPU time",
    ]  # fmt: skip


def test_swf_without_a_header_is_found_by_its_numbers(tmp_path):
    assert detect(written(tmp_path, swf_line().replace("  ", "\t"))) == "swf"


def test_what_an_swf_line_does_not_say_is_told(tmp_path):
    lines = [
        swf_line(1, processors=-1, asked=8),
        swf_line(2, run=-1),
        swf_line(3, status=5),
        swf_line(4, processors=0),
    ]
    trace = read_swf(written(tmp_path, "".join(lines)))
    assert [(job.name, len(job.maps)) for job in trace.jobs] == [("1", 8), ("3", 4)]
    told = "\n".join(trace.warnings)
    assert "1 jobs without allocated processors ran on those they requested" in told
    assert "2 jobs without a run time or processors are left out" in told
    assert "1 jobs did not complete" in told and "2 jobs without a CPU time" in told


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (HEAD + swf_line() + "5 3 2\n", "t.txt:5: 3 columns, expected the 18 numbers of SWF"),
        (HEAD + swf_line(run="long"), "t.txt:4: run time: 'long' is not a number"),
        (HEAD + swf_line(run="nan"), "t.txt:4: run time: 'nan' is not a number that can be"),
        (HEAD + swf_line(processors=10**9), "t.txt:4: 1000000000 processors at 0 s cannot be"),
        (HEAD + swf_line(run=-1), "t.txt: no job with a run time in it"),
        (HEAD, "t.txt: no job with a run time in it"),
    ],
)
def test_the_wrong_line_of_swf_is_named(tmp_path, text, told):
    with pytest.raises(BadInput) as caught:
        read_trace(written(tmp_path, text))
    assert told in str(caught.value) and "\n" not in str(caught.value)


COLUMNS = ",submit_time,duration,cpu,memory,job_id,task_id,instances_num,disk\n"
BATCH = "M1,3,j_1,1,Terminated,100,110,200.0,0.4\nR2_1,2,j_1,1,Terminated,110,140,50.0,0.4\n"


def test_alibabas_csv_with_a_header(tmp_path):
    path = written(
        tmp_path,
        COLUMNS + "0,539,116.5,0.5,0.01,7,1,3,0\n1,500,10,1.0,0.01,8,2,1,0\n2,509,20,2,0.1,8,3,2,0\n",
    )
    assert detect(path) == "alibaba"
    trace = read_trace(path)
    first, second = trace.jobs
    assert (first.name, first.submit_s, first.duration_s, len(first.reduces)) == ("8", 500, 29, 0)
    assert [(task.work_s, task.cpu_s) for task in first.maps] == [(10, 10), (20, 20), (20, 20)]
    assert [(task.work_s, task.cpu_s) for task in second.maps] == [(116.5, 58.25)] * 3
    assert (
        "assumed: 1 jobs whose first tasks began at different times submit all at the first" in trace.warnings
    )


def test_alibabas_batch_task_as_published(tmp_path):
    others = "task_x1,5,j_2,1,Terminated,90,95,,0.1\nM1,1,j_3,1,Failed,90,95,100,0.1\nM1,1,j_3,1,Terminated,9,8,9,1\n"
    path = written(tmp_path, BATCH + others + "R3_2,1,j_4,1,Terminated,95,99,100,\n")
    assert detect(path) == "alibaba"
    trace = read_trace(path)
    assert [(job.name, len(job.maps), len(job.reduces)) for job in trace.jobs] == [
        ("j_2", 5, 0), ("j_4", 1, 0), ("j_1", 3, 2),
    ]  # fmt: skip
    last = trace.jobs[2]
    assert [(task.work_s, task.cpu_s) for task in (last.maps[0], last.reduces[0])] == [(10, 10), (30, 15)]
    assert (last.submit_s, last.duration_s) == (100, 40)
    told = "\n".join(trace.warnings)
    assert "1 tasks that did not end well" in told and "1 tasks without a duration are left out" in told
    assert "tasks of 1 jobs that wait for other tasks run as reduces" in told


def test_batch_task_with_a_header(tmp_path):
    head = "task_name,instance_num,job_name,task_type,status,start_time,end_time,plan_cpu,plan_mem\n"
    assert read_trace(written(tmp_path, head + BATCH)) == read_trace(written(tmp_path, BATCH))


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (BATCH + "M1,2,j_2\n", "t.txt:3: 3 columns, expected 9 (task_name, instance_num, "),
        (
            BATCH + "M1,2,j_2,1,Terminated,soon,95,100,1\n",
            "t.txt:3: start_time: 'soon' is not a number of 0 or more",
        ),
        (BATCH + "M1,0,j_2,1,Terminated,90,95,100,1\n", "t.txt:3: 0 instances, expected 1 to 1000000"),
        (BATCH + "M1,1,,1,Terminated,90,95,100,1\n", "t.txt:3: the job has no name"),
        (BATCH + 'M1,"1,j_2,1,Terminated,90,95,100,1\n', "t.txt:3: not CSV"),
        (COLUMNS + "0,1,-5,1,0,1,1,1,0\n", "t.txt:2: duration: '-5' is not a number of 0 or more"),
        (COLUMNS, "t.txt: no task that ran in it"),
    ],
)
def test_the_wrong_line_of_alibaba_is_named(tmp_path, text, told):
    with pytest.raises(BadInput) as caught:
        read_trace(written(tmp_path, text))
    assert told in str(caught.value) and "\n" not in str(caught.value)


@given(
    st.sampled_from(["", HEAD + swf_line(), COLUMNS, BATCH]),
    st.one_of(st.text(max_size=80), st.text(alphabet='0123456789-. ,;\n"eM_R', max_size=200)),
)
@example("", "1e400 " * 18)
@example(COLUMNS, "0,1e400,1,1,1,1,1,1,1")
@example("", "x" * 200_000)
def test_any_text_is_a_trace_or_bad_input(tmp_path_factory, start, text):
    path = tmp_path_factory.getbasetemp() / "garbage.txt"
    path.write_text(start + text)
    for reader in (read_swf, read_alibaba, read_trace):
        try:
            trace = reader(path)
            assert trace.jobs and all(job.maps for job in trace.jobs if trace.format != "swim")
        except BadInput as error:
            assert "garbage.txt" in str(error) and "\n" not in str(error)


def test_a_job_with_a_preceding_job_waits_for_the_nearest_line_above(tmp_path: Path) -> None:
    """A number may be used twice; a job that is not in the trace is not waited for."""
    text = swf_line(7) + swf_line(7, 5) + swf_line(8, 6, after=7, think=30) + swf_line(9, 7, after=3)
    trace = read_swf(written(tmp_path, text))
    assert [(job.number, job.after, job.think_s) for job in trace.jobs] == [
        (0, None, 0),
        (1, None, 0),
        (2, 1, 30),
        (3, None, 0),
    ]
    assert (
        "1 jobs have a preceding job that is not in the trace, and are submitted as recorded"
        in trace.warnings
    )


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (swf_line(1, after=1), "t.txt:1: preceding job: 1 is the job itself"),
        (
            swf_line(1, after=2) + swf_line(2, after=1),
            "t.txt:1: preceding job: 1 waits for 2 waits for 1, so that none of them would be submitted",
        ),
    ],
)
def test_jobs_that_would_wait_for_ever_are_refused(tmp_path: Path, text: str, line: str) -> None:
    with pytest.raises(BadInput) as caught:
        read_swf(written(tmp_path, text))
    assert str(caught.value).endswith(line)


def test_parts_of_a_run_do_not_count_twice(tmp_path: Path) -> None:
    """A job that was swapped out has a line about the whole run, and one about each part. Others have only parts."""
    text = (
        swf_line(1, run=90)
        + swf_line(1, run=40, status=2)
        + swf_line(1, run=50, status=3)
        + swf_line(2, status=3)
    )
    trace = read_swf(written(tmp_path, text))
    assert [(job.name, job.maps[0].duration_s) for job in trace.jobs] == [("1", 90), ("2", 60)]
    assert any(line.startswith("2 lines about a part of a job's run") for line in trace.warnings)


def test_what_ended_within_a_second_has_run(tmp_path: Path) -> None:
    [job] = (trace := read_swf(written(tmp_path, swf_line(run=0) + swf_line(run=0, status=5)))).jobs
    assert (
        job.maps[0].duration_s == 0.5
        and "1 jobs without a run time or processors are left out" in trace.warnings
    )
    [job] = (trace := read_alibaba(written(tmp_path, batch_line("M1", 7, 7)))).jobs
    assert job.maps[0].work_s == 0.5
    assert "assumed: 1 tasks that ended within the second of their start ran for 0.5 s" in trace.warnings


def batch_line(name: str, start_s: float, end_s: float, count: int = 1) -> str:
    """Return a line of Alibaba's batch tasks, for a task of job j that uses a whole core."""
    return f"{name},{count},j,1,Terminated,{start_s},{end_s},100,0.2\n"


def test_a_task_that_waits_works_from_the_end_of_those_before(tmp_path: Path) -> None:
    """A delay after that end is no work. Two tasks after one run side by side; a third stage follows in a reduce."""
    text = batch_line("J4_2_3", 100, 170) + batch_line("R3_1", 100, 130) + batch_line("R2_1", 115, 125, 2)
    text += batch_line("M1", 100, 110)
    [job] = read_alibaba(written(tmp_path, text)).jobs
    assert [task.work_s for task in job.maps] == [10]
    assert sorted(task.work_s or 0.0 for task in job.reduces) == [10, 10, 60]  # 20 s of R3 and 40 s of J4


def test_odd_names_and_times_are_noted(tmp_path: Path) -> None:
    """Here: a predecessor that is not there, a circle, an end at the same second, and a chain that no lane holds."""
    text = (
        batch_line("R1_9", 0, 5)
        + batch_line("R2_3", 0, 6)
        + batch_line("R3_2", 0, 7)
        + batch_line("task_x", 0, 8)
    )
    [job] = (trace := read_alibaba(written(tmp_path, text))).jobs
    assert [task.work_s for task in job.maps] == [5, 6, 7, 8] and not job.reduces
    assert (
        "2 tasks wait for each other in a circle, and are taken as if they waited for none" in trace.warnings
    )
    ends_s = {"M1": 5, "R2_1": 5, "R4_1": 15, "R5_4": 30, "R6_4": 20, "R7_6": 70}
    text = "".join(batch_line(name, 0, end_s) for name, end_s in ends_s.items())
    [job] = (trace := read_alibaba(written(tmp_path, text))).jobs
    found = sorted((task.work_s, task.cpu_s) for task in job.reduces)  # R4 and R5; R2, R6 and R7, after R4.
    assert found == [(25, 25), (65, 55.5)]
    told = "\n".join(trace.warnings)
    assert (
        "assumed: 1 tasks that ended no later than" in told
        and "1 maps and reduces also wait in their slot" in told
    )


def test_a_branch_beside_a_longer_one_ends_as_early(tmp_path: Path) -> None:
    """If R3 ran after all maps, the job would last 40 s. A chain after the longest map stays a reduce."""
    branches = batch_line("M1", 0, 10) + batch_line("M2", 0, 30) + batch_line("R3_1", 0, 20)
    [job] = (trace := read_alibaba(written(tmp_path, branches))).jobs
    assert (sorted(task.work_s or 0 for task in job.maps), job.reduces) == ([20, 30], ())
    assert any(line.startswith("assumed: 1 jobs have tasks that run in a map") for line in trace.warnings)
    [job] = read_alibaba(written(tmp_path, branches + batch_line("R4_2_3", 0, 50))).jobs
    assert sorted(task.work_s or 0 for task in job.maps) == [20, 30]
    assert [task.work_s for task in job.reduces] == [20]


@given(st.data())
def test_a_replay_lasts_as_long_as_the_longest_chain(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    """Random tasks, each recorded from the submission to its end, with all its predecessors' time as waiting."""
    ends_s: list[float] = []
    text, work_s = "", 0.0
    for number in range(data.draw(st.integers(1, 7))):
        before = data.draw(st.lists(st.integers(0, number - 1), max_size=2, unique=True)) if number else []
        count, lasts_s = data.draw(st.integers(1, 3)), data.draw(st.integers(1, 20))
        ends_s.append(max([0.0, *(ends_s[each] for each in before)]) + lasts_s)
        work_s += count * lasts_s
        name = "_".join(map(str, [f"T{number}", *before]))
        text += batch_line(name, 1000, 1000 + ends_s[-1], count)
    [job] = read_alibaba(written(tmp_path_factory.mktemp("dag"), text)).jobs
    found = max(task.work_s or 0 for task in job.maps) + max(
        (task.work_s or 0 for task in job.reduces), default=0.0
    )
    assert found == pytest.approx(max(ends_s), rel=0.0101)
    assert job.duration_s == max(ends_s)
    assert sum(task.cpu_s or 0 for task in (*job.maps, *job.reduces)) == pytest.approx(work_s)


@given(st.data())
def test_packed_tasks_keep_the_work_and_the_longest_chain(data: st.DataObject) -> None:
    """At most one reduce waits in its slot, if the longest chain does not fit one reduce."""
    begins, works, counts, ends = [0.0], [1.0], [1], [1.0]
    for _ in range(data.draw(st.integers(0, 6))):
        begins.append(data.draw(st.sampled_from([0.0, *ends])))
        works.append(data.draw(st.integers(1, 9)))
        counts.append(data.draw(st.integers(1, 5)))
        ends.append(begins[-1] + works[-1])
    packed = lanes(begins, works, counts)
    assert sum(lane.work_s * lane.count for lane in packed) == sum(map(mul, works, counts))
    assert max(lane.lasts_s for lane in packed) == max(ends)
    assert sum(lane.count for lane in packed if lane.lasts_s > lane.work_s) <= 1
    found = Counter(dict.fromkeys(range(len(works)), 0))
    for lane in packed:
        found.update(dict.fromkeys(lane.tasks, lane.count))
    assert [found[task] for task in range(len(works))] == counts
