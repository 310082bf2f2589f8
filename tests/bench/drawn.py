"""Measure how far simulated runs are from live runs of random scenarios: `schedbed validate --drawn`.

    python tests/bench/drawn.py [--repeats 4] [--count 20] [--kept FOLDER]

With `--kept` the runs stay in FOLDER, and scenarios that FOLDER has already are not run again. Needs a host
without other work, for some four minutes a scenario.
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

from schedbed.deploy.studies.compare import MAKESPAN_MAX
from schedbed.deploy.studies.drawn_scenarios import JOB_ERROR_MAX, NAME, WINNER_MIN
from tests.bench.figures import Figure, parser, publish
from tests.bench.proctree import SCHEDBED


def report(folder: Path, count: int, repeats: int) -> dict[str, Any]:
    """Run `schedbed validate` on `count` drawn scenarios in `folder`, except those already validated.

    Return the command's report.
    """
    command = [*SCHEDBED, "validate", "--drawn", str(count), "--repeats", str(repeats), "--out", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode > 1:
        sys.exit(done.stderr.strip() or done.stdout.strip())
    return json.loads((folder / NAME).read_text())


def figures_of(found: dict[str, Any]) -> list[Figure]:
    """Return two figures that have bounds, and the share of makespans within the bound of `schedbed
    validate`.
    """
    made = [
        (f"scenario {number}, {policy}", 100 * errors["makespan_error"])
        for number, each in enumerate(found["each"], start=1)
        for policy, errors in each["policies"].items()
    ]
    near = [error for _, error in made if abs(error) <= 100 * MAKESPAN_MAX]
    far = sorted((one for one in made if abs(one[1]) > 100 * MAKESPAN_MAX), key=lambda one: -abs(one[1]))
    figures = [
        Figure(
            name="median absolute error of a job's completion",
            values=[100 * found["job_error"]],
            unit="%",
            high=100 * JOB_ERROR_MAX,
            note=f"{found['jobs']} completions in {found['judged']} of {found['scenarios']} scenarios, "
            f"{found['left_out']} live runs left out",
        ),
        Figure(
            name="makespans within 5%",
            values=[100 * len(near) / len(made)],
            unit="%",
            note=f"of {len(made)}; beyond: {', '.join(f'{name} {error:+.1f}%' for name, error in far) or 'none'}",
        ),
    ]
    if told := found["told_apart"]:
        figures.insert(
            1,
            Figure(
                name="scenarios with the same winner",
                values=[100 * found["same_winner"] / told],
                unit="%",
                low=100 * WINNER_MIN,
                note=f"{found['same_winner']} of {told} whose live runs tell the best two policies apart",
            ),
        )
    return figures


def main() -> None:
    """Compare simulated and live runs of drawn scenarios, and publish the figures over all of them."""
    options = parser(__doc__ or "")
    options.set_defaults(repeats=4)
    options.add_argument("--count", type=int, default=20)
    options.add_argument("--kept", type=Path)
    chosen = options.parse_args()
    place = tempfile.TemporaryDirectory() if chosen.kept is None else nullcontext(str(chosen.kept.resolve()))
    with place as folder:
        found = report(Path(folder), chosen.count, chosen.repeats)
    publish("validate_drawn", "Drawn scenarios, simulated minus live", figures_of(found), chosen.out)


if __name__ == "__main__":
    main()
