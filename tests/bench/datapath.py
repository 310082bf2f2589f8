"""Wordcount and sort of real files, schedbed against PySpark on the same bytes: CPU and time, outputs
identical.

    python tests/bench/datapath.py [--repeats 5] [--size 256MiB]

schedbed runs two nodes with one map and one reduce slot each, without limits, with unreplicated blocks of 64
MiB. PySpark uses RDDs on `local-cluster[2,1,1024]`. CPU time is that of the whole command with all its
processes, from start to end. It includes the start of Ray and of the JVMs, and schedbed's loading of the
block store and its report. Time is that of the job alone: from submission to finish for schedbed, the action
for Spark. Then schedbed sorts again with two and three replicas.
"""

from __future__ import annotations

import hashlib
import importlib.util
import shutil
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from schedbed.scheduler.history import read_tables
from schedbed.tasks.appkit.app_catalogue import generate
from schedbed.tasks.units import parse_size
from tests.bench.figures import Figure, parser, publish, say
from tests.bench.proctree import SCHEDBED, adopt_orphans, run_watched

INPUTS = {"wordcount": "text", "sort": "records"}
TARGET = 0.35
SPARK = (sys.executable, str(Path(__file__).parents[1] / "harness" / "spark_job.py"))


@dataclass(frozen=True, slots=True)
class Measured:
    """Measurements of a job on one system.

    `cpu_s` is the CPU time of the whole command, `job_s` the time of the job alone. `attempts_cpu_s` is the
    part of `cpu_s` that schedbed's attempts used.
    """

    cpu_s: float
    job_s: float
    checksum: str
    attempts_cpu_s: float = 0.0


def write_input(path: Path, kind: str, size: int) -> None:
    """Write `size` bytes of text or records into `path`, as a scenario's `input: {generate: KIND}` generates
    them.
    """
    with path.open("wb") as out:
        out.writelines(generate(kind, size, 1))


def checksum(app: str, folder: Path) -> str:
    """Return the SHA-256 of all parts of an output in order.

    Lines of wordcount are sorted first, since the two systems partition words differently.
    """
    parts = [path.read_bytes() for path in sorted(folder.glob("part-*"))]
    if app == "wordcount":
        parts = sorted(line for part in parts for line in part.splitlines(keepends=True))
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part)
    return digest.hexdigest()


def scenario(app: str, source: Path, replicas: int) -> dict[str, Any]:
    """Return a scenario with one job on two nodes with slots.

    A third replica is stored on a third node without slots.
    """
    slots = {"cores": 2, "core_speed": 1.0, "memory": "3GiB"}
    groups = [{"count": 2, "map_slots": 1, "reduce_slots": 1}]
    if replicas > 2:
        groups.append({"count": replicas - 2, "map_slots": 0, "reduce_slots": 0})
    job = {
        "app": app,
        "input": str(source),
        "reduces": 2,
        "map": {"memory": "1GiB"},
        "reduce": {"memory": "1GiB"},
    }
    return {
        "name": f"datapath-{app}",
        "cluster": {"nodes": groups, "node": slots, "limits": "off"},
        "blocks": {"size": "64MiB", "replication": replicas},
        "workload": {"jobs": [job]},
        "policies": ["fifo"],
    }


def schedbed(app: str, source: Path, folder: Path, replicas: int = 1) -> Measured:
    """Run the job with `schedbed run --keep-outputs` and measure the whole command.

    The command does not check the outputs, as they are compared with PySpark's.
    """
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    (folder / "scenario.yaml").write_text(yaml.safe_dump(scenario(app, source, replicas)))
    out = folder / "out"
    options = ["--out", str(out), "--keep-outputs", "--no-check", "--no-live"]
    command = [*SCHEDBED, "run", str(folder / "scenario.yaml"), *options]
    usage = run_watched(command, folder / "log")
    tables = read_tables(out)
    job = tables["jobs"].iloc[0]
    found = checksum(app, next((out / "outputs").glob("*/0/job_0001")))
    attempts_cpu_s = float(tables["attempts"]["cpu_s"].sum())
    return Measured(usage.cpu_s, float(job["finish"] - job["submit"]), found, attempts_cpu_s)


