"""Explanations of where and when a task ran, made from the tables of decisions and attempts."""

from __future__ import annotations

import difflib
import re
import shutil
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING, Any

from schedbed.deploy.results.in_progress import readable
from schedbed.deploy.results.metrics import RunTables, select
from schedbed.deploy.results.record_check import open_record
from schedbed.deploy.results.runfile import RunFile
from schedbed.scheduler.history import read_tables
from schedbed.tasks.errors import BadInput
from schedbed.tasks.units import format_bytes

if TYPE_CHECKING:
    import pandas as pd

TASK = re.compile(r"^(?P<task>.+_[mr]_\d+)(?:_\d+)?$")
FOLDED_INDENT = " " * 15
JOBS_LISTED = 4
SKIPS_LISTED = 8  # More skips are counted by node and reason.


def explain(out_dir: Path | str, task_id: str, policy: str | None = None, repeat: int | None = None) -> None:
    """Print the explanation that `story` returns for a task. On a terminal, long lines are wrapped between words."""
    text = story(out_dir, task_id, policy, repeat)
    print(_folded(text, shutil.get_terminal_size().columns) if sys.stdout.isatty() else text)


def _folded(text: str, width: int) -> str:
    return "\n".join(
        fill(line, width, subsequent_indent=FOLDED_INDENT, break_long_words=False, break_on_hyphens=False)
        for line in text.splitlines()
    )


def story(out_dir: Path | str, task_id: str, policy: str | None = None, repeat: int | None = None) -> str:
    """Explain where and when a task, or an attempt's task, ran. Raises BadInput.

    Without `policy` and `repeat`, all are covered.
    """
    with readable(out_dir) as place:
        run, tables = open_record(place), read_tables(place)
    wanted = _wanted(run, policy, repeat)
    match = TASK.match(task_id)
    task = match["task"] if match else task_id
    known = [select(tables, run.nodes, *key) for key in wanted]
    stories = ["\n".join(_story(mine, task)) for mine in known if _knows(mine, task)]
    if not stories:
        raise BadInput(_unknown(task_id, known))
    return "\n\n".join(stories)


def _wanted(run: RunFile, policy: str | None, repeat: int | None) -> list[tuple[str, int]]:
    """Return matching (policy, repeat). The policy may lack parameters; None is any. Raises BadInput."""
    keys = [(record.policy, record.repeat) for record in run.runs]
    mine = [key for key in keys if policy in (None, key[0], key[0].partition(":")[0])]
    if policy is not None and not mine:
        raise BadInput(f"--policy {policy}: not in this run, expected one of {', '.join(run.policies)}")
    found = [key for key in mine if repeat in (None, key[1])]
    if not found:
        raise BadInput(
            f"--repeat {repeat}: not in this run, expected 0 to {max((k[1] for k in keys), default=0)}"
        )
    return found


def _knows(mine: RunTables, task: str) -> bool:
    return bool((mine.attempts["task"] == task).any() or (mine.tables["decisions"]["task"] == task).any())


def _unknown(task_id: str, known: list[RunTables]) -> str:
    tasks = sorted({task for mine in known for task in mine.attempts["task"]})
    near = difflib.get_close_matches(task_id, tasks, n=5, cutoff=0.5) or tasks[:5]
    return f"{task_id}: no such task in this run; near it are {', '.join(near) or 'none (no task ran)'}"


def _story(mine: RunTables, task: str) -> Iterator[str]:
    """Yield lines about the task's job and attempts, with the offers that led to them."""
    attempts = mine.attempts[mine.attempts["task"] == task].sort_values("assigned", kind="stable")
    yield f"{task} under {mine.policy}" + (f", repeat {mine.repeat}" if mine.repeat else "")
    job_id = "_".join(task.split("_", 2)[:2])
    job = next(iter(_records(mine.jobs[mine.jobs["job"] == job_id])), None)
    waits_from = -1.0
    if job is not None:
        who = f"{job['name']}, {job['app']}, user {job['user']}"
        yield f"  {job_id} ({who}) was submitted at {job['submit']:.2f} s"
    kind = "map" if f"{job_id}_m_" in f"{task}_" else "reduce"
    for attempt in _records(attempts):
        yield from _meanwhile(mine, task, job, kind, waits_from, float(attempt["assigned"]))
        yield from _offers(mine, task, job_id, kind, waits_from, float(attempt["assigned"]))
        yield from _attempt(attempt)
        waits_from = float(attempt["assigned"])
    yield from _offers(mine, task, job_id, kind, waits_from, float("inf"), only_own=bool(len(attempts)))


