"""Run `schedbed arena`, time it, and keep its page and figures for docs/arena.md.

    python -m tests.pages.whole_arena FOLDER [--keep docs/results/arena] [-- ARENA'S OPTIONS]
    python -m tests.pages.whole_arena FOLDER --keep docs/results/arena --live SEEDS

The arena's own results stay in FOLDER. After Ctrl-C, the same command continues, and the times of both add
up: elapsed seconds, and CPU seconds of all processes of the arena, which depend less on other work of the
host.

With `--live` only the leading policies of the kept arena run, live and simulated, on a host without other
work.
"""

from __future__ import annotations

import argparse
import json
import resource
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from schedbed.deploy.arena.arena_page import rank_agreement
from schedbed.deploy.arena.contest import PAGE, SUMMARY
from schedbed.deploy.arena.live_leaders import hold_live, live_contest
from tests.bench.figures import host_line, today

TOOK, KEPT = "took.json", "figures.json"
SHOWN: Mapping[str, str] = {
    "slowdown_mean": "slowdown, mean",
    "slowdown_p95": "slowdown, p95",
    "jain": "Jain's index",
    "locality": "local bytes",
    "late": "late jobs",
    "lost_cells": "lost cells",
}


@dataclass(slots=True)
class Took:
    """The seconds that an arena has taken so far, over all its commands, with host, date and command."""

    elapsed_s: float = 0.0
    cpu_s: float = 0.0
    command: str = ""
    date: str = ""
    host: str = ""


def run(folder: Path, options: Sequence[str]) -> int:
    """Run the arena in `folder`, add its times to the folder's `took.json`, and return its exit code."""
    folder.mkdir(parents=True, exist_ok=True)
    kept = folder / TOOK
    took = Took(**json.loads(kept.read_text(encoding="utf-8"))) if kept.is_file() else Took()
    took.host, took.date = host_line(), today()
    took.command = shlex.join(["schedbed", "arena", *options])
    start_s = time.monotonic()
    command = [sys.executable, "-m", "schedbed", "arena", "--out", str(folder), *options]
    with subprocess.Popen(command) as arena:
        try:
            code = arena.wait()
        except KeyboardInterrupt:
            code = arena.wait()
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    took.elapsed_s += time.monotonic() - start_s
    took.cpu_s += used.ru_utime + used.ru_stime
    kept.write_text(json.dumps(asdict(took)), encoding="utf-8")
    return code


def keep(folder: Path, target: Path) -> None:
    """Copy the page of the arena in `folder` to `target`, and write the figures that docs/arena.md shows."""
    summary: dict[str, Any] = json.loads((folder / SUMMARY).read_text(encoding="utf-8"))
    shown = ("ranked_by", "seeds", "rank", "policies", "front", "leaders", "live")
    took = json.loads((folder / TOOK).read_text(encoding="utf-8"))
    target.mkdir(parents=True, exist_ok=True)
    text = json.dumps({"took": took, **{key: summary[key] for key in shown}}, indent=1)
    (target / KEPT).write_text(text + "\n", encoding="utf-8")
    shutil.copyfile(folder / PAGE, target / PAGE)


def keep_live(folder: Path, target: Path, seeds: int) -> None:
    """Run the leading policies of the kept arena live with `seeds` seeds.

    Keep how far their order agrees with the simulated.
    """
    path = target / KEPT
    kept: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    contest = live_contest(kept["leaders"], kept["rank"]["ranks"], seeds)
    folder.mkdir(parents=True, exist_ok=True)
    found = hold_live(contest, folder, print)
    kept["live"] = {**found, "date": today(), "host": host_line()}
    path.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")


def ranks(kept: Mapping[str, Any]) -> str:
    """Return the mean ranks and figures of a kept arena's policies as Markdown, with its command and
    duration.
    """
    took, rank = kept["took"], kept["rank"]
    cells = kept["seeds"] * rank["blocks"] * len(rank["ranks"])
    lines = [
        f"Command: `{took['command']}`, on {took['date']}. Host: {took['host']}. {cells:,} cells, "
        f"{took['cpu_s'] / 3600:.1f} core-hours in {took['elapsed_s'] / 60:.0f} minutes.\n",
        f"Ranks over {rank['blocks']} workloads; policies nearer than {rank['critical']:.1f} are not told apart "
        f"(Friedman's p = {rank['p']:.1g}).\n",
        "| policy | mean rank | " + " | ".join(SHOWN.values()) + " |",
        "|---" * (len(SHOWN) + 2) + "|",
    ]
    for policy, mean in rank["ranks"].items():
        of = kept["policies"][policy]
        values = ("–" if of[column] is None else f"{of[column]:.3g}" for column in SHOWN)
        lines.append(f"| `{policy}` | {mean:.1f} | " + " | ".join(values) + " |")
    return "\n".join(lines) + "\n"


def leaders(kept: Mapping[str, Any]) -> str:
    """Return the live results of the leading policies of a kept arena as Markdown."""
    live = kept["live"]
    if live is None:
        return "The leaders were not run live.\n"
    lines = [
        f"{rank_agreement(live)} {live['runs']} runs of each policy, {len(live['left_out'])} left out."
        f"{_measured(live)}\n",
        "| policy | mean slowdown, live | simulated |",
        "|---|---|---|",
        *(
            f"| `{policy}` | {each['live']:.2f} | {each['simulated']:.2f} |"
            for policy, each in sorted(live["policies"].items(), key=lambda item: item[1]["live"])
        ),
    ]
    return "\n".join(lines) + "\n"


def _measured(live: Mapping[str, Any]) -> str:
    return f" Measured on {live['date']}. Host: {live['host']}." if "date" in live else ""


def main() -> None:
    """Run the arena or its leading policies live, and keep the results if `--keep` is given."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    options.add_argument("folder", type=Path)
    options.add_argument("--keep", type=Path, help="folder for the page and the figures")
    options.add_argument(
        "--live", type=int, metavar="SEEDS", help="only run the leaders of the kept arena live"
    )
    given = sys.argv[1:]
    own = given.index("--") if "--" in given else len(given)  # argparse takes none of them after `--keep`.
    asked = options.parse_args(given[:own])
    if asked.live is not None:
        if not asked.keep:
            options.error("--live: expected --keep FOLDER, a kept arena, beside it")
        keep_live(asked.folder, asked.keep, asked.live)
        return
    code = run(asked.folder, given[own + 1 :])
    if code == 0 and asked.keep:
        keep(asked.folder, asked.keep)
    sys.exit(code)


if __name__ == "__main__":
    main()
