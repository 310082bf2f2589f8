"""Measure whole commands that simulate: a day of Facebook's trace, and small runs.

    python -m tests.bench.sim_day --trace FB-2010_samples_24_times_1hr_0.tsv [--repeats 3] [--only WORD]
        [--out FOLDER]

Each command is measured from the command line to the written files, in its own process on a host without
other work. Elapsed time, CPU time and peak memory are those of the command and its children. A bare heapq
loop runs in the same minute as a yardstick.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from tests.bench.figures import Figure, parser, publish, say
from tests.bench.proctree import SCHEDBED, TreeWatch
from tests.bench.sim_speed import bare_loop

DAY_TASKS = 981_337
POLICIES = ("fifo", "fair", "order=fair,locality=delay")
LONE_JOBS = 187_520
DAY_S = 86_400
MIB = 2**20
LOOK_S = 2.0


@dataclass(frozen=True, slots=True)
class Took:
    """Elapsed seconds and CPU seconds of a command, and the peak memory of its processes together in GiB.

    Memory that processes share counts once. It is looked at every `LOOK_S` seconds, and is at least the peak of
    the largest process.
    """

    wall_s: float
    cpu_s: float
    peak_gib: float


def take(folder: Path, *arguments: str) -> Took:
    """Run `schedbed run ARGUMENTS --machines sim`, and return what it used.

    Raise CalledProcessError if it fails.
    """
    out = folder / f"out{len(list(folder.iterdir()))}"
    over, peaks_bytes, watch = threading.Event(), [0], TreeWatch()

    def look() -> None:
        while not over.wait(LOOK_S):
            watch.look()
            peaks_bytes.append(watch.memory_bytes())

    began_s = time.perf_counter()
    child = subprocess.Popen(
        [*SCHEDBED, "run", *arguments, "--machines", "sim", "--no-live", "--out", str(out)],
        stdout=subprocess.DEVNULL,
    )
    looking = threading.Thread(target=look)
    looking.start()
    _, status, usage = os.wait4(child.pid, 0)
    wall_s = time.perf_counter() - began_s
    over.set()
    looking.join()
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        raise subprocess.CalledProcessError(child.returncode, list(arguments))
    if not json.loads((out / "summary.json").read_text(encoding="utf-8"))["policies"]:
        raise ValueError(f"{out}: no policies")
    peak_bytes = max(usage.ru_maxrss * 2**10, *peaks_bytes)
    return Took(wall_s, usage.ru_utime + usage.ru_stime, peak_bytes / 2**30)


def of_policies(names: Sequence[str]) -> list[str]:
    """Return the command-line options that choose the policies `names`."""
    return [word for name in names for word in ("--policy", name)]


def the_day(folder: Path, repeats: int, trace: Path) -> list[Figure]:
    """Measure the day of the trace FB-2010 under each of three policies alone, and under all three in one
    command.
    """
    day = ["fb2010", "--set", f"workload.trace={trace}"]
    alone = {name: [take(folder, *day, *of_policies([name])) for _ in range(repeats)] for name in POLICIES}
    three = [take(folder, *day, *of_policies(POLICIES)) for _ in range(repeats)]
    figures = [
        Figure(
            name=f"FB-2010's day, {name}",
            values=[DAY_TASKS / each.wall_s for each in took],
            unit="tasks/s",
            low=50_000,
            note=noted(took),
        )
        for name, took in alone.items()
    ]
    slowest_s = max(statistics.median(each.wall_s for each in took) for took in alone.values())
    ratios = [each.wall_s / slowest_s for each in three]
    name = "FB-2010's day, three policies on all cores / the slowest of them alone"
    return [*figures, Figure(name=name, values=ratios, unit="x", high=1.7, note=noted(three))]


def lone_jobs(folder: Path, repeats: int) -> list[Figure]:
    """Measure a generated trace of jobs with one map each and no reduce, spread over a day."""
    path = folder / "lone.tsv"
    gap_s = DAY_S / LONE_JOBS
    path.write_text("".join(f"job{i}\t{int(i * gap_s)}\t0\t{MIB}\t0\t0\n" for i in range(LONE_JOBS)))
    lone = ["fb2010", "--set", f"workload.trace={path}", "--set", "workload.traced_nodes=600"]
    took = [take(folder, *lone, *of_policies(["fair"])) for _ in range(repeats)]
    return [_seconds(f"{LONE_JOBS:,} jobs of one task on 600 nodes, fair", took, 30)]


def six_nodes(folder: Path, repeats: int) -> list[Figure]:
    """Measure the quickstart, as an example of a first run: under Fair, and under its own three policies."""
    return [
        _seconds(
            "quickstart (6 nodes), fair",
            [take(folder, "quickstart", *of_policies(["fair"])) for _ in range(repeats)],
            2,
        ),
        _seconds(
            "quickstart, its three policies", [take(folder, "quickstart") for _ in range(repeats)], None
        ),
    ]


def _seconds(name: str, took: Sequence[Took], high: float | None) -> Figure:
    values = [each.wall_s for each in took]
    return Figure(name=name, values=values, unit="s", high=high, note=noted(took))


def noted(took: Sequence[Took]) -> str:
    """Return the medians of elapsed time, CPU time and memory as a text."""
    middle = {key: statistics.median(getattr(each, key) for each in took) for key in Took.__slots__}
    return f"{middle['wall_s']:.1f} s, {middle['cpu_s']:.1f} CPU-s, {middle['peak_gib']:.2f} GiB"


def main() -> None:
    """Measure all parts, or the one that `--only` names, and publish the figures."""
    made = parser(__doc__)
    made.add_argument("--trace", type=Path, required=True, help="SWIM's file of FB-2010's day")
    made.add_argument("--only", choices=("day", "lone", "small"))
    options = made.parse_args()
    parts: dict[str, Callable[[Path, int], list[Figure]]] = {
        "day": partial(the_day, trace=options.trace.resolve()),
        "lone": lone_jobs,
        "small": six_nodes,
    }
    figures: list[Figure] = []
    with tempfile.TemporaryDirectory() as folder:
        lone_jobs(Path(folder), 1)  # Compiles what is compiled at the first use.
        for name in parts if options.only is None else [options.only]:
            heap = [bare_loop(1000, 1_000_000) / 1e6 for _ in range(3)]
            figures += parts[name](Path(folder), options.repeats)
            figures.append(Figure(name=f"bare heapq loop before: {name}", values=heap, unit="M/s"))
            say(name)
    publish("sim_day", "Simulator: whole commands", figures, options.out)


if __name__ == "__main__":
    main()
