"""Each hostile program does what its name says where nothing limits it, and ends without a kill."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from schedbed.deploy.doctor.hostile_measure import AttemptProcesses
from schedbed.tasks.hostile.escapes import group_folders
from schedbed.tasks.hostile.fork_bomb import PROCESSES
from schedbed.tasks.hostile.orders import CHILDREN
from schedbed.tasks.hostile.spinners import SHELLS
from tests.harness.agents import ROOT

PATIENCE_S = 90.0
LOOK_S = 0.05
ENDLESS_S = 600.0  # such a program is killed, once what it does has been seen
MIB = 2**20
DONE = "done"
# Waits before it ends, so that all counters of its process can be read.
RUN = f"""
import json, sys
from pathlib import Path
from schedbed.tasks.hostile.hostile_runner import PROGRAMS
from schedbed.tasks.hostile.orders import HostileWork
orders = json.loads(sys.argv[2])
for program in sys.argv[1].split(","):
    PROGRAMS[program](HostileWork(folder=Path.cwd(), **orders))
print("{DONE}", flush=True)
sys.stdin.read()
"""


class Watched:
    """A process that runs hostile programs one after another.

    `now` contains the latest values of the kernel's counters, and `most` the greatest ones so far.
    """

    def __init__(self, folder: Path, *programs: str, **orders: Any) -> None:
        name = ",".join(programs)
        self.log = folder / "attempts" / name / "log"
        self.log.parent.mkdir(parents=True)
        with self.log.open("wb") as out:
            self.process = subprocess.Popen(
                [sys.executable, "-c", RUN, name, json.dumps({"seconds": 0.05, **orders})],
                cwd=self.log.parent,
                stdin=subprocess.PIPE,
                stdout=out,
                stderr=out,
                env=os.environ | {"PYTHONPATH": f"{ROOT}/src"},
                start_new_session=True,
            )
        wanted = ("cpu_s", "memory_bytes", "write_bytes", "sent_bytes", "received_bytes")
        self._processes = AttemptProcesses([name], frozenset(wanted))
        self.now: dict[str, float] = {}
        self.most: dict[str, float] = {}

    def until(self, **least: float) -> dict[str, float]:
        """Read the counters until each has reached its value in `least`; return the greatest values."""
        _wait_until(lambda: self._look() and all(self.most.get(name, 0.0) >= least[name] for name in least))
        return self.most

    def settled(self, name: str, value: float) -> None:
        """Read the counters until the counter `name` is `value`. Short-lived processes must end first."""
        _wait_until(lambda: self._look() and self.now.get(name) == value)

    def to_end(self) -> dict[str, float]:
        """Wait until the process and its descendants have ended; return the greatest values of the counters.

        The last reading is made between the end of the programs and the end of the process.
        """
        _wait_until(lambda: self._look() and DONE in self.log.read_text())
        self._look()
        assert self.process.stdin is not None
        self.process.stdin.close()
        assert self.process.wait(PATIENCE_S) == 0, self.log.read_text()
        _wait_until(lambda: not self._look())
        return self.most

    def _look(self) -> bool:
        """Read the counters of the process and its descendants. Return whether any of them runs."""
        self._processes.search()
        self._processes.look()
        self.now = {name: value for (name, _), value in self._processes.totals().items()}
        for name, value in self.now.items():
            self.most[name] = max(self.most.get(name, 0.0), value)
        return self.process.poll() is None or bool(self._processes.alive)

    def close(self) -> None:
        """Kill the process and its descendants."""
        give_up_s = time.monotonic() + PATIENCE_S
        while self._look() and time.monotonic() < give_up_s:
            self.process.kill()
            for pid in self._processes.alive - {self.process.pid}:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(LOOK_S / 5)
        assert self.process.stdin is not None
        self.process.stdin.close()


def _wait_until(holds: Callable[[], bool]) -> None:
    give_up_s = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < give_up_s
        time.sleep(LOOK_S)


@pytest.fixture
def watched(tmp_path: Path) -> Iterator[Any]:
    made: list[Watched] = []

    def start(*programs: str, **orders: Any) -> Watched:
        made.append(Watched(tmp_path / str(len(made)), *programs, **orders))
        return made[-1]

    yield start
    for each in made:
        each.close()


BURNING = {
    "timer_off": 1,
    "waited_children": 1 + CHILDREN,
    "unwaited_children": 1 + CHILDREN,
    "shells": 1 + SHELLS,
    "native_threads": 1,
    "other_group": 1 + CHILDREN,
    "stolen_descriptors": 1 + CHILDREN,
}
HOLDING = ("private", "shared", "shared_files", "children")


@pytest.mark.parametrize(("program", "processes"), BURNING.items())
def test_it_burns(watched: Any, program: str, processes: int) -> None:
    run = watched(program, seconds=ENDLESS_S)
    run.until(cpu_s=0.3, processes=processes)
    run.settled("processes", processes)


@pytest.mark.parametrize("program", HOLDING)
def test_it_holds_memory(watched: Any, program: str) -> None:
    watched(program, seconds=ENDLESS_S, size_bytes=96 * MIB).until(memory_bytes=90 * MIB)


@pytest.mark.long  # seconds
def test_all_of_them_end_by_themselves(watched: Any) -> None:
    watched(*BURNING, *HOLDING, size_bytes=MIB).to_end()


def test_files_in_memory_that_is_full_become_shared_memory(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from schedbed.tasks.hostile import hoarders
    from schedbed.tasks.hostile.orders import HostileWork

    monkeypatch.setattr(hoarders, "SHARED_MEMORY", tmp_path / "no-such-folder")
    hoarders.shared_files(HostileWork(folder=tmp_path, seconds=0.0, size_bytes=MIB))


@pytest.mark.parametrize("program", ["buffered", "direct", "synced"])
def test_it_writes_no_more_than_it_was_told(watched: Any, program: str, tmp_path: Path) -> None:
    if program == "direct" and not has_direct(tmp_path):
        pytest.skip("this file system has no O_DIRECT")
    run = watched(program, seconds=30.0, size_bytes=16 * MIB)
    most = run.to_end()
    assert 15 * MIB < most["sent_bytes"] < 24 * MIB
    assert [path.name for path in run.log.parent.iterdir()] == ["log"]


def test_it_reads_more_than_there_is(watched: Any) -> None:
    most = watched("cold_reads", seconds=30.0, size_bytes=16 * MIB).to_end()
    assert most["received_bytes"] > 15 * MIB
    assert 4 * MIB <= most["sent_bytes"] < 8 * MIB  # the file that is read


def test_raw_sockets_move_bytes_both_ways(watched: Any) -> None:
    with socket.create_server(("", 0)) as door:
        port = door.getsockname()[1]
    receiver = watched("receive", port=port)
    sender = watched("send", port=port, peer="127.0.0.1")
    assert sender.to_end()["sent_bytes"] > MIB
    assert receiver.to_end()["received_bytes"] > MIB


@pytest.mark.long  # two thousand processes
def test_the_bomb_is_bounded_and_gone_at_its_end(watched: Any) -> None:
    assert 50 < watched("fork_bomb", seconds=2.0).to_end()["processes"] <= PROCESSES + 1


def test_a_process_finds_its_own_groups() -> None:
    for top, own in group_folders():
        assert own.is_relative_to(top)
        if own.exists():
            assert os.getpid() in map(int, (own / "cgroup.procs").read_text().split())


def test_open_files_of_the_parent_are_taken_where_the_kernel_gives_them(tmp_path: Path) -> None:
    """A hostile process finds the file `cpu.max` that its parent, this test, has open, and writes to it."""
    script = (
        "import os, sys\n"
        "from schedbed.tasks.hostile.escapes import stolen_descriptors\n"
        "from schedbed.tasks.hostile.orders import HostileWork\n"
        "from pathlib import Path\n"
        "stolen_descriptors(HostileWork(folder=Path('.'), seconds=0.0))\n"
    )
    if not may_take_descriptors():
        pytest.skip("this kernel gives no process the files of another")
    with (tmp_path / "cpu.max").open("w+") as limit:
        subprocess.run(
            [sys.executable, "-c", script], check=True, env=os.environ | {"PYTHONPATH": f"{ROOT}/src"}
        )
        assert limit.read() == "max"


def has_direct(folder: Path) -> bool:
    try:
        os.close(os.open(folder / "direct", os.O_CREAT | os.O_WRONLY | os.O_DIRECT))
    except OSError as error:
        assert error.errno == errno.EINVAL
        return False
    return True


def may_take_descriptors() -> bool:
    script = (
        "import ctypes, os, sys\n"
        "libc = ctypes.CDLL(None)\n"
        "sys.exit(libc.syscall(438, os.pidfd_open(os.getppid()), int(sys.argv[1]), 0) < 0)\n"
    )
    with tempfile.TemporaryFile() as file:
        return subprocess.run([sys.executable, "-c", script, str(file.fileno())], check=False).returncode == 0
