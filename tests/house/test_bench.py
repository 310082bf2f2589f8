"""The arithmetic of the benchmarks: figures against targets, gaps from tables, /proc lines, checksums."""

from __future__ import annotations

import os
import resource
import runpy
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest
import yaml

from schedbed.deploy.doctor.loads import probe
from schedbed.deploy.scenario.resolve import resolve
from schedbed.tasks.specs import Cost
from tests.bench import control_plane, datapath, isolation, overhead, scale
from tests.bench.figures import Figure, ResultFile, publish
from tests.bench.proctree import TreeWatch, parse_stat, read_stat

BENCH = Path(__file__).parents[1] / "bench"


def attempts(*rows: tuple[str, float, float, float | None]) -> pd.DataFrame:
    """Return an attempts table with rows of (node, assigned, start, end)."""
    return pd.DataFrame(rows, columns=pd.Index(["node", "assigned", "start", "end"]))


def test_a_figure_is_judged_by_its_median() -> None:
    figure = Figure(name="gap", values=[50.0, 30.0, 39.0], unit="ms", high=40)
    assert (figure.verdict, figure.target, figure.measured) == ("met", "<= 40 ms", "39 ms (30..50)")
    assert Figure(name="gap", values=[41.0], high=40).verdict == "missed"
    assert Figure(name="gap", values=[0.94], low=0.95, high=1.05).verdict == "missed"
    assert Figure(name="memory", values=[3.0], unit="GiB").verdict == ""


def test_a_result_file_gives_back_what_was_measured(tmp_path: Path) -> None:
    several = Figure(name="CPU", values=[1.0, 0.98], low=0.95, high=1.05, unit="x", note="one node")
    only_a_median = Figure(name="gap", values=[40.5], unit="ms", median_of=3)
    publish("isolation", "Isolation", [several, only_a_median], tmp_path / "new")
    found = ResultFile.load(tmp_path / "new" / "isolation.json")
    assert found.figures == [several, only_a_median]
    assert [figure.repeats for figure in found.figures] == [2, 3]
    assert (found.title, found.carried_over) == ("Isolation", "")
    assert found.command.startswith("python ") and f"{os.cpu_count()} cores" in found.host


def test_a_new_measurement_replaces_the_old_one(tmp_path: Path) -> None:
    for value in (1.0, 2.0):
        publish("scale", "Scale", [Figure(name="CPU", values=[value])], tmp_path)
    assert [figure.values for figure in ResultFile.load(tmp_path / "scale.json").figures] == [[2.0]]


def test_the_gap_of_a_slot_is_from_an_end_to_the_start_it_made_room_for() -> None:
    table = attempts(
        ("n1", 0.0, 0.5, 10.0),
        ("n1", 0.0, 0.5, 11.0),
        ("n1", 10.0, 10.2, 20.0),
        ("n1", 11.0, 11.4, 21.0),
        ("n2", 0.0, 0.1, 5.0),  # nothing came after it
        ("n2", 9.0, 9.5, None),  # still running: it has no end and counts for nothing
    )
    assert overhead.slot_gaps(table, 2) == pytest.approx([0.2, 0.4])
    assert overhead.launch_gaps(table[table["node"] == "n2"]) == pytest.approx([0.1, 0.5])


def test_a_job_is_compared_with_its_ideal() -> None:
    jobs = pd.DataFrame({"submit": [2.0], "finish": [23.0]})
    assert overhead.stretch(jobs, 20.0) == pytest.approx(1.05)


def test_the_furthest_node_counts() -> None:
    assert isolation.worst([1.02, 0.9, 1.05]) == 0.9


def test_a_line_of_proc_is_read_whatever_the_process_is_called() -> None:
    line = "42 (a (very) odd name) S 7 " + " ".join(str(number) for number in range(5, 53))
    stat = parse_stat(line)
    ticks = os.sysconf("SC_CLK_TCK")
    assert (stat.pid, stat.parent, stat.began) == (42, 7, 22)
    assert stat.cpu_s == pytest.approx((14 + 15) / ticks)
    assert read_stat(2**22 + 1) is None


