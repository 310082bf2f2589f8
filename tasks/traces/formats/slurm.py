"""Slurm's accounting data: `sacct --parsable2` (or `--parsable`), or the file of the plugin `jobcomp/filetxt`.

Of sacct, a header and one line per job: JobID, Submit, and Elapsed (or Start and End) are required; AllocCPUS,
Timelimit, User, Partition, State, Eligible and NodeList are used if present. Job steps (123.batch) are skipped. A
`jobcomp` line has `Key=value` pairs and the same data. Times are read as UTC.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from itertools import combinations_with_replacement
from math import comb
from pathlib import Path
from typing import NamedTuple

from schedbed.tasks.errors import BadInput
from schedbed.tasks.specs import id_key
from schedbed.tasks.traces.recording import most_held, on_machine
from schedbed.tasks.traces.text import first_line, lines
from schedbed.tasks.traces.trace import (
    ASSUMED,
    Recording,
    Trace,
    TracedMachine,
    TraceFormat,
    TraceJob,
    TraceTask,
    most_at_once,
)

CPUS_MAX = 1_000_000
_TIME = re.compile(r"\d{4}-\d\d-\d\dT[\d:]+")
_SPAN = re.compile(r"(?:(\d+)-)?(?:(\d+):)?(\d+):(\d+(?:\.\d+)?)")
_UNKNOWN = ("", "Unknown", "None", "N/A", "INVALID")
_OPEN = ("UNLIMITED", "Partition_Limit")
_RAN = ("COMPLETED", "FAILED", "TIMEOUT", "OUT_OF_MEMORY", "NODE_FAIL")
LEAST_S = 0.5  # Half of the accounting's resolution.
HEARTBEAT_S = 0.5  # Of a replay of a recording.
Cells = Mapping[str, str]


def read_slurm(path: Path) -> Trace:
    """Return the jobs of a file in order of submission, without lines that are no jobs. Raises BadInput.

    A job that is listed again, as in two months of a folder, counts as listed last.
    """
    notes: Counter[str] = Counter()
    listed: dict[tuple[str, float], tuple[TraceJob, _Ran]] = {}
    bad: list[BadInput] = []
    for cells, where in rows_of(path, notes, bad):
        try:
            job, nodes = _job(cells, where, notes), tuple(_nodes(cells, where))
        except BadInput as error:
            bad.append(error)
            continue
        if job is not None:
            end_s = job.submit_s + (job.duration_s or 0.0)
            start_s = end_s - (job.maps[0].duration_s or 0.0)
            key = (job.name, job.submit_s)
            notes["# jobs are listed again, and count as listed last"] += key in listed
            listed[key] = job, _Ran(nodes, start_s, end_s, len(job.maps))
    if bad and not listed:
        raise bad[0]
    if not listed:
        raise BadInput(
            f"{path}: no job that ran in it, expected lines of sacct --parsable2 or jobcomp/filetxt"
        )
    jobs = sorted((job for job, _ in listed.values()), key=lambda job: (job.submit_s, *id_key(job.name)))
    ran = [each for _, each in listed.values()]
    busy = most_at_once(jobs)
    warnings = (
        "no bytes, locations or deadlines in Slurm's accounting; memory, nodes, generic resources and "
        "jobs' names are not kept",
        ASSUMED,
        *(what.replace("#", str(count)) for what, count in sorted(notes.items()) if count),
        *([f"{len(bad)} lines are no jobs and are left out, the first: {bad[0]}"] if bad else []),
    )
    machine = TracedMachine(nodes=busy, processors=busy, why="most CPUs that the trace has in use at a time")
    recording = on_machine(machine, HEARTBEAT_S)
    if all(each.nodes for each in ran):
        recording = _on_nodes(ran)
        processors, why = recording.map_slots * len(recording.hosts), recording.why[0]
        machine = TracedMachine(nodes=len(recording.hosts), processors=processors, why=why)
    return Trace(format="slurm", jobs=tuple(jobs), machine=machine, recording=recording, warnings=warnings)


class _Ran(NamedTuple):
    """The nodes of a job, when it ran, and its CPUs on all of them."""

    nodes: tuple[str, ...]
    start_s: float
    end_s: float
    cpus: int


def _on_nodes(ran: list[_Ran]) -> Recording:
    """Return a recording on the nodes that the jobs name, with the least CPUs of each that the jobs can have had.

    How a job's CPUs were divided among several nodes is unknown.
    """
    nodes = sorted({node for each in ran for node in each.nodes})
    alone: dict[str, list[_Ran]] = {}
    for each in ran:
        if len(each.nodes) == 1:
            alone.setdefault(each.nodes[0], []).append(each)
    slots = max(
        *(-(-each.cpus // len(each.nodes)) for each in ran),
        math.ceil(most_held((each.start_s, each.end_s, each.cpus) for each in ran) / len(nodes)),
        *(round(most_held((one.start_s, one.end_s, one.cpus) for one in each)) for each in alone.values()),
    )
    return Recording(
        hosts=tuple(("default-rack", node) for node in nodes),
        map_slots=slots,
        reduce_slots=0,
        heartbeat_s=HEARTBEAT_S,
        why=(f"{len(nodes)} nodes that the jobs name, of {slots} CPUs: the least that the jobs need",),
    )


# Lists of nodes, such as n[01-03,7],m4.

_NODES_MAX = 100_000
_PART = re.compile(r"([^,\[]+)(?:\[([^\]]*)\]([^,]*))?(?:,|$)")


def _nodes(cells: Cells, where: str) -> list[str]:
    """Return the nodes of a job, none if they are unknown. Raises BadInput for more than 100,000."""
    text = cells.get("nodelist", "").strip()
    if text in _UNKNOWN or text in ("None assigned", "(null)"):
        return []
    found: list[str] = []
    for name, inside, rest in _PART.findall(text):
        for part in inside.split(",") if inside else [""]:
            low, _, high = part.partition("-")
            count = int(high or low) - int(low) if low.isdecimal() and (high or low).isdecimal() else 0
            if len(found) + count > _NODES_MAX:
                raise BadInput(f"{where}: NodeList: more than {_NODES_MAX} nodes in {text[:40]!r}")
            numbers = [f"{int(low) + step:0{len(low)}d}" for step in range(count + 1)] if count else [low]
            found += [f"{name}{number}{rest}" for number in numbers]
    return list(dict.fromkeys(found))


def rows_of(path: Path, notes: Counter[str], bad: list[BadInput]) -> Iterator[tuple[Cells, str]]:
    """Yield the cells of each line by lower-case names of sacct's columns, and the place of the line.

    Lines that do not have the columns of the head are added to `bad`.
    """
    names: list[str] = []
    for number, line in lines(path):
        where = f"{path}:{number}"
        if not line.strip():
            continue
        if line.startswith(_JOBCOMP):
            yield _completion(line), where
        elif not names:
            names = _head(line.rstrip().split("|"), where)
        elif line.rstrip().lower().split("|") == names:
            continue  # The head of a folder's next file.
        else:
            try:
                cells = _cells(line.rstrip().split("|"), names, where, notes)
            except BadInput as error:
                bad.append(error)
            else:
                if cells is not None:
                    yield cells, where


# A line of jobcomp/filetxt. The job's name and its folder may contain anything, so that the keys between and after
# them are searched from the right.

_JOBCOMP = "JobId="
_COMPLETION = {
    "JobId": "jobid",
    "UserId": "user",
    "JobState": "state",
    "Partition": "partition",
    "TimeLimit": "timelimitraw",
    "StartTime": "start",
    "EndTime": "end",
    "NodeList": "nodelist",
    "NodeCnt": "nnodes",
    "ProcCnt": "alloccpus",
    "SubmitTime": "submit",
    "EligibleTime": "eligible",
}
_KEY = re.compile(rf"(?:^| )({'|'.join((*_COMPLETION, 'GroupId', 'Name'))})=(\S*)")


def _completion(line: str) -> Cells:
    """Return the cells of a line. The time limit is in minutes, and a user is followed by a number."""
    before, _, after = line.partition(" WorkDir=")
    cells = {"jobid": "", "submit": ""}
    for key, value in (
        *_KEY.findall(before.partition(" Name=")[0]),
        *_KEY.findall(before)[::-1],
        *_KEY.findall(after)[::-1],
    ):
        name = _COMPLETION.get(key)
        if name is not None and not cells.get(name):
            cells[name] = value
    cells["user"] = cells.get("user", "").partition("(")[0]
    return cells


# A field of sacct may contain the separator, for example a job's name or its constraints.

_NEVER_WITH_BAR = {
    "jobid": r"\d[\w.+\[\]%,-]*",
    "submit": r"[\dT:.-]+|Unknown",
    "start": r"[\dT:.-]+|Unknown|None|",
    "eligible": r"[\dT:.-]+|Unknown|None|",
    "end": r"[\dT:.-]+|Unknown|None|",
    "elapsed": r"[\d:.-]*|INVALID",
    "elapsedraw": r"\d*",
    "alloccpus": r"\d*",
    "ncpus": r"\d*",
    "reqcpus": r"\d*",
    "nnodes": r"\d*",
    "nodelist": r"\S*|None assigned",
    "timelimit": r"[\d:.-]*|UNLIMITED|Partition_Limit|INVALID",
    "timelimitraw": r"\d*|UNLIMITED|Partition_Limit",
    "state": r"[A-Z][A-Z_]*\+?|CANCELLED by \d+",
    "totalcpu": r"[\d:.-]*|INVALID",
    "user": r"[^\s|]*",
    "partition": r"[^\s|]*",
    "": "",
}
_WAYS_MAX = 20_000


def _cells(cells: list[str], names: list[str], where: str, notes: Counter[str]) -> Cells | None:
    """Return the cells by name, or None for a job step. Raises BadInput for other than one cell per name."""
    extra = len(cells) - len(names)
    if not extra:
        return dict(zip(names, cells, strict=True))
    if extra > 0 and names[0] == "jobid" and "." in cells[0]:
        return None
    readings = _readings(cells, names, extra)
    if len(readings) != 1:
        hint = (
            ""
            if extra < 0
            else "; a | within a field is read only if the other columns tell which field it is"
        )
        raise BadInput(f"{where}: {len(cells)} columns, expected {len(names)} as in the head{hint}")
    notes["# lines have a | within a field, which the other columns tell"] += 1
    return readings[0]


def _readings(cells: list[str], names: list[str], extra: int) -> list[Cells]:
    """Return the different cells of columns in `_NEVER_WITH_BAR`, for all ways to join cells of the other columns."""
    free = [place for place, name in enumerate(names) if name not in _NEVER_WITH_BAR]
    if extra < 0 or not free or comb(len(free) + extra - 1, extra) > _WAYS_MAX:
        return []
    found: list[Cells] = []
    for joined in combinations_with_replacement(free, extra):
        more, place = Counter(joined), 0
        reading: dict[str, str] = {}
        for column, name in enumerate(names):
            if name in _NEVER_WITH_BAR:
                reading[name] = cells[place]
            place += 1 + more[column]
        fits = all(re.fullmatch(_NEVER_WITH_BAR[name], cell.strip()) for name, cell in reading.items())
        if fits and reading not in found:
            found.append(reading)
    return found


def _head(cells: list[str], where: str) -> list[str]:
    names = [cell.strip().lower() for cell in cells]
    timed = {"elapsed", "elapsedraw"} & set(names) or {"start", "end"} <= set(names)
    if "jobid" not in names or "submit" not in names or not timed:
        hint = "a first line with the names that --format had, or sacct without --noheader, among them "
        hint = hint if any(map(_TIME.fullmatch, cells)) else ""
        raise BadInput(f"{where}: expected {hint}the columns JobID, Submit, and Elapsed or Start and End")
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
    start_s, eligible_s = _time_s(cells, "start", where), _time_s(cells, "eligible", where)
    state = cells.get("state", "").split()
    if run_s == 0 and _has_run(state, cells):
        notes[f"assumed: # jobs that ended within the second of their start ran for {LEAST_S:g} s"] += 1
        run_s = LEAST_S
    if run_s is None or run_s <= 0:
        notes["# jobs that never ran are left out"] += 1
        return None
    notes["# jobs did not complete and are taken as if they had run as long as they did"] += bool(
        state and state[0] != "COMPLETED"
    )
    cpus = _cpus(cells, where, notes)
    if eligible_s is not None and eligible_s > submit_s and (start_s is None or eligible_s <= start_s):
        notes[
            "# jobs waited for others or for a given time, and are submitted when they became eligible"
        ] += 1
        submit_s = eligible_s
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


def _has_run(state: list[str], cells: Cells) -> bool:
    """Return whether a job of no recorded duration ran: it completed, or failed with processors of its own."""
    if state[:1] == ["COMPLETED"]:
        return True
    given = cells.get("alloccpus", "").strip()
    return bool(state) and state[0] in _RAN and given.isdecimal() and int(given) > 0


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
    if first_line(start).startswith(_JOBCOMP):
        return "JobState=" in first_line(start)
    cells = first_line(start).split("|")
    names = {name.strip().lower() for name in cells}
    has_no_head = re.fullmatch(_NEVER_WITH_BAR["jobid"], cells[0]) and any(map(_TIME.fullmatch, cells))
    return {"jobid", "submit"} <= names or bool(has_no_head)


FORMAT = TraceFormat(read=read_slurm, looks_like=_looks_like)
