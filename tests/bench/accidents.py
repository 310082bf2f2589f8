"""Cause accidents in live runs, each at several moments: `python -m tests.bench.accidents --out FOLDER`.

The command writes a row after each accident and skips accidents whose rows exist already, so that it can be
stopped and started again. Run it on a host without other work: it looks in the host's scratch folder and
process tree for what a run left behind.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

import psutil

from schedbed.deploy.workspace import PREFIX, base_folder

SCENARIO = """
name: accidents
scale: 0.02
cluster: {nodes: 3, node: {cores: 2}}
blocks: {replication: 2}
workload:
  jobs:
    - {name: a, app: synthetic, maps: 12, map: {cpu: 400s, read: 64MiB}, reduces: 2, reduce: {cpu: 30s}}
policies: [fifo]
"""
MOMENTS_S = (0.0, 1.0, 3.0, 5.0, 8.0)
END_S, WAIT_S = 5.0, 180.0
GONE_S = 15.0  # for what a killed command leaves to end: Ray's agents look every few seconds
COMES_S = 60.0  # for the process that the accident is about
STOPPED_S = 3.0
RIGHT, WRONG, MISSED = "ok", "WRONG", "MISSED"


@dataclass(frozen=True, slots=True)
class Row:
    """The outcome of one accident: how the command that ran the scenario ended.

    `moment_s` is when the accident happened, `took_s` the time from the accident to the command's end, both
    in seconds. `left` lists processes and folders that still exist. `verdict` is `MISSED` if the accident
    could not happen, for instance because the process to kill had ended.
    """

    kind: str
    moment_s: float
    code: int
    took_s: float
    left: list[str]
    kept: bool
    said: str
    verdict: str


@dataclass(frozen=True, slots=True)
class Accident:
    """A kind of accident, and how a command may end after it.

    `happen` causes the accident and returns False if that was impossible. `codes` are the allowed exit codes.
    With `at_once` the command must end within `END_S`. The accident waits for a process called `name`, or
    with an empty name until the command handles signals.
    """

    happen: Callable[[psutil.Process, Path], bool]
    codes: tuple[int, ...]
    at_once: bool = False
    name: str = ""


def _named(command: psutil.Process, name: str) -> psutil.Process | None:
    """Return the newest process below `command` whose name begins with `name` or whose command line contains
    `name`, or None.
    """
    found = None
    for process in command.children(recursive=True):
        with suppress(psutil.Error):
            if process.name().startswith(name) or name in " ".join(process.cmdline()[:4]):
                found = process
    return found


def _signalled(number: int) -> Callable[[psutil.Process, Path], bool]:
    def send(command: psutil.Process, _: Path) -> bool:
        command.send_signal(number)
        return True

    return send


def _killed(name: str, *codes: int) -> Accident:
    """Return an accident that kills the process called `name`.

    The command may then exit with one of `codes`, by default 0 or 1.
    """

    def kill(command: psutil.Process, _: Path) -> bool:
        process = _named(command, name)
        if process is not None:
            process.kill()
        return process is not None

    return Accident(kill, codes or (0, 1), name=name)


def _stopped(name: str) -> Accident:
    """Return an accident that suspends the process called `name` for `STOPPED_S`."""

    def stop(command: psutil.Process, _: Path) -> bool:
        process = _named(command, name)
        if process is None:
            return False
        process.suspend()
        time.sleep(STOPPED_S)
        process.resume()
        return True

    return Accident(stop, (0, 1), name=name)


def _twice(command: psutil.Process, _: Path) -> bool:
    command.send_signal(signal.SIGTERM)
    time.sleep(0.3)
    with suppress(psutil.NoSuchProcess):
        command.send_signal(signal.SIGINT)
    return True


def _removed(folder: Path) -> bool:
    there = folder.exists()
    shutil.rmtree(folder, ignore_errors=True)
    return there


def _lose_results(_: psutil.Process, work: Path) -> bool:
    return _removed(work / "out")


def _lose_parts(_: psutil.Process, work: Path) -> bool:
    return _removed(work / "out" / "parts")


def _lose_scratch(command: psutil.Process, _: Path) -> bool:
    folders = list(base_folder().glob(f"{PREFIX}{command.pid}-*"))
    for folder in folders:
        shutil.rmtree(folder, ignore_errors=True)
    return bool(folders)


ACCIDENTS: dict[str, Accident] = {
    "SIGINT": Accident(_signalled(signal.SIGINT), (130,), at_once=True),
    "SIGTERM": Accident(_signalled(signal.SIGTERM), (143,), at_once=True),
    "SIGHUP": Accident(_signalled(signal.SIGHUP), (129,), at_once=True),
    "SIGTERM, then SIGINT": Accident(_twice, (143,), at_once=True),
    "SIGTERM while agents run": Accident(_signalled(signal.SIGTERM), (143,), at_once=True, name="agent n"),
    "SIGKILL of the command": Accident(_signalled(signal.SIGKILL), (-signal.SIGKILL,), name="agent n"),
    "SIGKILL of an agent": _killed("agent n"),
    "SIGKILL of a zygote": _killed("zygote n"),
    "SIGKILL of the template": _killed("schedbed.cluster.agent.warm.template"),
    "SIGKILL of the TaskTrackers": _killed("ray::TaskTracker"),
    "SIGKILL of the raylet": _killed("raylet"),
    "SIGKILL of the GCS": _killed("gcs_server"),
    "SIGKILL of the JobTracker": _killed("ray::JobTracker"),
    "SIGKILL of the NameNode": _killed("ray::NameNode"),
    "JobTracker stopped": _stopped("ray::JobTracker"),
    "NameNode stopped": _stopped("ray::NameNode"),
    "TaskTrackers stopped": _stopped("ray::TaskTracker"),
    "run folder deleted": Accident(_lose_results, (1, 2), name="agent n"),
    "part files deleted": Accident(_lose_parts, (1, 2), name="agent n"),
    "scratch deleted": Accident(_lose_scratch, (1,), name="agent n"),
}


def suffer(kind: str, moment_s: float) -> Row:
    """Run the scenario live and cause the accident `kind`. Return the outcome.

    The accident happens `moment_s` seconds after the process that it needs has started.
    """
    accident = ACCIDENTS[kind]
    with tempfile.TemporaryDirectory(prefix="acc-") as made:
        work = Path(made)
        (work / "s.yaml").write_text(SCENARIO)
        line = [sys.executable, "-m", "schedbed", "run", str(work / "s.yaml"), "--no-live"]
        with (work / "said").open("wb") as said:
            child = subprocess.Popen(
                [*line, "--out", str(work / "out")],
                stdout=said,
                stderr=said,
                start_new_session=True,
            )
        command = psutil.Process(child.pid)
        _await(child, command, accident.name)
        with suppress(subprocess.TimeoutExpired):
            child.wait(moment_s)
        measured = (work / "out" / "parts").exists()
        family = command.children(recursive=True) if child.poll() is None else []
        began_s = time.monotonic()
        happened = child.poll() is None and accident.happen(command, work)
        try:
            code = child.wait(WAIT_S)
        except subprocess.TimeoutExpired:
            child.kill()
            code = child.wait()
        took_s = time.monotonic() - began_s
        left = [_line(process) for process in psutil.wait_procs(family, GONE_S)[1]]
        left += [str(path.name) for path in base_folder().glob(f"{PREFIX}{child.pid}-*")]
        text = (work / "said").read_text(errors="replace")
        kept = not measured or (work / "out" / "jobs.parquet").exists() or "deleted" in kind or code < 0
        bad = "Traceback" in text or "terminate called" in text
        in_time = not accident.at_once or took_s <= END_S
        right = code in accident.codes and not left and kept and not bad and in_time
        verdict = (RIGHT if right else WRONG) if happened else MISSED
        return Row(kind, moment_s, code, round(took_s, 1), left, kept, text.strip()[-160:], verdict)


def _await(child: subprocess.Popen[bytes], command: psutil.Process, name: str) -> None:
    """Wait until a process called `name` runs below the command, the command ends, or `COMES_S` have passed.

    With an empty name, wait until the command has a handler for SIGTERM.
    """
    give_up = time.monotonic() + COMES_S
    while child.poll() is None and time.monotonic() < give_up:
        if _hears(child.pid, signal.SIGTERM) if name == "" else _named(command, name) is not None:
            return
        time.sleep(0.05)


def _hears(pid: int, number: int) -> bool:
    """Return whether the process `pid` has a handler for signal `number`."""
    with suppress(OSError):
        caught = re.search(r"^SigCgt:\s*(\w+)", Path(f"/proc/{pid}/status").read_text(), re.M)
        return caught is not None and bool(int(caught[1], 16) & 1 << number - 1)
    return False


def _line(process: psutil.Process) -> str:
    try:
        return f"{process.name()}: {' '.join(process.cmdline()[:3])}"[:80]
    except psutil.Error:
        return "a process that ended just now"


def main() -> int:
    """Print a row for each accident and moment. Return 1 unless every row is `ok`."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("accidents.jsonl"), help="the file of rows")
    parser.add_argument("--only", help="a kind of accident")
    parser.add_argument("--moments", type=float, nargs="*", default=MOMENTS_S)
    options = parser.parse_args()
    rows = [json.loads(line) for line in options.out.read_text().splitlines()] if options.out.exists() else []
    for kind in ACCIDENTS if options.only is None else [options.only]:
        for moment_s in options.moments:
            if any((row["kind"], row["moment_s"]) == (kind, moment_s) for row in rows):
                continue
            rows.append(asdict(suffer(kind, moment_s)))
            with options.out.open("a") as out:
                out.write(json.dumps(rows[-1]) + "\n")
    for row in rows:
        print(
            f"{row['verdict']:6} {row['kind']:26} at {row['moment_s']:4g} s: exit {row['code']} in {row['took_s']} s",
            end="",
        )
        print(
            f" left {row['left']}" if row["left"] else "",
            "" if row["verdict"] == RIGHT else row["said"][-120:],
        )
    print(
        ", ".join(f"{count} {verdict}" for verdict, count in Counter(row["verdict"] for row in rows).items())
    )
    return 0 if all(row["verdict"] == RIGHT for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
