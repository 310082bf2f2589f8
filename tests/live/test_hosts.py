"""A run over the hosts of a Ray cluster, each with its own network, processes and /tmp.

schedbed is only installed on the head.
"""

from __future__ import annotations

import json
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import psutil
import pytest

from schedbed.scheduler.history import read_tables
from tests.harness.command import DEADLINE_S, eventually, outputs, write_scenario
from tests.harness.lan import ROOT, Lan, LanHost, lan_or_skip
from tests.harness.own_policy import MINE
from tests.harness.strange_host import strange

pytestmark = pytest.mark.live

RAY = (sys.executable, "-m", "ray.scripts.scripts")
CLI = (sys.executable, "-m", "schedbed")
TRIES = 4  # Ray gives up when its processes have not started within 30 s
OUR_CODE = [ROOT / room for room in ("tasks", "cluster", "scheduler", "deploy")]
CPUS = {"head": 1, "left": 2, "right": 1}
NODES = {"head": 1, "left": 2, "right": 1}
AHEAD_S = {"left": -0.08, "right": 0.0}
"""How far clocks are ahead of the head's. Uncorrected, attempts would start before they are assigned."""
CLUSTER = {
    "nodes": 4,
    "racks": "by-host",
    "heartbeat": "250ms",
    "node": {"cores": 2, "core_speed": 0.1, "memory": "512MiB", "map_slots": 2, "reduce_slots": 1},
}
ENVIRONMENT = {
    "RAY_AUTH_MODE": "token",
    "RAY_AUTH_TOKEN": "0f" * 32,
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_worker_niceness": "0",  # as docs/hosts.md says; at Ray's 15 a run begins after minutes beside a busy program
    "HOME": "/tmp",
    "PYTHONUNBUFFERED": "1",
    "PYTHONPATH": "",
}
OWN = (
    MINE
    + """

class Says(Mine):
    def __init__(self):
        print("on", __import__("os").uname().nodename)


class Raises(Mine):
    def decide(self, view, node, kind):
        if view.now_s > 1:
            raise ValueError("no such pool")
        return super().decide(view, node, kind)
"""
)
LONG = {"jobs": [{"name": "long", "app": "synthetic", "maps": 15_000, "map": {"cpu": "9s"}}]}
"""A workload whose simulation takes some 10 s."""
SUBMITTED = {"RAY_JOB_CONFIG_JSON_ENV_VAR": json.dumps({"runtime_env": {"env_vars": {"SUBMITTED": "1"}}})}
"""What `ray job submit` hands on to the command that it starts."""


@pytest.fixture(scope="module")
def lans() -> Iterator[list[tuple[ExitStack, Lan]]]:
    """Yield a list that contains the network of hosts while it is up; end the network after the tests."""
    up: list[tuple[ExitStack, Lan]] = []
    yield up
    for stack, _ in up:
        stack.close()


@pytest.fixture
def lan(lans: list[tuple[ExitStack, Lan]], tmp_path_factory: pytest.TempPathFactory) -> Lan:
    """Return three hosts with a Ray process (raylet) each, created again if one of them is dead.

    Only the head can import schedbed, and the clock of one host is wrong.
    """
    for stack, lan in lans:
        if all(host.alive for host in lan.hosts.values()):
            return lan
        stack.close()
    lans.clear()
    with ExitStack() as stack:
        folder = tmp_path_factory.mktemp("lan")
        lan = stack.enter_context(lan_or_skip(folder, {"head": [], "left": OUR_CODE, "right": OUR_CODE}))
        head, *others = lan.hosts.values()
        start_raylet(head, "--head", "--port=6379", "--include-dashboard=false")
        for host in others:
            start_raylet(host, f"--address={head.address}:6379", **strange(host, ahead_s=AHEAD_S[host.name]))
        lans.append((stack.pop_all(), lan))
    return lan


