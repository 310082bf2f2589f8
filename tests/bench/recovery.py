"""Measure what faults cost, and check that no output byte changes: random faults, crashes, a lost node.

    python -m tests.bench.recovery [--machines process|docker|sim] [--runs 20] [--scale 0.2]

An undisturbed run gives the outputs and the makespan to compare with. In `--repeats` runs the JobTracker is
killed at a fifth, two fifths and three fifths of that makespan. One run loses a node at a quarter of it, and
the node never returns. At its end, the other nodes must again hold all replicas of the lost blocks. `--runs`
runs have three faults each, drawn from the run's number. For simulated runs, the bytes that each job has
written are compared. The workload must not be too short, since the second that a killed process needs to
restart and the speed of copies are not scaled.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from schedbed.scheduler.history import read_tables
from tests.bench.figures import Figure, parser, publish, say
from tests.bench.proctree import SCHEDBED

if TYPE_CHECKING:
    import pandas as pd

QUICKSTART = Path(__file__).resolve().parents[2] / "deploy" / "scenarios" / "quickstart.yaml"
FAULTS_A_RUN = 3
LOST = "n3"


class Bench:
    """A runner of one scenario under one policy on one kind of machine."""

    def __init__(self, scenario: Path, scale: float, policy: str, machines: str, folder: Path) -> None:
        options = ["--scale", str(scale), "--policy", policy, "--machines", machines]
        self._command = [*SCHEDBED, "run", str(scenario), *options]
        self._folder = folder
        self.scale = scale
        self.machines = machines

    def run(self, name: str, faults: Any = ()) -> Path:
        """Run the scenario with `faults`, and return the results folder `name`.

        Raise RuntimeError if the run fails.
        """
        out = self._folder / name
        asked = ["--set", f"faults={json.dumps(faults)}", "--repeats", "1", "--out", str(out), "--no-live"]
        command = [*self._command, *asked, *([] if self.machines == "sim" else ["--keep-outputs"])]
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(f"{name}, faults {faults}:\n{(done.stdout + done.stderr)[-2000:]}")
        return out


def outputs(out: Path) -> dict[str, Any]:
    """Return what the jobs of the run in `out` wrote: a dictionary from part files to bytes.

    For a simulated run, return a dictionary from jobs to numbers of bytes.
    """
    parts = {
        str(path.relative_to(out)): path.read_bytes() for path in sorted(out.glob("outputs/*/*/*/part-*"))
    }
    if parts:
        return parts
    jobs = read_tables(out)["jobs"]
    return dict(zip(jobs["job"].tolist(), jobs["output_bytes"].tolist(), strict=True))


def makespan_s(out: Path) -> float:
    """Return the seconds from the first submission to the last finish of the run in `out`."""
    jobs = read_tables(out)["jobs"]
    return float(jobs["finish"].max() - jobs["submit"].min())


def restored(blocks: pd.DataFrame, node: str, lost_s: float, replication: int) -> tuple[float, float]:
    """Return how far replicas were restored after `node` was lost at `lost_s` and never came back.

    The first value is the share of input blocks with a replica on the node that have `replication` replicas
    on other nodes at the end. The second is the seconds from the loss to the last new replica, or 0.
    """
    inputs = blocks[blocks["file"].str.startswith("/in/")]
    held = inputs[(inputs["node"] == node) & (inputs["added"] <= lost_s)]["block"].unique()
    living = inputs[inputs["removed"].isna() & (inputs["node"] != node) & inputs["block"].isin(held)]
    counts = living.groupby("block")["node"].nunique()
    whole = int((counts >= replication).sum())
    repairs = living[living["cause"] == "repair"]["added"]
    return whole / max(1, len(held)), float(repairs.max() - lost_s) if len(repairs) else 0.0


def seeded(bench: Bench, first: int, runs: int, calm: Path, calm_s: float) -> list[Figure]:
    """Run `runs` runs with random faults, whose seeds begin with `first`, and compare them with the
    undisturbed run `calm`.

    Return whether all outputs are equal (in percent, the worst run), and the makespans divided by `calm_s`.
    """
    expected, same, stretches = outputs(calm), [], []
    for seed in range(first, first + runs):
        until = f"{0.8 * calm_s / bench.scale:.3f}s"
        out = bench.run(f"seed{seed}", {"random": {"count": FAULTS_A_RUN, "seed": seed, "until": until}})
        same.append(100.0 * (outputs(out) == expected))
        stretches.append(makespan_s(out) / calm_s)
        faults = read_tables(out)["faults"]
        told = ", ".join(f"{row.kind} {row.target} at {row.t:.1f} s" for row in faults.itertuples())
        say(f"seed {seed}: {'the same' if same[-1] else 'OTHER'} outputs, {stretches[-1]:.2f} x ({told})")
    worst = min(same)
    return [
        Figure(
            name=f"{runs} runs of {FAULTS_A_RUN} faults: outputs the same in each",
            values=[worst],
            unit="%",
            low=100,
        ),
        Figure(name="- their makespan / the undisturbed run's", values=stretches, unit="x"),
    ]


def crashes(bench: Bench, repeats: int, calm_s: float) -> Figure:
    """Run with three crashes of the JobTracker.

    Return the makespans divided by that of the undisturbed run, `calm_s`.
    """
    at = [f"{share * calm_s / bench.scale:.3f}s" for share in (0.2, 0.4, 0.6)]
    faults = [{"at": when, "crash": "jobtracker"} for when in at]
    stretches = []
    for repeat in range(repeats):
        out = bench.run(f"crashes{repeat}", faults)
        if len(read_tables(out)["faults"]) < len(faults):
            raise RuntimeError(
                "the run was over before the JobTracker had died three times: is the host busy?"
            )
        stretches.append(makespan_s(out) / calm_s)
        say(f"JobTracker killed three times: {stretches[-1]:.3f} x")
    return Figure(name="JobTracker killed three times: makespan", values=stretches, unit="x", high=1.1)


def lost_node(bench: Bench, calm_s: float) -> list[Figure]:
    """Run with one node that dies and never returns.

    Return the share of its blocks that have all replicas again, and how long that took.
    """
    out = bench.run("lost", [{"at": f"{0.25 * calm_s / bench.scale:.3f}s", "kill": LOST}])
    tables = read_tables(out)
    replication = json.loads((out / "run.json").read_text())["scenario"]["cluster"]["blocks"]["replication"]
    share, took_s = restored(tables["blocks"], LOST, float(tables["faults"]["t"][0]), replication)
    say(f"{LOST} lost: {100 * share:.0f}% of its blocks have all replicas again after {took_s:.1f} s")
    return [
        Figure(
            name="a node lost: its inputs' blocks with all replicas again",
            values=[100 * share],
            unit="%",
            low=100,
        ),
        Figure(name="- the last of them after its loss", values=[took_s], unit="s"),
    ]


def main() -> None:
    """Run the benchmark, print its figures, and save them if `--out` is given."""
    options = parser(__doc__)
    options.add_argument("--machines", default="process", choices=["process", "docker", "sim"])
    options.add_argument("--runs", type=int, default=20, help="seeded runs (default 20)")
    options.add_argument("--first", type=int, default=1, help="the first of their seeds (default 1)")
    options.add_argument("--policy", default="fair")
    options.add_argument(
        "--scale", type=float, default=0.2, help="of all durations and amounts (default 0.2)"
    )
    options.add_argument("--scenario", type=Path, default=QUICKSTART)
    asked = options.parse_args()
    with tempfile.TemporaryDirectory(prefix="schedbed-bench-") as folder:
        bench = Bench(asked.scenario, asked.scale, asked.policy, asked.machines, Path(folder))
        calm = [bench.run(f"calm{repeat}") for repeat in range(asked.repeats)]
        calm_s = sorted(map(makespan_s, calm))[len(calm) // 2]
        say(f"undisturbed: {calm_s:.1f} s")
        figures = [crashes(bench, asked.repeats, calm_s), *lost_node(bench, calm_s)]
        if asked.runs:
            figures += seeded(bench, asked.first, asked.runs, calm[0], calm_s)
    title = f"Recovery: {asked.scenario.stem} at scale {asked.scale:g}, {asked.policy}, {asked.machines}"
    publish(f"recovery_{asked.machines}", title, figures, asked.out)


if __name__ == "__main__":
    main()
