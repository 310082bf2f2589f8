"""Deaths of processes during a run: the outputs are the same bytes, and nothing is left behind."""

from __future__ import annotations

import json
from ipaddress import IPv6Address, ip_address
from pathlib import Path

import psutil
import pytest

from schedbed.deploy.leftovers import ABRUPT
from schedbed.scheduler.history import read_tables
from schedbed.tasks.context import FULL_DISK
from tests.harness.command import (
    DEADLINE_S,
    PATIENCE_S,
    Command,
    eventually,
    outputs,
    start_run,
    write_scenario,
)
from tests.harness.damaged_runs import call

pytestmark = pytest.mark.live

Interrupted = tuple[Command, Path, dict[str, set[str]]]


def start(tmp_path: Path, *options: str, **changes: object) -> tuple[Command, Path]:
    return start_run(tmp_path, write_scenario(tmp_path, **changes), *options)


def finish_like(command: Command, out: Path, undisturbed: Path) -> None:
    assert command.wait() == 0, command.text()
    assert outputs(out) == outputs(undisturbed)
    assert command.left_behind() == []


def test_a_node_that_dies_in_mid_run_changes_no_output_byte(tmp_path: Path, undisturbed: Path) -> None:
    command, out = start(tmp_path, faults=[{"at": "25s", "kill": "n2"}])
    finish_like(command, out, undisturbed)
    tables = read_tables(out)
    assert list(tables["faults"]["target"]) == ["n2"]
    attempts = tables["attempts"]
    afterwards = attempts[attempts["assigned"] > tables["faults"]["t"][0] + 2]  # what was under way has come
    assert len(afterwards) > 0, (
        "what n2 held runs again once the JobTracker has missed its heartbeats for 3 s"
    )
    assert "n2" not in set(afterwards["node"])


@pytest.mark.parametrize(
    "victims",
    [
        ("ray::JobTrackerActor", "ray::TaskTrackerActor"),
        ("ray::NameNodeActor", "agent n1"),
    ],
)
def test_killed_processes_come_back_and_the_run_goes_on(
    tmp_path: Path, undisturbed: Path, victims: tuple[str, str]
) -> None:
    command, out = start(tmp_path)
    command.wait_for_attempts()
    for victim in victims:
        command.find(victim).kill()
    finish_like(command, out, undisturbed)


