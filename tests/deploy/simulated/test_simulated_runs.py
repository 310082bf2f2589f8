"""Tests simulated runs by command: tables, summary, `whatif` and `validate`, without Ray, with identical
files.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import yaml
from typer.testing import CliRunner

from schedbed.cluster.virtual.latencies import Latencies
from schedbed.deploy.cli import main
from schedbed.deploy.options import RunOptions
from schedbed.deploy.results import plots
from schedbed.deploy.results.comparison import seconds
from schedbed.deploy.results.metrics import RunTables
from schedbed.deploy.results.runfile import RunFile
from schedbed.deploy.scenario.resolve import resolve
from schedbed.deploy.simulated import simulated_runs
from schedbed.deploy.simulated.recorded_costs import RecordedAmounts, RecordedCosts
from schedbed.deploy.simulated.task_costs import costs_of
from schedbed.deploy.studies.compare import Pair, agreement, order_agreement, phases
from schedbed.deploy.studies.validate import LiveRepeats, compare
from schedbed.deploy.studies.whatif import load_record, resized, whatif
from schedbed.deploy.whole_run import run_scenario
from schedbed.scheduler.history import COLUMNS, read_table, read_tables
from schedbed.scheduler.simulate import simulation
from schedbed.scheduler.simulate.setup import Setup
from schedbed.scheduler.simulate.storage import PlacedInputs, place_inputs
from schedbed.tasks.errors import BadInput
from schedbed.tasks.specs import Split
from schedbed.tasks.workloads.planned import build_job

SCENARIO: dict[str, Any] = {
    "name": "small",
    "seed": 3,
    "scale": 0.1,
    "cluster": {"nodes": 4, "racks": 2},
    "blocks": {"replication": 2},
    "workload": {
        "jobs": [
            {
                "name": "burn",
                "app": "synthetic",
                "user": "ana",
                "maps": 12,
                "map": {"cpu": "20s", "read": "32MiB", "write": "8MiB", "variance": 0.3},
                "reduces": 2,
                "reduce": {"cpu": "10s", "write": "16MiB"},
            },
            {"name": "pi", "app": "pi", "user": "bo", "maps": 3, "submit": "5s"},
        ]
    },
    "policies": ["fifo", "fair"],
}


@pytest.fixture(scope="module")
def scenario(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("scenario") / "small.yaml"
    path.write_text(yaml.safe_dump(SCENARIO))
    return path


@pytest.fixture(scope="module")
def done(scenario: Path) -> Path:
    """Simulate the scenario; return the result folder."""
    out = scenario.parent / "out"
    result = call("run", scenario, "--machines", "sim", "--out", out, "--no-live")
    assert result.exit_code == 0, result.output
    return out


def call(*arguments: str | Path):
    return CliRunner().invoke(main.app, [str(argument) for argument in arguments])


def test_a_simulated_run_leaves_what_a_live_one_leaves(done: Path) -> None:
    for name in ("run.json", "summary.json", "report.html", "timeline.json"):
        assert (done / name).is_file()
    tables = read_tables(done)
    assert set(tables) == set(COLUMNS)
    for policy in ("fifo", "fair"):
        attempts = tables["attempts"][tables["attempts"]["policy"] == policy]
        assert len(attempts) == 12 + 2 + 3 + 1
        assert set(attempts["state"]) == {"succeeded"}
        assert (attempts["assigned"] < attempts["start"]).all() and (
            attempts["start"] < attempts["end"]
        ).all()
    burnt = tables["attempts"].query("policy == 'fifo' and job == 'job_0001' and kind == 'map'")
    # 12 maps of 2 s on an emulated core of a tenth, larger or smaller by chance: the mean is 0.2 core-seconds.
    assert 0.1 < burnt["cpu_s"].mean() < 0.3
    assert burnt["cpu_s"].nunique() == 12
    summary = json.loads((done / "summary.json").read_text())
    assert summary["machines"] == "sim" and summary["fidelity"]["trusted"]
    assert summary["policies"]["fair"]["jobs"]["succeeded"]["mean"] == 2
    assert {run["state"] for run in json.loads((done / "run.json").read_text())["runs"]} == {"succeeded"}


@pytest.mark.long  # seconds
def test_another_process_writes_equal_bytes(scenario: Path, done: Path, tmp_path: Path) -> None:
    code = (
        "import sys\nfrom schedbed import run\nfrom schedbed.deploy.results import plots\n"
        "plots.write = lambda *_: None\n"
        f"run({str(scenario)!r}, machines='sim', out={str(tmp_path / 'o')!r})\n"
        "assert 'ray' not in sys.modules"
    )
    environment = {"PYTHONHASHSEED": "12345", "PATH": "/usr/bin:/bin"}
    other = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True)
    assert other.returncode == 0, other.stderr
    for table in COLUMNS:
        name = f"{table}.parquet"
        assert (tmp_path / "o" / name).read_bytes() == (done / name).read_bytes(), table


MINE = "from schedbed.policy import Proposal\n\n\nclass Mine:\n    def decide(self, view, node, kind):\n" + (
    "        for job in view.jobs.values():\n            if job.stage(kind).ready:\n"
    "                task = job.any_reduce() if kind.value == 'reduce' else job.any_map()\n"
    "                return Proposal(task, 'any')\n        return None\n"
)


def test_runs_side_by_side_write_the_bytes_of_runs_one_after_the_other(
    scenario: Path, tmp_path: Path
) -> None:
    """Parallel runs write the same files as sequential runs, for shipped policies and for a user's policy.

    Runs of a user's policy send their rows to the command, others write them to files.
    """
    (tmp_path / "mine.py").write_text(MINE)
    specs = ["--policy", "fifo", "--policy", f"{tmp_path}/mine.py:Mine", "--policy", "fair"]
    for jobs in ("1", "2"):
        options = ["--machines", "sim", "--repeats", "2", "--no-live", *specs, "--jobs", jobs]
        result = call("run", scenario, *options, "--out", tmp_path / jobs)
        assert result.exit_code == 0, result.output
    files = sorted(path.name for path in (tmp_path / "1").iterdir() if path.is_file())
    assert files == sorted(path.name for path in (tmp_path / "2").iterdir() if path.is_file())
    for name in {*files} - {"run.json", "report.html"}:
        assert (tmp_path / "1" / name).read_bytes() == (tmp_path / "2" / name).read_bytes(), name
    one, two = (json.loads((tmp_path / jobs / "run.json").read_text()) for jobs in ("1", "2"))
    times = ("wall_start", "seal")
    for run in one["runs"] + two["runs"]:
        assert run.pop("epoch_s") > 0
    assert {key: one[key] for key in one if key not in times} == {
        key: two[key] for key in two if key not in times
    }
    pages = [(tmp_path / jobs / "report.html").read_text() for jobs in ("1", "2")]
    assert pages[0].replace(one["wall_start"], "") == pages[1].replace(two["wall_start"], "")


def test_policies_side_by_side_simulate_with_inputs_that_are_placed_once(
    scenario: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = ["--machines", "sim", "--policy", "fifo", "--policy", "fair", "--no-live", "--no-report"]
    assert call("run", scenario, *options, "--jobs", "1", "--out", tmp_path / "1").exit_code == 0

    def refuse(setup: Setup) -> PlacedInputs:
        assert len(setup.jobs) == 1, "the inputs are placed again"  # Jobs are also simulated alone.
        return place_inputs(setup)

    with monkeypatch.context() as patch:
        patch.setattr(simulation, "place_inputs", refuse)
        result = call("run", scenario, *options, "--jobs", "2", "--out", tmp_path / "2")
        assert result.exit_code == 0, result.output
    for table in COLUMNS:
        one, two = ((tmp_path / jobs / f"{table}.parquet").read_bytes() for jobs in ("1", "2"))
        assert one == two, table
    # If the inputs cannot be placed beforehand, each run places them.
    monkeypatch.setattr(simulated_runs, "place_inputs", refuse)
    result = call("run", scenario, *options, "--jobs", "2", "--out", tmp_path / "3")
    assert result.exit_code == 0, result.output


def test_a_report_that_nobody_asked_for_is_not_made(scenario: Path, tmp_path: Path) -> None:
    out = tmp_path / "o"
    options = ("--machines", "sim", "--policy", "fifo", "--no-live", "--out", out)
    result = call("run", scenario, *options, "--no-report")
    assert result.exit_code == 0 and f"schedbed report {out}" in " ".join(result.output.split())
    assert (out / "summary.json").exists() and not (out / "report.html").exists()
    assert call("report", out).exit_code == 0 and (out / "report.html").exists()


def test_plots_are_drawn_when_asked_for(
    scenario: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn: list[Path] = []
    monkeypatch.setattr(plots, "write", lambda folder, *_: drawn.append(folder))
    options = ("--machines", "sim", "--policy", "fifo", "--no-live")
    for name, asked in (("a", ()), ("b", ("--no-plots",)), ("c", ("--plots",))):
        assert call("run", scenario, *options, *asked, "--out", tmp_path / name).exit_code == 0
    assert drawn == [tmp_path / "c" / plots.FOLDER]


def test_live_runs_take_no_jobs(scenario: Path, tmp_path: Path) -> None:
    refused = call("run", scenario, "--jobs", "2", "--out", tmp_path / "o")
    assert refused.exit_code == 2 and refused.stderr.startswith("schedbed: --jobs 2: live runs go one after")


def test_a_single_run_needs_no_other_process(
    scenario: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fork() -> int:
        raise AssertionError("a fork")

    monkeypatch.setattr(os, "fork", fork)
    options = ("--machines", "sim", "--policy", "fifo", "--no-live", "--jobs", "2")
    assert call("run", scenario, *options, "--out", tmp_path / "o").exit_code == 0


def test_repeats_are_paired_and_differ(scenario: Path, tmp_path: Path) -> None:
    options = ("--machines", "sim", "--policy", "fifo", "--repeats", "2", "--no-live")
    assert call("run", scenario, *options, "--out", tmp_path / "o").exit_code == 0
    attempts = read_tables(tmp_path / "o")["attempts"]
    fifo = attempts.set_index("attempt")
    assert not fifo[fifo["repeat"] == 0]["node"].equals(fifo[fifo["repeat"] == 1]["node"])


def test_a_replay_of_the_recorded_policy_takes_as_long(done: Path, tmp_path: Path) -> None:
    told: list[str] = []
    whatif(done, [], RunOptions(out=tmp_path / "o", live=False), recorded="fair", say=told.append)
    assert told[-1].startswith("fair: recorded") and told[-1].endswith("%)")
    error = float(told[-1].rpartition("(")[2].removesuffix("%)"))
    assert abs(error) <= 3


def test_whatif_takes_other_policies_and_more_nodes(done: Path, tmp_path: Path) -> None:
    result = call("whatif", done, "--policy", "delay", "--nodes", "8", "--out", tmp_path / "o", "--no-live")
    assert result.exit_code == 0, result.output
    lines = [re.split(r"\s{2,}", line.strip()) for line in result.output.splitlines()]
    at = lines.index(["record of fifo", "delay"])
    figures = json.loads((done / "summary.json").read_text())["policies"]["fifo"]
    assert lines[at + 1][:2] == ["makespan [s]", seconds(figures["makespan_s"]["mean"])]
    run = json.loads((tmp_path / "o" / "run.json").read_text())
    assert (run["policies"], len(run["scenario"]["cluster"]["nodes"])) == (["delay"], 8)
    faster, slower = (read_tables(folder)["jobs"] for folder in (tmp_path / "o", done))
    assert faster["finish"].max() < slower["finish"].max()
    for arguments, wrong in ((["--from", "capacity"], "--from capacity"), (["--nodes", "1"], "--nodes 1")):
        refused = call("whatif", done, *arguments, "--out", tmp_path / "p")
        assert refused.exit_code == 2 and wrong in refused.stderr
    assert not (tmp_path / "p").exists()


def test_the_record_gives_each_task_its_own_costs(done: Path) -> None:
    record = load_record(done)
    assert record.policy == "fifo"
    costs = RecordedCosts(RecordedAmounts.of(record.tables))
    (burn, pi) = record.scenario.jobs
    asked = burn.map_costs[5]
    found = costs.map_cost(_spec(burn), 5)
    # Moving its data is a part of what it costs, so it may use more than it was asked to.
    assert found.cpu_s == pytest.approx(costs_of(record.scenario).map_cost(_spec(burn), 5).cpu_s)
    assert (found.read_bytes, found.output_bytes) == (asked.read_bytes, asked.write_bytes)
    assert costs.reduce_cost(_spec(burn), 1).output_bytes == burn.reduce_costs[1].write_bytes
    assert costs.map_cost(_spec(pi), 0).cpu_s > 0


def test_parts_of_a_recorded_map_are_one_again(done: Path) -> None:
    """A recorded map that was split has the same cost as without the split.

    In the changed record a quarter of the map ran under the map's id, and the rest under another id.
    """
    tables = load_record(done).tables
    attempts = tables.attempts
    mine = attempts[(attempts["task"] == "job_0001_m_000005") & (attempts["state"] == "succeeded")]
    others = attempts.drop(mine.index)
    moved = ["cpu_s", "read_local_bytes", "read_remote_bytes", "output_bytes", "spill_bytes"]
    first, rest = mine.assign(split_of=mine["task"]), mine.assign(split_of=mine["task"])
    first[moved], rest[moved] = mine[moved] // 4, mine[moved] - mine[moved] // 4
    rest = rest.assign(task="job_0001_m_000099", attempt="job_0001_m_000099_0")
    parts = pd.concat([others, first, rest], ignore_index=True)
    split = replace(tables, tables={**tables.tables, "attempts": parts})
    job = _spec(load_record(done).scenario.jobs[0])
    assert RecordedCosts(RecordedAmounts.of(split)).map_cost(job, 5) == RecordedCosts(
        RecordedAmounts.of(tables)
    ).map_cost(job, 5)


def _spec(planned: Any) -> Any:
    splits = tuple(Split(index=index, length=2**30) for index in range(planned.maps))
    return replace(build_job(replace(planned, input=None), lambda path: ()), splits=splits)


def test_a_smaller_cluster_keeps_replicas_apart_and_faults_on_nodes_that_are_there(tmp_path: Path) -> None:
    values = SCENARIO | {"faults": [{"at": "5s", "kill": "n4"}]}
    scenario = resolve(values, base=tmp_path)
    file = replace(scenario.inputs[0], preferred=(("n1", "n4"), ("n3", "n2")))
    smaller = resized(replace(scenario, inputs=(file,)), 3)
    assert [node.node for node in smaller.cluster.nodes] == ["n1", "n2", "n3"]
    assert smaller.inputs[0].preferred == (("n1", "n2"), ("n3", "n2"))
    assert smaller.faults[0].nodes == ("n1",)
    with pytest.raises(BadInput, match="--nodes 1: 2 replicas"):
        resized(scenario, 1)


@pytest.mark.long  # seconds
def test_validate_holds_a_run_against_its_simulation(
    scenario: Path, done: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("schedbed.deploy.studies.validate.SIM_REPEATS", 3)
    # A simulated run stands for the live one.
    monkeypatch.setattr("schedbed.deploy.studies.validate._check_live", lambda *_: None)
    arguments = ("--against", done, "--policy", "fifo", "--no-live", "--set", "simulate.costs=specification")
    result = call("validate", scenario, *arguments, "--phases", "--out", tmp_path / "v")
    assert "order of launches (Kendall's tau)" in result.output
    assert "mean seconds of each phase" in result.output
    report = json.loads((tmp_path / "v" / "validate.json").read_text())
    assert (report["fitted_on"], report["winner"], report["left_out"]) == ([], None, [])
    found = report["policies"]
    assert [each["policy"] for each in found] == ["fifo"]
    assert result.exit_code == (1 if any(each["outside"] for each in found) else 0)
    burn = found[0]["jobs"]["burn (job_0001)"]
    assert burn["error"] == pytest.approx(burn["sim"] / burn["measured"] - 1)


def runs_in(folder: Path) -> dict[str, list[RunTables]]:
    """Return the runs of a folder by policy, without policies that have no runs."""
    runs = LiveRepeats.of(folder, ["fifo", "fair"]).runs
    return {policy: list(repeats.values()) for policy, repeats in runs.items() if repeats}


def test_a_run_agrees_with_itself_and_not_with_a_slower_one(
    done: Path, scenario: Path, tmp_path: Path
) -> None:
    runs = runs_in(done)
    assert set(runs) == {"fifo", "fair"}
    for each in compare(runs, runs):
        assert (each.outside, each.makespan_s.error) == ([], 0.0)
        assert each.order == pytest.approx(1.0)
    slower = ("--set", "cluster.node.core_speed=0.05", "--machines", "sim", "--no-live")
    assert call("run", scenario, *slower, "--policy", "fifo", "--out", tmp_path / "s").exit_code == 0
    (other,) = compare(runs_in(tmp_path / "s"), runs)
    assert other.makespan_s.error < -0.1
    assert other.outside[0].startswith("makespan -")
    refused = call("validate", scenario, "--policy", "delay", "--against", done, "--out", tmp_path / "v")
    assert refused.exit_code == 2 and not (tmp_path / "v").exists()


def test_phases_add_up(done: Path) -> None:
    tables = load_record(done).tables
    found = phases(tables)
    reduces = found[found["kind"] == "reduce"]
    whole = reduces["shuffle"] + reduces["sort"] + reduces["reduce"]
    assert whole.to_numpy() == pytest.approx(reduces["run"].to_numpy())
    assert (found["beyond CPU"] > (1 - Latencies().core_share) * found["run"] - 1e-6).all()
    same = agreement("fifo", [tables, tables], [tables])
    assert same.order_live == pytest.approx(1.0)
    assert same.phases["all maps"]["run"].error == 0.0


def test_the_order_of_launches_is_compared_by_rank(done: Path) -> None:
    attempts = load_record(done).tables.attempts
    backwards = attempts.assign(assigned=-attempts["assigned"])
    assert order_agreement(attempts, attempts) == pytest.approx(1.0)
    assert order_agreement(attempts, backwards) == pytest.approx(-1.0)
    assert Pair(live=(1.0, 3.0, 2.0), simulated=(2.2, 9.0, 1.0)).error == pytest.approx(0.1)


def test_a_crash_of_the_jobtracker_is_simulated_and_recorded(tmp_path: Path) -> None:
    path = tmp_path / "s.yaml"
    faults = [{"at": "1s", "crash": "jobtracker", "for": "1s"}]
    path.write_text(yaml.safe_dump(SCENARIO | {"faults": faults}))
    finished = call(
        "run", path, "--machines", "sim", "--policy", "fifo", "--out", tmp_path / "o", "--no-live"
    )
    assert finished.exit_code == 0, finished.output
    assert read_tables(tmp_path / "o")["faults"]["kind"].tolist() == ["crash_jobtracker"]


@pytest.mark.long  # seconds
def test_a_live_record_is_fitted_until_tasks_last_as_long_as_recorded(
    scenario: Path, done: Path, tmp_path: Path
) -> None:
    """The simulation is fitted to a record in which tasks took longer than the declared nodes explain.

    The record is of a simulated run on nodes with fewer cores than declared, as if on a busy host.
    """
    slow = tmp_path / "slow"
    fewer = ("--set", "cluster.node.cores=1", "--policy", "fifo", "--machines", "sim", "--no-live")
    assert call("run", scenario, *fewer, "--out", slow).exit_code == 0
    run = RunFile.load(slow)
    for node in run.scenario["cluster"]["nodes"]:
        node["cores"] = 2  # half of what the nodes are said to have is not there
    run.machines = "process"
    run.save(slow)
    told: list[str] = []
    whatif(slow, [], RunOptions(out=tmp_path / "o", live=False), say=told.append)
    error = float(told[-1].rpartition("(")[2].removesuffix("%)"))
    assert abs(error) <= 3
    fast, recorded = (read_tables(folder)["jobs"].query("policy == 'fifo'") for folder in (done, slow))
    assert recorded["finish"].max() > 1.2 * fast["finish"].max()


def test_a_policy_of_ones_own_that_fails_is_told_in_a_line(scenario: Path, tmp_path: Path) -> None:
    """A user's policy that fails gives one line, and the next policy is simulated."""
    policy = tmp_path / "mine.py"
    policy.write_text(
        "class Mine:\n    def decide(self, view, node, kind):\n        raise ValueError('no pool')\n"
    )
    spec, out = f"{policy}:Mine", tmp_path / "out"
    options = ["--machines", "sim", "--no-live", "--out", out, "--policy", spec, "--policy", "fifo"]
    result = call("run", scenario, *options)
    assert result.exit_code == 1
    assert result.stderr == f"schedbed: {spec}: ValueError: no pool (mine.py, line 3)\n"
    states = [run["state"] for run in json.loads((out / "run.json").read_text())["runs"]]
    assert states == ["failed", "succeeded"]