def start_raylet(host: LanHost, *where: str, **environment: str) -> None:
    size = [f"--num-cpus={CPUS[host.name]}", "--object-store-memory=80000000"]
    said = ""
    for _ in range(TRIES):
        failed, said = host.tried(
            *RAY, "start", *where, f"--node-ip-address={host.address}", *size, **ENVIRONMENT | environment
        )
        if not failed:
            return
        host.run(*RAY, "stop", "--force")
    raise AssertionError(f"{host.name}: {said}")


def start(lan: Lan, name: str, *options: str, **environment: str) -> tuple[subprocess.Popen[bytes], Path]:
    """Start a run named `name` on the head; return its process and the folder of its results."""
    head = lan.hosts["head"]
    write_scenario(head.folder, cluster=CLUSTER)
    shutil.rmtree(head.folder / name, ignore_errors=True)  # of a first try
    arguments = ["/tmp/scenario.yaml", "--out", f"/tmp/{name}", "--keep-outputs", "--no-live"]
    log = head.folder / f"{name}.log"
    command = [*CLI, "run", *arguments, *options, "--address", "auto"]
    return head.start(log, *command, **ENVIRONMENT | environment), head.folder / name


def wait_for_attempts(process: subprocess.Popen[bytes], out: Path, host: LanHost) -> None:
    """Wait until the first attempts run on `host`."""

    def begun() -> bool:
        assert process.poll() is None, out.with_suffix(".log").read_text()
        return any(host.folder.glob("schedbed-*/run*/nodes/*/attempts/job_*"))

    try:
        eventually(begun, f"no attempt ran on {host.name}", DEADLINE_S)
    except AssertionError:
        kill(process)
        raise


def kill(process: subprocess.Popen[bytes]) -> None:
    """Kill a command that was started on a host, and wait for its end."""
    with suppress(psutil.NoSuchProcess):
        for child in psutil.Process(process.pid).children():
            child.kill()
    process.kill()
    process.wait()


def finish(process: subprocess.Popen[bytes], out: Path) -> None:
    try:
        code = process.wait(DEADLINE_S)
    finally:
        kill(process)
    assert code == 0, out.with_suffix(".log").read_text()


def processes(host: LanHost) -> list[str]:
    """Return the command lines of all processes of a run on the host."""
    ours = (
        "ray::JobTracker",
        "ray::NameNode",
        "ray::TaskTracker",
        "ray::HostKeeper",
        "schedbed.cluster.",
        "schedbed.deploy.",
        "run /tmp",
    )
    return [line for line in host.processes() if any(word in line for word in ours)]


def folders(host: LanHost) -> list[Path]:
    """Return the scratch folders of runs on the host."""
    return list(host.folder.glob("schedbed-*"))


def nothing_is_left(*hosts: LanHost) -> None:
    for host in hosts:
        eventually(lambda host=host: not processes(host), f"{host.name} goes on")
        assert folders(host) == []


def test_when_the_command_is_killed_all_hosts_stop(lan: Lan) -> None:
    process, out = start(lan, "killed")
    wait_for_attempts(process, out, lan.hosts["right"])
    assert all(processes(host) for host in lan.hosts.values())
    kill(process)
    for host in lan.hosts.values():
        eventually(lambda host=host: not processes(host), f"{host.name} goes on")


def test_the_hosts_are_shown_with_what_they_have(lan: Lan) -> None:
    check = ["hosts", "check", "--address", "auto", "--ports", "24000-24009"]
    failed, said = lan.hosts["head"].tried(*CLI, *check, **ENVIRONMENT, COLUMNS="250")
    assert not failed, said
    rows = {line.split()[0]: line for line in said.splitlines() if line.strip()}
    assert set(NODES) < set(rows) and "Nothing is missing." in said
    assert all(rows[name].count("B/s") == len(NODES) - 1 and "10 free" in rows[name] for name in NODES)
    for name, ahead_s in AHEAD_S.items():
        offset_ms, bound_ms = map(float, re.findall(r"([+-][0-9.]+) ± ([0-9.]+)", rows[name])[0])
        assert abs(offset_ms - ahead_s * 1e3) <= bound_ms + 0.01


