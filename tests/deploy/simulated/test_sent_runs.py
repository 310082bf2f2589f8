"""Tests that runs which are simulated with sent inputs, as on another host, give the files of this host."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import psutil
import pytest

from schedbed.cluster.virtual.latencies import Latencies
from schedbed.deploy.display.progress import Lines
from schedbed.deploy.options import RunOptions
from schedbed.deploy.python_face import run
from schedbed.deploy.results.metrics import select
from schedbed.deploy.results.runfile import RunFile
from schedbed.deploy.scenario.resolve import resolve
from schedbed.deploy.scenario.resolved import ResolvedScenario
from schedbed.deploy.simulated import ray_tasks
from schedbed.deploy.simulated.host_runs import HostRuns
from schedbed.deploy.simulated.one_run import OneRun
from schedbed.deploy.simulated.recorded_costs import RecordedAmounts, RecordedCosts, SharedInputs
from schedbed.deploy.simulated.sent_runs import packed_inputs, take_end
from schedbed.deploy.simulated.simulated_runs import SimRuns
from schedbed.deploy.simulated.task_costs import costs_of
from schedbed.deploy.workspace import PREFIX, base_folder
from schedbed.scheduler.history import COLUMNS, read_tables
from schedbed.scheduler.part_merge import merge
from schedbed.tasks.appkit.cost_law import AppCosts, Law
from schedbed.tasks.errors import BadInput
from schedbed.tasks.specs import TaskKind
from tests.harness.command import eventually

SCENARIO: dict[str, Any] = {
    "name": "small",
    "seed": 3,
    "repeats": 2,
    "cluster": {"nodes": 4, "racks": 2},
    "workload": {
        "jobs": [
            {
                "name": "burn",
                "app": "synthetic",
                "count": 3,
                "maps": 6,
                "map": {"cpu": "20s", "read": "32MiB", "write": "8MiB", "variance": 0.3},
                "reduces": 2,
                "reduce": {"cpu": "10s", "write": "16MiB"},
            },
            {"name": "pi", "app": "pi", "maps": 3, "submit": "5s"},
        ]
    },
    "policies": ["fifo", {"delay": {"node_wait": "5s"}}],
}
MINE = """
import os

from beside import first


class Mine:
    def decide(self, view, node, kind):
        {act}
        return first(view, kind)
"""
BESIDE = """
from schedbed.policy import Proposal, TaskKind


def first(view, kind):
    for job in view.jobs.values():
        if job.stage(kind).ready:
            task = job.any_reduce() if kind is TaskKind.REDUCE else job.any_map()
            return Proposal(task, "the first")