def test_an_application_takes_twice_as_long_on_cores_of_half_the_speed(tmp_path: Path) -> None:
    """An application uses the same CPU time of the host on cores of any speed, and takes twice as long at
    half speed.

    A synthetic task uses less CPU time on slow cores, since its cost is a time on an emulated core.
    """
    jobs = [
        {"name": "samples", "app": "pi", "maps": 8},
        {"name": "burn", "app": "synthetic", "maps": 8, "map": {"cpu": "20s"}, "submit": "300s"},
    ]
    nodes = [{"count": 2, "core_speed": 0.05}, {"count": 2, "core_speed": 0.1}]
    path = tmp_path / "speeds.yaml"
    path.write_text(
        yaml.safe_dump({"cluster": {"nodes": nodes}, "workload": {"jobs": jobs}, "policies": ["fifo"]})
    )
    out = tmp_path / "out"
    result = call("run", path, "--machines", "sim", "--out", out, "--no-live", "--set", "scale=1")
    assert result.exit_code == 0, result.output
    attempts = read_tables(out)["attempts"]
    maps = attempts[attempts["kind"] == "map"]
    ran_s = (maps["end"] - maps["start"]).groupby([maps["job"], maps["node"]]).mean()
    used_s = maps["cpu_s"].groupby([maps["job"], maps["node"]]).mean()
    assert ran_s["job_0001"]["n1"] == pytest.approx(2 * ran_s["job_0001"]["n3"], rel=0.05)
    assert used_s["job_0001"]["n1"] == pytest.approx(used_s["job_0001"]["n3"])
    assert ran_s["job_0002"]["n1"] == pytest.approx(ran_s["job_0002"]["n3"], rel=0.05)
    assert used_s["job_0002"]["n1"] == pytest.approx(used_s["job_0002"]["n3"] / 2)