def test_a_token_that_is_refused_is_told_in_a_line_and_nothing_is_left(lan: Lan) -> None:
    process, out = start(lan, "refused", RAY_AUTH_TOKEN="f0" * 32)
    assert process.wait(DEADLINE_S) == 2
    said = "it refused the token, expected the cluster's in RAY_AUTH_TOKEN or ~/.ray/auth_token"
    assert out.with_suffix(".log").read_text() == f"schedbed: --address auto: {said}\n"
    assert not out.exists() and not processes(lan.hosts["head"])


def test_a_run_over_three_hosts_gives_the_same_outputs_and_leaves_nothing(
    lan: Lan, undisturbed: Path
) -> None:
    process, out = start(lan, "whole")
    finish(process, out)
    assert outputs(out) == outputs(undisturbed)
    hosts = json.loads((out / "run.json").read_text())["hosts"]
    assert {name: len(host["nodes"]) for name, host in hosts.items()} == NODES
    places = {node: name for name, host in hosts.items() for node in host["nodes"]}
    tables = read_tables(out)
    assert set(tables["attempts"]["node"]) == set(places)
    assert list(tables["attempts"]["rack"]) == [places[node] for node in tables["attempts"]["node"]]
    replicas = tables["blocks"].groupby("block")["node"]
    assert all(len({places[node] for node in nodes}) == 2 for _, nodes in replicas)
    fidelity = json.loads((out / "summary.json").read_text())["fidelity"]
    assert set(fidelity["hosts"]) == set(NODES)
    clocks_are_corrected(out)
    nothing_is_left(*lan.hosts.values())  # of the killed command neither


def clocks_are_corrected(out: Path) -> None:
    """Check that each host's measured clock offset is the injected one, within the stated error bound.

    Also checks that no attempt starts before it was assigned.
    """
    run = json.loads((out / "run.json").read_text())
    for name, ahead_s in AHEAD_S.items():
        host = run["hosts"][name]
        readings = [[0.0, host["clock_offset_s"], host["clock_bound_s"]]]
        for record in run["runs"]:
            assert record["hosts"][name]["clock"]
            readings += record["hosts"][name]["clock"]
        assert all(abs(offset_s - ahead_s) <= bound_s + 1e-5 for _, offset_s, bound_s in readings), readings
    attempts = read_tables(out)["attempts"].query("state == 'succeeded'")
    assert (attempts["start"] >= attempts["assigned"]).all()


def test_a_host_that_is_lost_in_mid_run_changes_no_output_byte(lan: Lan, undisturbed: Path) -> None:
    process, out = start(lan, "lost", "--no-report", **SUBMITTED)
    lost = lan.hosts["left"]
    wait_for_attempts(process, out, lost)
    lost.kill()
    finish(process, out)
    assert outputs(out) == outputs(undisturbed)
    (record,) = json.loads((out / "run.json").read_text())["runs"]
    assert {name for name, host in record["hosts"].items() if host["lost_s"] is not None} == {"left"}
    late = read_tables(out)["attempts"].query("state == 'succeeded'")
    assert set(late["node"]) >= {"n1", "n4"}
    nothing_is_left(lan.hosts["head"], lan.hosts["right"])


def test_arena_over_the_hosts_gives_the_table_of_this_one(lan: Lan) -> None:
    head = lan.hosts["head"]
    (head.folder / "mine.py").write_text(MINE)
    options = ("--policies", "fifo,fair", "--policy", "/tmp/mine.py:Mine", "--workloads", "load0.8-even-calm")
    options += ("--quick", "--seeds", "2")
    for name, where in (("spread", ("--address", "auto")), ("alone", ())):
        log = head.folder / f"{name}.log"
        command = [*CLI, "arena", *options, *where, "--out", f"/tmp/{name}"]
        process = head.start(log, *command, **ENVIRONMENT)
        assert process.wait(DEADLINE_S) == 0, log.read_text()
    spread, alone = (head.folder / name / "arena.parquet" for name in ("spread", "alone"))
    assert spread.read_bytes() == alone.read_bytes()
    assert b"mine.py" in spread.read_bytes()
    nothing_is_left(*lan.hosts.values())