"""
LAW = AppCosts(
    map_start_s=0.1, map_cpu_s=3e-7, map_sort_s=0.0, map_output=Law(3.0, 0.0), map_records=1.0,
    reduce_start_s=0.3, reduce_sort_s=1e-9, reduce_cpu_s=1 / 3, output=Law(2.0, 0.5),
)  # fmt: skip


def on_this_host(inputs: SharedInputs, folder: Path, *, jobs: int = 1) -> RunFile:
    """Simulate on this host, and merge the part files. With `jobs=2` two processes simulate side by side.

    In `test_simulated_runs`, side by side and one after another give the same files, but a process takes a
    second to start.
    """
    folder.mkdir()
    record = empty_record(inputs.scenario)
    SimRuns(
        inputs.scenario,
        RunOptions(machines="sim", live=False, jobs=jobs),
        inputs.costs,
        inputs.latencies,
        cpu_factors=inputs.cpu_factors,
        as_live=inputs.as_live,
    ).run_all(folder, record)
    merge(folder)
    return record


def on_another_host(shared: bytes, scenario: ResolvedScenario, folder: Path) -> tuple[RunFile, str]:
    """Simulate with the packed inputs of all runs only, and merge the part files that come back.

    Return the record and what policies printed.
    """
    there = folder / "there"
    there.mkdir(parents=True)
    runs = HostRuns(shared, there)
    record, printed = empty_record(scenario), ""
    for repeat in range(scenario.repeats):
        for choice in scenario.policies:
            place = (folder, record, Lines(1, io.StringIO()))
            run = OneRun(choice=choice, repeat=repeat, label="", place=place)
            run.begin()
            printed += take_end(run, runs.simulate(choice.spec, repeat, 1))
            run.close()
    merge(folder)
    return record, printed


def empty_record(scenario: ResolvedScenario) -> RunFile:
    return RunFile(scenario={}, policies=[], repeats=scenario.repeats, seed=1, machines="sim")


def inputs_of(scenario: ResolvedScenario, **more: Any) -> SharedInputs:
    usual = {"costs": costs_of(scenario), "latencies": Latencies(), "cpu_factors": {}, "as_live": False}
    return SharedInputs(scenario=scenario, **{**usual, **more})


def tables(folder: Path) -> dict[str, bytes]:
    return {name: (folder / f"{name}.parquet").read_bytes() for name in COLUMNS}


def ends(record: RunFile) -> set[str]:
    """Return how each run ended, without the time of its start, as JSON."""
    return {json.dumps({**asdict(run), "epoch_s": 0}, sort_keys=True) for run in record.runs}


def check_equal(inputs: SharedInputs, tmp_path: Path, before: Callable[[], None] = lambda: None) -> str:
    """Check that both ways give the same files and records. Return what policies printed on the other host.

    `before` is called when the inputs are packed.
    """
    wanted = on_this_host(inputs, tmp_path / "here")
    shared = packed_inputs(inputs)
    before()
    record, printed = on_another_host(shared, inputs.scenario, tmp_path / "away")
    assert ends(record) == ends(wanted)
    assert tables(tmp_path / "away") == tables(tmp_path / "here")
    return printed


@pytest.mark.parametrize("more", [{}, {"sizes": {"estimated": {"error": 0.5}}, "speculation": "late"}])
def test_runs_give_the_same_files_on_another_host(more: dict[str, Any], tmp_path: Path) -> None:
    check_equal(inputs_of(resolve({**SCENARIO, **more})), tmp_path)


ACTS = {
    "if view.now_s > 9: print('late')": "",
    "if view.now_s > 9: raise ValueError(__file__)": "ValueError: {file} (mine.py, line 9)",
    "if view.now_s > 9: os._exit(7)": "the policy's process ended with exit code 7 in decide (mine.py, line 8)",
}


@pytest.mark.parametrize("act", ACTS)
def test_a_users_policy_needs_no_file_on_the_other_host(
    act: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "mine.py"
    file.write_text(MINE.format(act=act))
    (tmp_path / "beside.py").write_text(BESIDE)
    scenario = resolve({**SCENARIO, "policies": ["fifo", f"{file}:Mine"]})

    def remove() -> None:
        file.unlink()
        (tmp_path / "beside.py").unlink()

    printed = check_equal(inputs_of(scenario), tmp_path, remove)
    here, there = capsys.readouterr().out.count("late\n"), printed.count("late\n")
    assert here == there > 0 if "print" in act else here == there == 0
    run = RunFile.load(tmp_path / "away").run(f"{file}:Mine", 0)
    assert run is not None and run.note == ACTS[act].format(file=file)


MEASURED: dict[str, Any] = {
    "latencies": Latencies(launch_s=0.3, launch_later_s=(0.0, 0.2, 0.7)),
    "cpu_factors": {("job_0004", TaskKind.MAP): [(0.5, 1.0), (2.0, 7.0)]},
    "as_live": True,
}


@pytest.fixture(scope="module")
def usual(tmp_path_factory: pytest.TempPathFactory) -> tuple[SharedInputs, Path]:
    """Return inputs with a cost law that was measured, and the folder of what they give on this host."""
    scenario = resolve({**SCENARIO, "simulate": {"costs": "profile"}})
    inputs = inputs_of(scenario, costs=costs_of(scenario, {"job_0004": LAW}))
    folder = tmp_path_factory.mktemp("measured") / "usual"
    on_this_host(inputs, folder)
    return inputs, folder


@pytest.mark.parametrize("name", ["costs", *MEASURED])
def test_what_was_measured_on_this_host_is_sent(
    name: str, usual: tuple[SharedInputs, Path], tmp_path: Path
) -> None:
    """Costs, latencies and factors that the other host could not compute change the runs there as here."""
    known, folder = usual
    slow = costs_of(known.scenario, {"job_0004": replace(LAW, reduce_start_s=9.0, map_cpu_s=0.7)})
    check_equal(replace(known, **{name: {**MEASURED, "costs": slow}[name]}), tmp_path)
    assert tables(folder)["attempts"] != tables(tmp_path / "here")["attempts"]


def test_costs_of_a_recorded_run_are_sent(tmp_path: Path) -> None:
    scenario = resolve(SCENARIO)
    on_this_host(inputs_of(scenario), tmp_path / "record")
    nodes = [asdict(node) for node in scenario.cluster.nodes]
    costs = RecordedCosts(RecordedAmounts.of(select(read_tables(tmp_path / "record"), nodes, "fifo", 0)))
    costs.extra_s["job_0001_m_000002"] = 1 / 3
    check_equal(inputs_of(scenario, costs=costs), tmp_path)
    assert tables(tmp_path / "here")["attempts"] != tables(tmp_path / "record")["attempts"]


def test_the_profile_store_is_sent_to_policies_that_read_it(tmp_path: Path) -> None:
    store = tmp_path / "store.sqlite"
    jobs = [{**SCENARIO["workload"]["jobs"][0], "deadline": "5m"}]
    made = {**SCENARIO, "workload": {"jobs": jobs}, "profiles": {"store": str(store), "learn": True}}
    run(made, machines="sim", policies=["fifo"], repeats=1)
    scenario = resolve(made, policies=["aria", "fifo"]).without_learning()
    unknown = replace(scenario, profiles=replace(scenario.profiles, store="none"))
    on_this_host(inputs_of(unknown), tmp_path / "unknown")
    check_equal(inputs_of(scenario), tmp_path, store.unlink)
    assert tables(tmp_path / "unknown")["decisions"] != tables(tmp_path / "here")["decisions"]
    nobody_reads = packed_inputs(inputs_of(resolve(made, policies=["fifo"])))
    assert json.loads(nobody_reads)["rest"]["store"] is None


def test_a_policy_object_is_refused() -> None:
    class Mine:
        def decide(self, view: Any, node: Any, kind: Any) -> None: ...

    scenario = resolve(SCENARIO, policies=[Mine])
    with pytest.raises(BadInput, match=r"^--address: policy Mine: a class or object cannot be sent"):
        SimRuns(scenario, RunOptions(machines="sim", address="auto"))


def test_a_worker_keeps_its_process_until_one_fails(tmp_path: Path) -> None:
    shared = packed_inputs(inputs_of(resolve(SCENARIO)))
    asked = json.dumps(["fifo", 0, 1]).encode()
    first = ray_tasks.simulate_packed(asked, shared)
    assert ray_tasks.simulate_packed(asked, shared) == first
    [process] = ray_tasks._PROCESSES.values()
    with pytest.raises(RuntimeError, match=r"^its process ended with code 1: ValueError: not enough values"):
        ray_tasks.simulate_packed(json.dumps(["nobody", 0, 1]).encode(), shared)
    assert ray_tasks._PROCESSES == {} and process._process.returncode == 1


ASKER = """
import json, sys
from schedbed.deploy.simulated.host_process import HostProcess
process = HostProcess("schedbed.deploy.simulated.host_runs")
process.ask(sys.stdin.buffer.read())
print(process._process.pid, flush=True)
process.ask(json.dumps(["fifo", 0, 1]).encode())
"""


def test_the_process_ends_with_the_one_that_asks_and_leaves_no_folder() -> None:
    busy = {**SCENARIO, "repeats": 1, "policies": ["fifo"]}
    busy["workload"] = {"jobs": [{"name": "b", "app": "synthetic", "maps": 30000, "map": {"cpu": "9s"}}]}
    shared = packed_inputs(inputs_of(resolve(busy)))

    command = [sys.executable, "-c", ASKER]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as asker:
        assert asker.stdin is not None and asker.stdout is not None
        asker.stdin.write(shared)
        asker.stdin.close()
        launcher = psutil.Process(int(asker.stdout.readline()))
        [simulator] = launcher.children()

        def folders() -> list[Path]:
            """Return the folders of the simulator."""
            return [*base_folder().glob(f"{PREFIX}{simulator.pid}-*")]

        eventually(lambda: folders() and simulator.children(), "no run has begun")
        processes = [launcher, simulator, *simulator.children()]
        asker.kill()
    eventually(lambda: not folders() and not any(map(running, processes)), "something is left")


def running(process: psutil.Process) -> bool:
    return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