def test_late_copies_whole_tasks_and_parts_of_dtss(tmp_path: Path) -> None:
    """A copy reads what its task or part reads: each byte of input is read once by the attempts that count."""
    node = {"cores": 2, "core_speed": 1, "memory": "1GiB", "disk": "40MB/s", "network": "100Mbit/s"}
    job = {"app": "synthetic", "maps": 30, "map": {"cpu": "10s", "read": "64MiB"}, "reduces": 1}
    scenario = {
        "name": "copied-parts",
        "seed": 1,
        "cluster": {"nodes": 6, "node": {**node, "map_slots": 2, "reduce_slots": 1}, "heartbeat": "500ms"},
        "blocks": {"size": "64MiB", "replication": 1, "placement": {"skewed": 0.3}},
        "workload": {"jobs": [job, {**job, "submit": "1s"}]},
        "policies": ["dtss:p=0.5"],
        "speculation": {"late": {"min_runtime": "5s", "slow_task": 40, "cap": 0.5}},
        "simulate": {"stragglers": {"share": 0.2, "factor": 8}},
    }
    run_scenario(resolve(scenario), RunOptions(machines="sim", out=tmp_path, live=False, report=False))
    attempts = read_table(tmp_path, "attempts")
    attempts = attempts[attempts["kind"] == "map"]
    copies = attempts[attempts["speculative"].astype(bool)]
    parts = set(attempts["task"][attempts["split_of"].astype(bool)])
    assert set(copies["task"]) & parts and set(copies["task"]) - parts
    done = attempts[attempts["state"] == "succeeded"]
    assert done["task"].is_unique and done["length"].sum() == 60 * (64 << 20)
    ranges = attempts.groupby("task")[["offset", "length"]].nunique()
    assert (ranges == 1).all(axis=None)
