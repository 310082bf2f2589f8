"""Measure whether results stay the same at `stretch: adaptive` while other programs use the host.

    python tests/bench/adaptive.py [--repeats 5] [--scale 0.05] [--policy fifo] [--others 1]
        [--stretch adaptive]

Each repeat runs the quickstart twice: on an otherwise idle host, and beside processes that each keep one host
core busy. These processes start after a quarter of the first run's makespan and compute for half of it. A
ratio compares emulated seconds of the two runs of a repeat. `--stretch 1` shows the ratios without
adaptation.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.bench.figures import Figure, parser, publish, say
from tests.bench.proctree import SCHEDBED
from tests.harness.hogs import hogs

LOW, HIGH = 0.97, 1.03
BEGUN = "nodes/*/attempts/*"
"""What a run's scratch folder holds once its first attempt has begun."""
POLL_S = 0.05


@dataclass(frozen=True, slots=True)
class Seen:
    """Measurements of one run: makespan and mean completion in emulated seconds, whether the run is trusted,
    and its stretch.
    """

    makespan_s: float
    completion_s: float
    trusted: bool
    largest: float
    mean: float
    changes: tuple[tuple[float, float, float], ...]


class Hogs:
    """A thread that keeps `count` host cores busy while a command runs.

    The load starts `after_s` after the command's first attempt and lasts `for_s`, both in real seconds.
    """

    def __init__(self, command: subprocess.Popen[bytes], count: int, after_s: float, for_s: float) -> None:
        self._command = command
        self._count, self._after_s, self._for_s = count, after_s, for_s
        self.thread = threading.Thread(target=self._run)
        self.thread.start()

    def _run(self) -> None:
        while not any(Path(tempfile.gettempdir()).glob(f"schedbed-{self._command.pid}-*/run0/{BEGUN}")):
            if self._command.poll() is not None:
                return
            time.sleep(POLL_S)
        self._wait(self._after_s)
        with hogs(self._count):
            self._wait(self._for_s)

    def _wait(self, for_s: float) -> None:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._command.wait(for_s)


def one_run(stretch: str, scale: float, policy: str, others: int, quiet_s: float) -> Seen:
    """Run the quickstart live and return its measurements.

    `others` processes compute beside the run for half of `quiet_s`, the real seconds of an undisturbed run.
    """
    with tempfile.TemporaryDirectory(prefix="bench-adaptive-") as name:
        out = Path(name) / "out"
        command = [*SCHEDBED, "run", "quickstart", "--no-live", "--no-check", "--out", str(out)]
        options = ["--scale", str(scale), "--policy", policy, "--set", f"stretch={stretch}"]
        running = subprocess.Popen([*command, *options], stdout=subprocess.DEVNULL)
        beside = Hogs(running, others, quiet_s / 4, quiet_s / 2) if others else None
        code = running.wait()
        if beside is not None:
            beside.thread.join()
        if code:
            raise SystemExit(f"the run has failed with {code}")
        [figures] = json.loads((out / "summary.json").read_text())["policies"].values()
        [record] = json.loads((out / "run.json").read_text())["runs"]
    told = record["stretches"]
    return Seen(
        makespan_s=figures["makespan_s"]["mean"],
        completion_s=figures["completion_s"]["mean"]["mean"],
        trusted=figures["fidelity"]["trusted"],
        largest=told.get("largest", 1.0),
        mean=told.get("mean", 1.0),
        changes=tuple((t, k, cores) for t, k, cores in told.get("changes", ())),
    )


def measure(stretch: str, repeats: int, scale: float, policy: str, others: int) -> list[Figure]:
    """Return figures with the ratios of disturbed to undisturbed runs, and with the largest and mean stretch
    of both.
    """
    pairs: list[tuple[Seen, Seen]] = []
    for repeat in range(repeats):
        quiet = one_run(stretch, scale, policy, 0, 0.0)
        busy = one_run(stretch, scale, policy, others, quiet.makespan_s * quiet.mean)
        pairs.append((quiet, busy))
        say(f"repeat {repeat + 1}, quiet: {quiet}")
        say(f"repeat {repeat + 1}, beside {others}: {busy}")
    figures = [Figure(name="makespan, quiet", values=[quiet.makespan_s for quiet, _ in pairs], unit="s")]
    for name in ("makespan_s", "completion_s"):
        ratios = [getattr(busy, name) / getattr(quiet, name) for quiet, busy in pairs]
        figures.append(
            Figure(name=f"{name[:-2]}, disturbed / quiet", values=ratios, unit="x", low=LOW, high=HIGH)
        )
    for what, seen in (("quiet", [one for one, _ in pairs]), ("disturbed", [one for _, one in pairs])):
        trusted = f"{sum(each.trusted for each in seen)} of {repeats} runs trusted"
        figures.append(
            Figure(
                name=f"largest stretch, {what}",
                values=[each.largest for each in seen],
                unit="x",
                note=trusted,
            )
        )
        figures.append(Figure(name=f"mean stretch, {what}", values=[each.mean for each in seen], unit="x"))
    return figures


def main() -> None:
    """Run the benchmark, print its figures, and save them if `--out` is given."""
    options = parser(__doc__)
    options.set_defaults(repeats=5)
    options.add_argument("--scale", type=float, default=0.05, help="of the quickstart (default 0.05)")
    options.add_argument("--policy", default="fifo", help="(default fifo)")
    half = max(1, (os.cpu_count() or 2) // 2)
    options.add_argument("--others", type=int, default=half, help=f"processes beside it (default {half})")
    options.add_argument("--stretch", default="adaptive", help="(default adaptive)")
    asked = options.parse_args()
    figures = measure(asked.stretch, asked.repeats, asked.scale, asked.policy, asked.others)
    publish("adaptive", "Adaptive stretch", figures, asked.out)


if __name__ == "__main__":
    main()
