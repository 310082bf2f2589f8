"""Slurm's accounting data, as printed by `sacct --parsable2` (or `--parsable`): a header and one line per
job.

JobID, Submit, and Elapsed (or Start and End) are required; AllocCPUS, Timelimit, User, Partition and State
are used if present. Job steps (123.batch) are skipped. Times are read as UTC.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

from schedbed.tasks.errors import BadInput
from schedbed.tasks.traces.text import first_line, lines
from schedbed.tasks.traces.trace import (
    ASSUMED,
    Trace,
    TracedMachine,
    TraceFormat,
    TraceJob,
    TraceTask,
    most_at_once,
)

CPUS_MAX = 1_000_000
_SPAN = re.compile(r"(?:(\d+)-)?(?:(\d+):)?(\d+):(\d+(?:\.\d+)?)")
_UNKNOWN = ("", "Unknown", "None", "N/A", "INVALID")
_OPEN = ("UNLIMITED", "Partition_Limit")
Cells = Mapping[str, str]


def read_slurm(path: Path) -> Trace:
    """Return the jobs of a file in order of submission. Raises BadInput for a line that is not a job."""
    notes: Counter[str] = Counter()
    jobs: list[TraceJob] = []
    names: list[str] = []
    for number, line in lines(path):
        if not line.strip():
            continue
        cells, where = line.rstrip().split("|"), f"{path}:{number}"
        if not names:
            names = _head(cells, where)
            continue
        if len(cells) != len(names):
            raise BadInput(f"{where}: {len(cells)} columns, expected {len(names)} as in the head")
        job = _job(dict(zip(names, cells, strict=True)), where, notes)
        if job is not None:
            jobs.append(job)
    if not jobs:
        raise BadInput(f"{path}: no job that ran in it, expected lines of sacct --parsable2")
    jobs.sort(key=lambda job: job.submit_s)
    busy = most_at_once(jobs)
    warnings = (
        "no bytes, locations or deadlines in Slurm's accounting; memory, nodes and generic resources are not kept",
        ASSUMED,
        *(what.replace("#", str(count)) for what, count in sorted(notes.items()) if count),
    )
    machine = TracedMachine(nodes=busy, processors=busy, why="most CPUs that the trace has in use at a time")
    return Trace(format="slurm", jobs=tuple(jobs), machine=machine, warnings=warnings)


def _head(cells: list[str], where: str) -> list[str]:
    names = [cell.strip().lower() for cell in cells]
    timed = {"elapsed", "elapsedraw"} & set(names) or {"start", "end"} <= set(names)
    if "jobid" not in names or "submit" not in names or not timed:
        raise BadInput(f"{where}: expected the columns JobID, Submit, and Elapsed or Start and End")
    return names


def _job(cells: Cells, where: str, notes: Counter[str]) -> TraceJob | None:
    name = cells["jobid"].strip()
    if "." in name:
        return None
    if not name:
        raise BadInput(f"{where}: the job has no JobID")
    submit_s, run_s = _time_s(cells, "submit", where), _run_s(cells, where)
    if submit_s is None:
        raise BadInput(f"{where}: Submit: {cells['submit'][:40]!r} is not a time")
    if run_s is None or run_s <= 0:
        notes["# jobs that never ran are left out"] += 1
        return None
    state = cells.get("state", "").split()
    notes["# jobs did not complete and are taken as if they had run as long as they did"] += bool(
        state and state[0] != "COMPLETED"
    )
    cpus = _cpus(cells, where, notes)
    start_s = _time_s(cells, "start", where)
    limit_s = _limit_s(cells, where)
    notes["assumed: # jobs without a time limit requested what they ran"] += limit_s is None
    notes["# jobs without a CPU time: their run time counts"] += not _span(cells.get("totalcpu", ""))
    cpu_s = _span(cells.get("totalcpu", "")) or run_s * cpus
    task = TraceTask(duration_s=run_s, work_s=run_s, cpu_s=min(run_s, cpu_s / cpus))
    return TraceJob(
        name=name[:200],
        submit_s=submit_s,
        user=cells.get("user", "").strip()[:200] or None,
        queue=cells.get("partition", "").strip()[:200] or None,
        duration_s=run_s + max(0.0, 0.0 if start_s is None else start_s - submit_s),
        requested_s=run_s if limit_s is None else limit_s,
        maps=(task,) * cpus,
    )


def _run_s(cells: Cells, where: str) -> float | None:
    for key in ("elapsedraw", "elapsed"):
        text = cells.get(key, "").strip()
        if text not in _UNKNOWN:
            found = _span(text) if ":" in text else _number(text)
            if found is None:
                raise BadInput(f"{where}: {key}: {text[:40]!r} is not [days-]hours:minutes:seconds")
            return found
    start_s, end_s = _time_s(cells, "start", where), _time_s(cells, "end", where)
    return None if start_s is None or end_s is None else end_s - start_s


def _cpus(cells: Cells, where: str, notes: Counter[str]) -> int:
    for key in ("alloccpus", "ncpus", "reqcpus"):
        text = cells.get(key, "").strip()
        if text.isdecimal() and int(text):
            if int(text) > CPUS_MAX:
                raise BadInput(f"{where}: {key}: {text} CPUs, expected {CPUS_MAX} at most")
            return int(text)
    notes["assumed: # jobs without a number of CPUs ran on one"] += 1
    return 1


def _limit_s(cells: Cells, where: str) -> float | None:
    minutes = _number(cells.get("timelimitraw", ""))
    text = cells.get("timelimit", "").strip()
    if minutes is not None:
        return 60 * minutes or None
    if text in _UNKNOWN or text in _OPEN:
        return None
    found = _span(text)
    if found is None:
        raise BadInput(f"{where}: Timelimit: {text[:40]!r} is not [days-]hours:minutes:seconds")
    return found or None


def _time_s(cells: Cells, key: str, where: str) -> float | None:
    text = cells.get(key, "").strip()
    if text in _UNKNOWN:
        return None
    if (seconds := _number(text)) is not None:
        return seconds  # Written with SLURM_TIME_FORMAT=%s.
    try:
        return datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()
    except ValueError:
        raise BadInput(f"{where}: {key}: {text[:40]!r} is not a time such as 2024-01-31T12:00:00") from None


def _span(text: str) -> float | None:
    found = _SPAN.fullmatch(text.strip())
    if found is None:
        return None
    days, hours, minutes, seconds = (float(part or 0) for part in found.groups())
    return ((days * 24 + hours) * 60 + minutes) * 60 + seconds


def _number(text: str) -> float | None:
    return float(text) if text.strip().isdecimal() and len(text) < 16 else None


def _looks_like(start: str) -> bool:
    names = {name.strip().lower() for name in first_line(start).split("|")}
    return {"jobid", "submit"} <= names


FORMAT = TraceFormat(read=read_slurm, looks_like=_looks_like)