def cpu_of_children_s() -> float:
    """Return the CPU seconds of all children of this process that have ended, as counted by the kernel."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def test_a_watch_sees_what_begins_below_and_its_cpu() -> None:
    watch, before_s = TreeWatch(), cpu_of_children_s()
    burn = "import time\nwhile time.process_time() < 0.2: pass\nprint(flush=True)\ninput()"
    with subprocess.Popen(
        [sys.executable, "-c", burn], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        watch.look()
        assert process.pid in watch.pids()
        assert watch.memory_bytes() > 2**20
        process.communicate(b"\n")
    watch.look()
    assert process.pid not in watch.pids()
    tick_s = 1 / os.sysconf("SC_CLK_TCK")  # of each of the two times that are added
    assert 0.2 - 2 * tick_s <= watch.cpu_s <= cpu_of_children_s() - before_s + 2 * tick_s


@pytest.mark.parametrize(
    ("line", "group"),
    [
        ("ray::TaskTrackerActor", "TaskTrackers"),
        ("ray::NameNodeActor.call", "masters"),
        ("/venv/bin/python -m schedbed.cluster.agent.warm.template 47", "agents"),
        ("/ray/core/src/ray/raylet/raylet --raylet_socket_name=x", "Ray's own processes"),
        ("python -m schedbed run", "command"),
    ],
)
def test_each_process_belongs_to_a_part_of_the_control_plane(line: str, group: str) -> None:
    assert control_plane.group_of(line) == group


def test_checksums_agree_however_the_words_are_partitioned(tmp_path: Path) -> None:
    for name, parts in {"a": [b"x\t1\nz\t2\n", b"y\t3\n"], "b": [b"", b"y\t3\nz\t2\nx\t1\n"]}.items():
        (tmp_path / name).mkdir()
        for number, data in enumerate(parts):
            (tmp_path / name / f"part-{number:05}").write_bytes(data)
    assert datapath.checksum("wordcount", tmp_path / "a") == datapath.checksum("wordcount", tmp_path / "b")
    assert datapath.checksum("sort", tmp_path / "a") != datapath.checksum("sort", tmp_path / "b")


def test_all_scenarios_are_accepted(tmp_path: Path) -> None:
    source = tmp_path / "input"
    source.write_bytes(b"a b\n" * 1000)
    scenarios = [
        overhead.scenario(5.0, 0.1, 48, "auto"),
        scale.scenario(24),
    ]
    scenarios += [datapath.scenario(app, source, 3) for app in datapath.INPUTS]
    for scenario in scenarios:
        resolve(yaml.safe_load(yaml.safe_dump(scenario)))


@pytest.mark.parametrize(
    "name", ["isolation", "task_scale", "overhead", "control_plane", "core_heartbeat", "datapath", "scale"]
)
def test_each_benchmark_says_what_it_does(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", [f"{name}.py", "--help"])
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(str(BENCH / f"{name}.py"), run_name="__main__")
    assert ended.value.code == 0
    said = capsys.readouterr().out
    assert f"tests/bench/{name}.py" in said and "--repeats" in said


def test_a_benchmark_is_a_command_of_its_own() -> None:
    done = subprocess.run(
        [sys.executable, str(BENCH / "datapath.py"), "--help"], capture_output=True, check=True
    )
    assert b"--repeats" in done.stdout


def test_an_attempt_reads_the_block_of_the_node_that_is_named() -> None:
    node = isolation.cluster("auto").nodes[0]
    spec = probe(node, "job_0001", 3, Cost(read_bytes=5), "n2")
    assert (spec.attempt, spec.blocks[0].nodes, spec.cost) == (
        "job_0001_m_000003_0",
        ("n2",),
        Cost(read_bytes=5),
    )
