"""Try a hostile policy in one run of the command, and judge the run by its exit code, messages and tables."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path

import pandas as pd

from schedbed.scheduler.history import read_table
from tests.bench.hostile.attacks import Attack

LIMIT_S, WAIT_S = 10.0, 40.0
NAMES_LINE = re.compile(r"mine\.py, line \d+")
SCENARIO = """
name: hostile
seed: 1
cluster: {nodes: 2, racks: 1, heartbeat: 50ms, node: {cores: 2, core_speed: 0.2, memory: 512MiB, disk: 40MB/s,
  network: 100Mbit/s, map_slots: 2, reduce_slots: 1}}
blocks: {size: 1MiB, replication: 1}
profiles: {store: none}
speculation: none
workload:
  jobs:
    - {app: synthetic, maps: 6, map: {cpu: 300ms, read: 1MiB, write: 1MiB}, reduces: 1, reduce: {cpu: 100ms}}
    - {app: synthetic, maps: 3, map: {cpu: 200ms, write: 1MiB}, reduces: 0, submit: 500ms, user: bo}
"""
JOBS = 2
TASKS = ["map"] * 9 + ["reduce"]
SLOTS = {"map": 2, "reduce": 1}
TABLES = ("jobs", "attempts", "heartbeats")


@dataclass(frozen=True, slots=True)
class Trial:
    """The outcome of a hostile policy: refused, harmless or HURT.

    `code` and `wall_s` are the command's exit code and duration, `said` is the line of its message that names
    the policy.
    """

    verdict: str
    code: int
    wall_s: float
    said: str


Tables = Mapping[str, pd.DataFrame]


def calm_tables(folder: Path) -> Tables:
    """Simulate an ordinary policy with the class name of the hostile ones. Return the run's tables."""
    code, _, text = _command(Attack(name="calm"), folder / "calm", live=False)
    if code:
        raise RuntimeError(f"the ordinary policy fails: {text}")
    return _tables(folder / "calm" / "out")


def start_and_stop_s(folder: Path) -> float:
    """Return the seconds that a live run of an ordinary policy takes on this host in addition to its
    makespan.
    """
    code, wall_s, text = _command(Attack(name="calm"), folder / "calm-live", live=True)
    if code:
        raise RuntimeError(f"the ordinary policy fails: {text}")
    jobs = _tables(folder / "calm-live" / "out")["jobs"]
    return wall_s - float(jobs["finish"].max() - jobs["submit"].min())


def try_policy(
    attack: Attack, folder: Path, calm: Tables | None, *, live: bool, beside_s: float = 0.0
) -> Trial:
    """Run the command with the hostile policy in the new folder `folder`, and judge the outcome.

    `calm` has the tables of an ordinary policy. The command may take `beside_s` longer than `LIMIT_S`.
    """
    code, wall_s, text = _command(attack, folder, live=live)
    told = [line for line in text.splitlines() if NAMES_LINE.search(line)]
    said = told[-1].strip() if told else " | ".join(text.splitlines()[-3:])
    in_time = wall_s <= LIMIT_S + beside_s
    if code in (1, 2) and told and in_time and "Traceback" not in text:
        return Trial("refused", code, wall_s, said)
    if (
        code == 0
        and in_time
        and calm is not None
        and not attack.check
        and _same(_tables(folder / "out"), calm)
    ):
        return Trial("harmless", code, wall_s, "")
    if code == 0 and in_time and live and is_sound(_tables(folder / "out")):
        return Trial("harmless", code, wall_s, "")
    return Trial("HURT", code, wall_s, said)


def is_sound(tables: Tables) -> bool:
    """Return whether a live run completed all jobs and each task once, and no node ever ran more attempts
    than it has slots.
    """
    attempts = tables["attempts"]
    done = attempts[attempts["state"] == "succeeded"]
    if list(tables["jobs"]["state"]) != ["succeeded"] * JOBS or sorted(done["kind"]) != TASKS:
        return False
    if done.duplicated(["job", "task"]).any():
        return False
    for (_, kind), there in attempts.groupby(["node", "kind"]):
        # Of two events of one moment, the end comes first.
        events = sorted([(t, 1) for t in there["assigned"]] + [(t, -1) for t in there["end"]])
        if max(accumulate(change for _, change in events)) > SLOTS[str(kind)]:
            return False
    return True


def _command(attack: Attack, folder: Path, *, live: bool) -> tuple[int, float, str]:
    """Run the command with the hostile policy in `folder`.

    Return its exit code, its seconds, and the end of its messages.
    """
    folder.mkdir(parents=True)
    (folder / "mine.py").write_text(attack.text(), encoding="utf-8")
    (folder / "s.yaml").write_text(SCENARIO, encoding="utf-8")
    command = [str(Path(sys.executable).with_name("schedbed"))]
    if attack.check:
        command += ["policy", "check", "mine.py:Mine"]
    else:
        command += ["run", "s.yaml", "--policy", "mine.py:Mine", "--out", "out", "--no-live"]
        command += ["--machines", "process" if live else "sim"]
    env = {**os.environ, "HOSTILE_OUT": str(folder / "out"), "PYTHONFAULTHANDLER": ""}
    began_s = time.monotonic()
    with (folder / "stdout").open("wb") as out, (folder / "stderr").open("wb") as errors:
        process = subprocess.Popen(
            command, cwd=folder, env=env, stdout=out, stderr=errors, start_new_session=True
        )
        try:
            code = process.wait(WAIT_S)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGINT if live else signal.SIGKILL)
            code = process.wait(WAIT_S) and -9
    wall_s = time.monotonic() - began_s
    text = (folder / "stderr").read_text(errors="replace")
    if attack.check:
        text += (folder / "stdout").read_text(errors="replace")
    return code, wall_s, text[-100_000:]


def _tables(folder: Path) -> Tables:
    return {name: read_table(folder, name) for name in TABLES if (folder / f"{name}.parquet").is_file()}


def _same(one: Tables, other: Tables) -> bool:
    return set(one) == set(other) and all(one[name].equals(other[name]) for name in other)