def cut_to_half(path: Path) -> None:
    with path.open("r+b") as file:
        file.truncate(path.stat().st_size // 2)


@pytest.mark.parametrize("master", ["JobTracker", "NameNode"])
def test_a_journal_that_is_cut_ends_the_run_in_one_line_and_what_was_measured_opens(
    tmp_path: Path, master: str
) -> None:
    command, out = start(tmp_path)
    command.wait_for_attempts()
    eventually(lambda: list(out.glob("parts/attempts/*.parquet")), "no rows are written")
    [journal] = [
        path for folder in command.scratch() for path in folder.glob(f"run*/{master.lower()}.sqlite")
    ]
    cut_to_half(journal)
    cut_to_half(journal.with_name(f"{journal.name}-wal"))
    command.find(f"ray::{master}Actor").kill()
    assert command.wait() == 1
    assert f"the {master}'s journal {master.lower()}.sqlite is damaged (" in command.text()
    assert "unexpected" not in command.text() and command.left_behind() == []
    code, text = call("report", out)
    assert code == 0, text
    assert not read_tables(out)["attempts"]["attempt"].duplicated().any()


def test_a_disk_that_was_full_as_its_tasktracker_died_is_free_after_the_fault(
    tmp_path: Path, undisturbed: Path
) -> None:
    faults = []
    for number, victim in enumerate(("kill_tracker", "kill_host", "kill_tracker")):
        at_s = 20 + 50 * number
        faults += [{"at": f"{at_s}s", "fill_disk": "n2", "for": "8s"}, {"at": f"{at_s + 5}s", victim: "n2"}]
    command, out = start(tmp_path, faults=faults)
    command.wait_for_attempts()
    seen: list[bool] = []

    def is_over() -> bool:
        marks = [folder.glob(f"run*/nodes/n2/{FULL_DISK}") for folder in command.scratch()]
        seen.append(any(map(any, marks)))
        return command.process.poll() is not None

    eventually(is_over, "the run does not end", DEADLINE_S)
    assert any(seen) and not any(seen[-5:])
    finish_like(command, out, undisturbed)


def is_loopback(text: str) -> bool:
    address = ip_address(text)
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return (mapped or address).is_loopback


def listening(processes: list[psutil.Process]) -> dict[str, set[str]]:
    """Return the addresses on which processes accept connections, by name and command line of the process."""
    found: dict[str, set[str]] = {}
    for process in processes:
        try:
            line = " ".join((process.name(), *process.cmdline()))
            sockets = process.net_connections(kind="inet")
        except psutil.NoSuchProcess:
            continue
        addresses = {socket.laddr.ip for socket in sockets if socket.status == psutil.CONN_LISTEN}
        if addresses:
            found.setdefault(line, set()).update(addresses)
    return found


@pytest.fixture(scope="module")
def interrupted(tmp_path_factory: pytest.TempPathFactory) -> Interrupted:
    """Return a run ended by Ctrl-C, its result folder, and the addresses on which its processes listened."""
    folder = tmp_path_factory.mktemp("interrupted")
    options = ["--out", str(folder / "out"), "--no-live", "--webhdfs", "0"]
    command = Command(folder, "run", str(write_scenario(folder)), *options)
    command.wait_for_attempts()
    eventually(lambda: "submitted" in command.text(), "nothing was measured")
    found = listening([psutil.Process(command.process.pid), *command.processes()])
    command.interrupt()
    assert command.wait() == 130, command.text()
    return command, folder / "out", found


def test_ctrl_c_ends_with_130_keeps_what_was_measured_and_leaves_nothing(interrupted: Interrupted) -> None:
    command, out, _ = interrupted
    assert command.left_behind() == []
    assert len(read_tables(out)["heartbeats"]) > 0
    assert (out / "report.html").exists()
    assert "repeat 1: interrupted, so the values are those of a part of the run" in command.text()


def test_a_local_run_listens_on_the_loopback_interface_only(interrupted: Interrupted) -> None:
    _, _, found = interrupted
    who = " ".join(found)
    for each in ("gcs_server", "raylet", "agent n1", "NameNode"):
        assert each in who
    outside = {line for line, addresses in found.items() if not all(map(is_loopback, addresses))}
    assert outside == set()


def test_ctrl_c_while_starting_leaves_nothing(tmp_path: Path) -> None:
    command, _ = start(tmp_path)
    command.find("gcs_server")  # Ray's first process: nothing of ours is up yet
    command.interrupt()
    assert command.wait() == 130, command.text()
    assert command.left_behind() == []


def test_a_killed_command_leaves_no_process_and_no_file_but_its_results(tmp_path: Path) -> None:
    command, _ = start(tmp_path)
    command.wait_for_attempts()
    mine = command.processes()
    assert any("schedbed.cluster." in " ".join(process.cmdline()) for process in mine)
    command.process.kill()
    command.wait()
    _, alive = psutil.wait_procs(mine, timeout=PATIENCE_S)
    assert alive == []
    assert command.left_behind() == []
    assert command.text().strip().splitlines()[-1] == ABRUPT


@pytest.mark.parametrize("victim", ["gcs_server", "raylet/raylet"])
def test_a_run_without_its_ray_ends_in_one_line_and_keeps_what_was_measured(
    tmp_path: Path, victim: str
) -> None:
    command, out = start(tmp_path)
    command.wait_for_attempts()
    eventually(lambda: "submitted" in command.text(), "nothing was measured")
    command.find(victim).kill()
    assert command.wait() == 1, command.text()
    last = command.text().strip().splitlines()[-1]
    assert last == f"schedbed: fifo: Ray's process {victim.rpartition('/')[2]} has ended in mid-run"
    assert "Traceback" not in command.text()
    assert len(read_tables(out)["heartbeats"]) > 0
    assert json.loads((out / "run.json").read_text())["runs"][0]["state"] == "failed"
    assert command.left_behind() == []


@pytest.mark.parametrize(
    ("act", "told"),
    [
        ("3 ** 10 ** 9", ["the policy has not answered for 3 s, and could not be interrupted, in"]),
        (
            "os.closerange(3, 200)",  # Ray may end the process before it has noticed
            ["the policy has closed the files of the JobTracker's process,", "times, each soon after"],
        ),
    ],
)
def test_a_policy_that_takes_the_jobtracker_with_it_ends_the_run(
    tmp_path: Path, act: str, told: list[str]
) -> None:
    lines = ["import os", "class Mine:", "    def decide(self, view, node, kind):", f"        {act}"]
    (tmp_path / "mine.py").write_text("\n".join(lines))
    command, _ = start(tmp_path, "--policy", f"{tmp_path}/mine.py:Mine")
    assert command.wait() == 1, command.text()
    last = command.text().strip().splitlines()[-1]
    assert any(words in last for words in told) and "decide (mine.py, line 3)" in last
    assert "Traceback" not in command.text()
    assert command.left_behind() == []