def simulate(lan: Lan, name: str, *options: str, **changes: object) -> tuple[subprocess.Popen[bytes], Path]:
    """Start a simulation named `name` on the head; return its process and the folder of its results."""
    head = lan.hosts["head"]
    write_scenario(head.folder, cluster=CLUSTER, **changes)
    shutil.rmtree(head.folder / name, ignore_errors=True)  # of a first try
    command = [*CLI, "run", "/tmp/scenario.yaml", "--machines", "sim", "--out", f"/tmp/{name}", "--no-report"]
    return head.start(head.folder / f"{name}.log", *command, *options, **ENVIRONMENT), head.folder / name


def simulators(host: LanHost) -> list[str]:
    """Return the command lines of processes that simulate on the host for a worker of Ray."""
    return [line for line in host.processes() if "host_runs" in line]


def files(out: Path) -> dict[str, bytes]:
    """Return the files of a run except run.json, which has the time of the run."""
    assert (out / "run.json").is_file()
    return {path.name: path.read_bytes() for path in out.iterdir() if path.name != "run.json"}


def test_simulations_over_the_hosts_give_the_files_of_this_one(lan: Lan) -> None:
    (lan.hosts["head"].folder / "own.py").write_text(OWN)
    own = ["/tmp/own.py:Says", "/tmp/own.py:Raises"]
    policies = [f"--policy={spec}" for spec in ("fifo", "aria", *own)]
    outs: list[Path] = []
    for name, where in (("sim-spread", ("--address", "auto")), ("sim-alone", ())):
        process, out = simulate(lan, name, *where, *policies, "--repeats", "3")
        said = (
            f"schedbed: {'; '.join(['/tmp/own.py:Raises: ValueError: no such pool (own.py, line 21)'] * 3)}"
        )
        assert process.wait(DEADLINE_S) == 1
        assert out.with_suffix(".log").read_text().splitlines()[-1] == said
        outs.append(out)
    spread, alone = outs
    assert files(spread) == files(alone)
    printed = [re.findall(r"^on \w+$", out.with_suffix(".log").read_text(), re.MULTILINE) for out in outs]
    assert len(printed[0]) == len(printed[1]) > 3  # What a policy prints comes from any host.
    runs = [json.loads((out / "run.json").read_text())["runs"] for out in outs]
    assert [each | {"epoch_s": 0} for each in runs[0]] == [each | {"epoch_s": 0} for each in runs[1]]
    nothing_is_left(*lan.hosts.values())


def test_an_interrupted_simulation_leaves_nothing_on_the_hosts(lan: Lan) -> None:
    process, out = simulate(lan, "stopped", "--address", "auto", "--repeats", "9", workload=LONG)
    for name in ("left", "right"):
        eventually(lambda name=name: simulators(lan.hosts[name]), f"{name} simulates nothing")
    for child in psutil.Process(process.pid).children():
        child.send_signal(signal.SIGINT)
    assert process.wait(DEADLINE_S) == 130, out.with_suffix(".log").read_text()
    nothing_is_left(*lan.hosts.values())


@pytest.mark.slow  # minutes
def test_simulations_of_a_lost_host_are_repeated(lan: Lan) -> None:
    process, out = simulate(lan, "sim-lost", "--address", "auto", "--repeats", "6", workload=LONG)
    lost = lan.hosts["left"]
    eventually(lambda: simulators(lost), "the host simulates nothing")
    lost.kill()
    finish(process, out)
    process, alone = simulate(lan, "sim-whole", "--repeats", "6", workload=LONG)
    finish(process, alone)
    assert files(out) == files(alone)
    nothing_is_left(lan.hosts["head"], lan.hosts["right"])
