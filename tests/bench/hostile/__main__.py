"""Run hostile policies, and report which of them hurt a run.

    python -m tests.bench.hostile                  # all of them, simulated
    python -m tests.bench.hostile --live           # those that are refused in a run, live
    python -m tests.bench.hostile --only os._exit  # those whose name holds the text
    python -m tests.bench.hostile --recovery 20    # crashes of the JobTracker under two good policies

A policy is `refused` if the command ends within 10 s with exit code 1 or 2 and one line that names the
policy's file and line. It is `harmless` if the run's tables are those of an ordinary policy. Any other
outcome makes this command exit with 1. Live runs may take longer by the time that this host needs to start
and stop an ordinary run.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from tests.bench.hostile.attacks import attacks
from tests.bench.hostile.recovery import print_recovery
from tests.bench.hostile.trial import Trial, calm_tables, start_and_stop_s, try_policy


def main() -> int:
    """Run the trials that the options ask for. Return the exit code."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    options.add_argument("--live", action="store_true", help="in processes, not simulated")
    options.add_argument("--only", default="", help="part of the names")
    options.add_argument("--most", type=int, default=10**6, help="at most this many")
    options.add_argument(
        "--recovery", type=int, metavar="N", help="N runs with three crashes of the JobTracker"
    )
    asked = options.parse_args()
    with tempfile.TemporaryDirectory(prefix="schedbed-hostile-") as folder:
        if asked.recovery:
            return print_recovery(asked.recovery, Path(folder), live=asked.live)
        chosen = [each for each in attacks() if asked.only in each.name and (each.in_run or not asked.live)]
        return print_trials(Path(folder), chosen[: asked.most], live=asked.live)


def print_trials(folder: Path, chosen: list, *, live: bool) -> int:
    """Try each of the policies `chosen` and print a row for it. Return 1 if one hurt a run."""
    calm = calm_tables(folder) if not live else None
    beside_s = start_and_stop_s(folder) if live else 0.0
    if live:
        print(f"A live run of an ordinary policy starts and stops in {beside_s:.1f} s on this host.")
    trials: list[Trial] = []
    print(f"{'policy':62} {'verdict':9} {'exit':>4} {'s':>5}  what was said")
    for number, attack in enumerate(chosen):
        trial = try_policy(attack, folder / str(number), calm, live=live, beside_s=beside_s)
        trials.append(trial)
        print(
            f"{attack.name:62} {trial.verdict:9} {trial.code:4} {trial.wall_s:5.1f}  {trial.said[:150]}",
            flush=True,
        )
    hurt = [trial for trial in trials if trial.verdict == "HURT"]
    counts = {
        name: sum(trial.verdict == name for trial in trials) for name in ("refused", "harmless", "HURT")
    }
    slowest = max((trial.wall_s for trial in trials), default=0.0)
    print(f"{len(trials)} policies: {counts}, the slowest {slowest:.1f} s")
    return 1 if hurt else 0


if __name__ == "__main__":
    sys.exit(main())