def _meanwhile(
    mine: RunTables, task: str, job: Mapping[str, Any] | None, kind: str, after: float, until: float
) -> Iterator[str]:
    """Yield a line with the tasks of each job that were launched while this one waited."""
    after = max(after, float(job["submit"]) if job is not None else after)
    data = mine.tables["decisions"]
    launched = data["answer"].isin(["launch", "split"])
    data = data[(data["t"] > after) & (data["t"] < until) & (data["kind"] == kind) & launched]
    given = data["job"][data["task"] != task].value_counts()
    if len(given):
        named = ", ".join(f"{count} to {name}" for name, count in given.head(JOBS_LISTED).items())
        rest = f" and {given.iloc[JOBS_LISTED:].sum()} to others" if len(given) > JOBS_LISTED else ""
        yield f"{'':13}waiting {until - after:.2f} s, other {kind}s were launched: {named}{rest}"


def _offers(
    mine: RunTables, task: str, job: str, kind: str, after: float, until: float, *, only_own: bool = False
) -> Iterator[str]:
    """Yield answers about this task between two times, with those about its whole job unless `only_own`."""
    data = mine.tables["decisions"]
    data = data[
        (data["t"] > after) & (data["t"] <= until) & ((data["kind"] == kind) | (data["task"] == task))
    ]
    own = data["task"] == task
    if not only_own:
        no_task = data["task"].isna() | (data["task"] == "")
        own |= (data["job"] == job) & no_task & data["answer"].isin(["skip", "reject"])
    data = data[own].sort_values("t", kind="stable")
    skips, rest = data[data["answer"] == "skip"], _records(data[data["answer"] != "skip"])
    yield from _skips(skips)
    for row in rest:
        yield f"  {row['t']:9.2f} s  {row['node']}: {row['answer']}{_because(row['reason'])}"


def _skips(skips: pd.DataFrame) -> Iterator[str]:
    """Yield a line for each skip, or for each node and reason if there are many."""
    if len(skips) <= SKIPS_LISTED:
        for row in _records(skips):
            yield f"  {row['t']:9.2f} s  {row['node']}: skipped{_because(row['reason'])}"
        return
    reasons = skips["reason"].fillna("").str.replace(r"\d+(\.\d+)?", "…", regex=True)
    for (reason, node), rows in skips.groupby([reasons, "node"], sort=True):
        first, last = rows["t"].min(), rows["t"].max()
        shown = reason if rows["reason"].nunique() > 1 else rows["reason"].iloc[0]
        yield f"  {first:9.2f} s  {node}: skipped {len(rows)} times until {last:.2f} s{_because(shown)}"


def _attempt(row: Mapping[str, Any]) -> Iterator[str]:
    what = "speculative attempt" if row["speculative"] else "attempt"
    where = f"on {row['node']} (rack {row['rack']})"
    place = {
        "node": ", node-local",
        "rack": ", rack-local",
        "off": ", off-rack",
        "none": ", no location",
    }.get(row["locality"], "")
    yield f"  {row['assigned']:9.2f} s  {what} {row['attempt']} assigned {where}{place}"
    if _known(row["split_of"]) and row["split_of"]:
        yield f"{'':13}it is a part of {row['split_of']}: bytes {row['offset']} to {row['offset'] + row['length']}"
    if _known(row["start"]):
        yield f"  {row['start']:9.2f} s  first line of its code, {1000 * (row['start'] - row['assigned']):.0f} ms later"
    for key, what in (("shuffle_end", "had fetched every map's output"), ("sort_end", "had merged it")):
        if _known(row[key]):
            yield f"  {row[key]:9.2f} s  {what}"
    if _known(row["end"]):
        yield f"  {row['end']:9.2f} s  {row['state']}{_because(row['reason'])}{_lasted(row)}"
    yield f"{'':13}used {row['cpu_s']:.2f} core-s; {_moved(row)}"


def _lasted(row: Mapping[str, Any]) -> str:
    return f", after {row['end'] - row['start']:.2f} s" if _known(row["start"]) else ""


def _moved(row: Mapping[str, Any]) -> str:
    parts = [
        ("read here", "read_local_bytes"),
        ("read from other nodes", "read_remote_bytes"),
        ("shuffled", "shuffle_bytes"),
        ("spilled", "spill_bytes"),
        ("written", "output_bytes"),
    ]
    return (
        ", ".join(f"{what} {format_bytes(row[key])}" for what, key in parts if row[key]) or "moved no bytes"
    )


def _records(data: pd.DataFrame) -> list[dict[str, Any]]:
    return [{str(key): value for key, value in row.items()} for row in data.to_dict("records")]


def _because(reason: Any) -> str:
    return f" ({reason})" if _known(reason) and reason else ""


def _known(value: Any) -> bool:
    return value is not None and value == value
