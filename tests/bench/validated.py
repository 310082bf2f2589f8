"""Measure how far simulated runs are from live runs of the shipped scenarios: `schedbed validate`.

    python tests/bench/validated.py [--repeats 5] [--scenarios io_heavy,quickstart] [--kept FOLDER]
        [--name validate]

`unseen` is a scenario in this folder that no model was fitted to. With `--kept` each validation stays in
FOLDER/SCENARIO, and an existing one is read instead of repeated. An error is simulated minus live, in percent
of the live median. Needs a host without other work.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from contextlib import nullcontext
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from schedbed.deploy.studies.compare import COMPLETION_MAX, LOCALITY_MAX, MAKESPAN_MAX
from schedbed.deploy.studies.validate import NAME
from tests.bench.figures import ROOT, Figure, parser, publish, say
from tests.bench.proctree import SCHEDBED

SCENARIOS = "quickstart,shuffle_heavy,cpu_heavy,io_heavy,mixed"
CLOSE_MAX = {"io_heavy": 0.03, "shuffle_heavy": 0.03}
"""Bounds of the mean completion where disks and NICs decide; COMPLETION_MAX elsewhere."""


def validation(scenario: str, folder: Path, repeats: int) -> dict[str, Any]:
    """Return the report of a scenario's validation, which runs now unless `folder` has the report."""
    report = folder / NAME
    if not report.exists():
        places = (ROOT / "deploy" / "scenarios", ROOT / "tests" / "bench")
        file = next(path for place in places if (path := place / f"{scenario}.yaml").exists())
        command = [*SCHEDBED, "validate", str(file), "--repeats", str(repeats), "--out", str(folder)]
        done = subprocess.run(command, capture_output=True, text=True)
        if not report.exists():
            sys.exit(f"{scenario}: {done.stderr.strip() or done.stdout.strip()}")
    return json.loads(report.read_text())


def figures_of(scenario: str, report: dict[str, Any]) -> list[Figure]:
    """Return the errors of makespan, mean completion, and node-local maps for each policy."""
    found: list[Figure] = []
    for line in report["left_out"]:
        say(f"{scenario}: left out: {line}")
    for each in report["policies"]:
        policy, completion = each["policy"].partition(":")[0], CLOSE_MAX.get(scenario, COMPLETION_MAX)
        for key, label, bound in (
            ("makespan_s", "makespan", MAKESPAN_MAX),
            ("completion_s", "mean completion", completion),
        ):
            pair = each[key]
            low, high = pair["error_interval"] or (None, None)
            note = (
                ""
                if low is None
                else f"95% interval of the ratio of geometric means {low:+.1%} to {high:+.1%}"
            )
            found.append(
                Figure(
                    name=f"{scenario}, {policy}: {label}",
                    values=[100 * pair["error"]],
                    unit="%",
                    low=-100 * bound,
                    high=100 * bound,
                    note=note,
                    median_of=len(pair["live"]),
                )
            )
        local, most = each["locality"], 100 * LOCALITY_MAX
        points = 100 * (local["sim"] - local["measured"])
        name = f"{scenario}, {policy}: node-local maps"
        repeats = len(local["live"])
        found.append(
            Figure(name=name, values=[points], unit="points", low=-most, high=most, median_of=repeats)
        )
    return found


def main() -> None:
    """Compare simulated and live runs of each scenario, and publish the errors."""
    options = parser(__doc__ or "")
    options.add_argument("--scenarios", default=SCENARIOS)
    options.add_argument("--kept", type=Path)
    options.add_argument("--name", default="validate", help="name of the result file (default validate)")
    chosen = options.parse_args()
    figures: list[Figure] = []
    place = tempfile.TemporaryDirectory() if chosen.kept is None else nullcontext(str(chosen.kept.resolve()))
    with place as folder:
        for scenario in chosen.scenarios.split(","):
            figures += figures_of(scenario, validation(scenario, Path(folder) / scenario, chosen.repeats))
    publish(chosen.name, f"Simulated minus live: {chosen.scenarios}", figures, chosen.out)


if __name__ == "__main__":
    main()