def spark(app: str, source: Path, folder: Path) -> Measured:
    """Run the job with `spark_job.py` and measure the whole script."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    usage = run_watched([*SPARK, app, str(source), str(folder / "out")], folder / "log")
    job_s = next(
        float(line.split("=")[1]) for line in usage.text.splitlines() if line.startswith("action_s=")
    )
    return Measured(usage.cpu_s, job_s, checksum(app, folder / "out"))


def compare(app: str, source: Path, folder: Path, repeats: int) -> list[Figure]:
    """Run the job on both systems in each repeat, and return figures that compare them.

    Spark goes first in every second repeat. Fail if the outputs differ.
    """
    pairs: list[tuple[Measured, Measured]] = []
    for repeat in range(repeats):
        theirs = spark(app, source, folder / "spark") if repeat % 2 else None
        ours = schedbed(app, source, folder / "schedbed")
        theirs = theirs or spark(app, source, folder / "spark")
        assert ours.checksum == theirs.checksum, f"{app}: the outputs differ"
        pairs.append((ours, theirs))
        say(
            f"{app} {repeat + 1}: schedbed {ours.cpu_s:.1f} CPU-s, {ours.job_s:.1f} s; "
            f"PySpark {theirs.cpu_s:.1f} CPU-s, {theirs.job_s:.1f} s; outputs identical"
        )
    cpu, job = [a.cpu_s / b.cpu_s for a, b in pairs], [a.job_s / b.job_s for a, b in pairs]
    return [
        Figure(name=f"{app}: CPU-seconds, schedbed / PySpark", values=cpu, unit="x", high=TARGET),
        Figure(name=f"{app}: time of the job, schedbed / PySpark", values=job, unit="x", high=TARGET),
        Figure(name="- CPU, schedbed", values=[a.cpu_s for a, _ in pairs], unit="CPU-s"),
        Figure(name="- - of it attempts", values=[a.attempts_cpu_s for a, _ in pairs], unit="CPU-s"),
        Figure(name="- CPU, PySpark", values=[b.cpu_s for _, b in pairs], unit="CPU-s"),
        Figure(name="- job, schedbed", values=[a.job_s for a, _ in pairs], unit="s"),
        Figure(name="- job, PySpark", values=[b.job_s for _, b in pairs], unit="s"),
    ]


def replicas(source: Path, folder: Path, repeats: int) -> list[Figure]:
    """Return CPU time and duration of sort in schedbed with one, two and three replicas of all data."""
    figures = []
    for count in (1, 2, 3):
        found = [schedbed("sort", source, folder / "schedbed", count) for _ in range(repeats)]
        say(f"sort with {count} replicas: {found[-1].cpu_s:.1f} CPU-s, {found[-1].job_s:.1f} s")
        name = f"sort, input and output replicated {count} times" if count > 1 else "sort, one replica"
        figures += [
            Figure(name=f"{name}: CPU", values=[one.cpu_s for one in found], unit="CPU-s"),
            Figure(name=f"{name}: job", values=[one.job_s for one in found], unit="s"),
        ]
    return figures


def without_spark() -> str:
    """Return why PySpark cannot run here, or an empty text if it can."""
    if importlib.util.find_spec("pyspark") is None:
        return "pyspark is not installed (source deploy/setup.sh bench)"
    return "" if shutil.which("java") else "there is no java"


def main() -> None:
    """Run the benchmark, print its figures, and save them if `--out` is given."""
    options = parser(__doc__)
    options.add_argument(
        "--size", type=parse_size, default=256 * 2**20, help="of each input (default 256MiB)"
    )
    options.add_argument("--apps", nargs="+", choices=list(INPUTS), default=list(INPUTS))
    options.add_argument("--no-replicas", action="store_true", help="leave out sort with more replicas")
    asked = options.parse_args()
    if why := without_spark():
        print(f"datapath: left out: {why}")
        return
    adopt_orphans()
    figures: list[Figure] = []
    with tempfile.TemporaryDirectory(prefix="schedbed-bench-") as name:
        folder = Path(name)
        for kind in INPUTS.values():
            write_input(folder / kind, kind, asked.size)
        for app in asked.apps:
            figures += compare(app, folder / INPUTS[app], folder, asked.repeats)
        if not asked.no_replicas:
            figures += replicas(folder / "records", folder, asked.repeats)
    publish("datapath", f"Data path: {asked.size / 2**20:.0f} MiB, limits off", figures, asked.out)


if __name__ == "__main__":
    main()
