"""Have accidents in live runs, each at several moments: `python -m tests.bench.accidents --out FOLDER`.

A row is written after each accident, and rows that are there already are skipped, so that the command can be stopped
and started again. Run on a quiet host: what is left behind is looked for by the scratch folder and the process tree.
"""

from __future__ import annotations

import argparse
import json
import shutil
import signal
import subprocess
import sys
import tempfile
import time
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
MOMENTS_S = (1.0, 4.0, 8.0, 12.0, 16.0)
END_S, WAIT_S = 5.0, 180.0


@dataclass(frozen=True, slots=True)
class Row:
    """How a command ended after an accident. `took_s` is the time from the accident to the end."""

    kind: str
    moment_s: float
    code: int
    took_s: float
    left: list[str]
    kept: bool
    said: str
    right: bool


@dataclass(frozen=True, slots=True)
class Accident:
    """What happens, the exit codes that are right after that, and whether the command must end within `END_S`."""

    happen: Callable[[psutil.Process, Path], None]
    codes: tuple[int, ...]
    at_once: bool = False


def _signalled(number: int) -> Callable[[psutil.Process, Path], None]:
    return lambda command, _: command.send_signal(number)


def _kill(word: str) -> Callable[[psutil.Process, Path], None]:
    """Return an accident that kills the first process of the command whose command line has that word."""

    def kill(command: psutil.Process, _: Path) -> None:
        for process in command.children(recursive=True):
            with suppress(psutil.Error):
                if word in " ".join(process.cmdline()):
                    process.kill()
                    return

    return kill


def _twice(command: psutil.Process, _: Path) -> None:
    command.send_signal(signal.SIGTERM)
    time.sleep(0.3)
    with suppress(psutil.NoSuchProcess):
        command.send_signal(signal.SIGINT)


def _lose_results(_: psutil.Process, work: Path) -> None:
    shutil.rmtree(work / "out", ignore_errors=True)


def _lose_parts(_: psutil.Process, work: Path) -> None:
    shutil.rmtree(work / "out" / "parts", ignore_errors=True)


def _lose_scratch(command: psutil.Process, _: Path) -> None:
    for folder in base_folder().glob(f"{PREFIX}{command.pid}-*"):
        shutil.rmtree(folder, ignore_errors=True)


ACCIDENTS: dict[str, Accident] = {
    "SIGINT": Accident(_signalled(signal.SIGINT), (130,), at_once=True),
    "SIGTERM": Accident(_signalled(signal.SIGTERM), (143,), at_once=True),
    "SIGHUP": Accident(_signalled(signal.SIGHUP), (129,), at_once=True),
    "SIGTERM, then SIGINT": Accident(_twice, (143,), at_once=True),
    "SIGKILL of an agent": Accident(_kill("schedbed.cluster.agent"), (0, 1)),
    "SIGKILL of the raylet": Accident(_kill("raylet/raylet"), (1,)),
    "SIGKILL of the GCS": Accident(_kill("gcs_server"), (1,)),
    "SIGKILL of the JobTracker": Accident(_kill("JobTracker"), (0, 1)),
    "SIGKILL of the NameNode": Accident(_kill("NameNode"), (0, 1)),
    "run folder deleted": Accident(_lose_results, (1, 2)),
    "part files deleted": Accident(_lose_parts, (1, 2)),
    "scratch deleted": Accident(_lose_scratch, (1,)),
}


def suffer(kind: str, moment_s: float) -> Row:
    """Run the scenario live, have the accident, and look at what is left."""
    accident = ACCIDENTS[kind]
    with tempfile.TemporaryDirectory(prefix="acc-") as made:
        work = Path(made)
        (work / "s.yaml").write_text(SCENARIO)
        line = [sys.executable, "-m", "schedbed.deploy.cli.main", "run", str(work / "s.yaml"), "--no-live"]
        with (work / "said").open("wb") as said:
            child = subprocess.Popen(
                [*line, "--no-plots", "--out", str(work / "out")],
                stdout=said,
                stderr=said,
                start_new_session=True,
            )
        command = psutil.Process(child.pid)
        with suppress(subprocess.TimeoutExpired):
            child.wait(moment_s)
        measured = (work / "out" / "parts").exists()
        family = command.children(recursive=True) if child.poll() is None else []
        began_s = time.monotonic()
        over = child.poll() is not None
        if not over:
            accident.happen(command, work)
        try:
            code = child.wait(WAIT_S)
        except subprocess.TimeoutExpired:
            child.kill()
            code = child.wait()
        took_s = time.monotonic() - began_s
        left = [" ".join(process.cmdline()[:3])[:80] for process in psutil.wait_procs(family, 1.0)[1]]
        left += [str(path.name) for path in base_folder().glob(f"{PREFIX}{child.pid}-*")]
        text = (work / "said").read_text(errors="replace")
        kept = not measured or (work / "out" / "jobs.parquet").exists() or "deleted" in kind
        bad = "Traceback" in text or "terminate called" in text
        in_time = not accident.at_once or took_s <= END_S
        right = not over and code in accident.codes and not left and kept and not bad and in_time
        return Row(kind, moment_s, code, round(took_s, 1), left, kept, text.strip()[-160:], right)


def main() -> int:
    """Print a row for each accident and moment; exit with 1 when one did not end as the contract says."""
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
        mark = "ok" if row["right"] else "WRONG"
        print(
            f"{mark:5} {row['kind']:26} at {row['moment_s']:4g} s: exit {row['code']} in {row['took_s']} s",
            end="",
        )
        print(f" left {row['left']}" if row["left"] else "", "" if row["right"] else row["said"][-120:])
    return 0 if all(row["right"] for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
