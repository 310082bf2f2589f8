"""Measure whether results stay the same when emulated seconds last longer, at several `stretch` values.

    python tests/bench/stretched.py [--repeats 3] [--stretches 1,2,4,8] [--scale 0.05] [--policy fifo]

Each repeat runs the quickstart at all values in turn. A ratio divides emulated seconds by those at the first
value in the same repeat. The emulation's own work does not slow down with `stretch`, and so adds most at the
first value. The last rows show that work.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from schedbed.scheduler.history import read_tables
from tests.bench.figures import Figure, parser, publish, say
from tests.bench.proctree import SCHEDBED

LOW, HIGH = 0.97, 1.03


@dataclass(frozen=True, slots=True)
class Seen:
    """Measurements of a run: makespan, mean completion, and the median time from a heartbeat's reply to an
    attempt's first line.
    """

    makespan_s: float
    completion_s: float
    launch_s: float
    trusted: bool


def one_run(stretch: float, scale: float, policy: str) -> Seen:
    """Run the quickstart live and return its measurements."""
    with tempfile.TemporaryDirectory(prefix="schedbed-bench-") as name:
        out = Path(name) / "out"
        command = [*SCHEDBED, "run", "quickstart", "--no-live", "--no-check", "--out", str(out)]
        options = ["--scale", str(scale), "--policy", policy, "--set", f"stretch={stretch:g}"]
        subprocess.run([*command, *options], check=True, stdout=subprocess.DEVNULL)
        [figures] = json.loads((out / "summary.json").read_text())["policies"].values()
        attempts = read_tables(out)["attempts"]
    return Seen(
        makespan_s=figures["makespan_s"]["mean"],
        completion_s=figures["completion_s"]["mean"]["mean"],
        launch_s=float((attempts["start"] - attempts["assigned"]).median()),
        trusted=figures["fidelity"]["trusted"],
    )


def measure(stretches: Sequence[float], repeats: int, scale: float, policy: str) -> list[Figure]:
    """Return the ratios of makespan and completion to the first of `stretches`, and the median launch time at
    each.
    """
    runs: dict[float, list[Seen]] = {stretch: [] for stretch in stretches}
    for repeat in range(repeats):
        for stretch in stretches:
            seen = one_run(stretch, scale, policy)
            runs[stretch].append(seen)
            say(f"repeat {repeat + 1}, stretch {stretch:g}: {seen}")
    first = stretches[0]
    figures = [Figure(name="makespan", values=[seen.makespan_s for seen in runs[first]], unit="s")]
    for name in ("makespan_s", "completion_s"):
        for stretch in stretches[1:]:
            pairs = zip(runs[stretch], runs[first], strict=True)
            figures.append(
                Figure(
                    name=f"{name[:-2]}, stretch {stretch:g} / {first:g}",
                    values=[getattr(one, name) / getattr(base, name) for one, base in pairs],
                    unit="x",
                    low=LOW,
                    high=HIGH,
                )
            )
    for stretch in stretches:
        launches = [seen.launch_s * 1e3 for seen in runs[stretch]]
        trusted = sum(seen.trusted for seen in runs[stretch])
        note = f"{trusted} of {repeats} runs trusted"
        figures.append(Figure(name=f"launch p50, stretch {stretch:g}", values=launches, unit="ms", note=note))
    return figures


def main() -> None:
    """Run the benchmark, print its figures, and save them if `--out` is given."""
    options = parser(__doc__)
    options.set_defaults(repeats=3)
    options.add_argument(
        "--stretches", default="1,2,4,8", help="the first is compared with (default 1,2,4,8)"
    )
    options.add_argument("--scale", type=float, default=0.05, help="of the quickstart (default 0.05)")
    options.add_argument("--policy", default="fifo", help="(default fifo)")
    asked = options.parse_args()
    stretches = [float(text) for text in asked.stretches.split(",")]
    publish("stretched", "Stretch", measure(stretches, asked.repeats, asked.scale, asked.policy), asked.out)


if __name__ == "__main__":
    main()
