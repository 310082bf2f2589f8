"""The Standard Workload Format of the Parallel Workloads Archive: one job per line, with 18 numbers.

Unknown values are -1. A job on n processors becomes n maps with its run time, which start together, as on a
parallel machine, under the policy `easy` or any with the admission axis `gang`. The machine's size is in the
header, or else the most processors in use at once. A job with a preceding job is submitted after that job's end
and the think time, but not before its own submit time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from schedbed.tasks.errors import BadInput
from schedbed.tasks.traces.recording import on_machine
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
from schedbed.tasks.workloads.planned import circle_in

COLUMNS = (
    *("job number", "submit time", "wait time", "run time", "allocated processors", "average CPU time"),
    *("used memory", "requested processors", "requested time", "requested memory", "status", "user"),
    *("group", "executable", "queue", "partition", "preceding job", "think time"),
)
PROCESSORS_MAX = 1_000_000
COMPLETED, CANCELLED = 1, 5
PARTIAL = (2, 3, 4)  # A run that was continued, and a last one that completed or failed.
HEARTBEAT_S = 0.5  # Of a replay of a recording: half of the format's resolution.
LEAST_S = 0.5  # Half of the format's resolution.


def read_swf(path: Path) -> Trace:
    """Return the jobs of a file in order of submission. Raises BadInput for a line that is not a job."""
    notes: Counter[str] = Counter()
    jobs: list[TraceJob] = []
    waits: list[tuple[float, float, str]] = []  # Job number, preceding job, and place, of each job.
    header: dict[str, int] = {}
    whole: set[float] = set()  # Numbers of jobs with a line about the whole run.
    for number, line in lines(path):
        if line.lstrip().startswith(";"):
            _take_header(line, header)
        elif line.strip() and not line.lstrip().startswith(";"):
            where = f"{path}:{number}"
            values = _values(line, where)
            if _is_part(values, whole):
                notes[
                    "# lines about a part of a job's run are left out, since another line is about the whole"
                ] += 1
                continue
            job = _job(values, where, notes)
            if job is not None:
                waits.append((values["job number"], values["preceding job"], where))
                jobs.append(job)
    if not jobs:
        raise BadInput(
            f"{path}: no job with a run time in it, expected lines of {len(COLUMNS)} numbers (SWF)"
        )
    jobs = _linked(jobs, waits, notes)
    ordered = sorted(jobs, key=lambda job: job.submit_s)
    warnings = (
        "no bytes, locations or deadlines in an SWF trace; used and requested memory, groups, executables and "
        "partitions are not kept",
        ASSUMED,
        *(what.replace("#", str(count)) for what, count in sorted(notes.items()) if count),
    )
    machine = _machine(header, ordered)
    return Trace(
        format="swf",
        jobs=tuple(ordered),
        machine=machine,
        recording=on_machine(machine, HEARTBEAT_S),
        warnings=warnings,
    )


def _is_part(values: Mapping[str, float], whole: set[float]) -> bool:
    """Return whether the line is about one of several runs of a job in `whole`, to which other jobs are added."""
    if values["status"] in PARTIAL:
        return values["job number"] in whole
    whole.add(values["job number"])
    return False


def _linked(
    jobs: list[TraceJob], waits: list[tuple[float, float, str]], notes: Counter[str]
) -> list[TraceJob]:
    """Return the jobs numbered by line, with the jobs that they wait for. Raises BadInput for a circle.

    Of several lines with the number of the preceding job, the nearest one above counts.
    """
    lines_of: dict[float, list[int]] = {}
    for line, (number, _, _) in enumerate(waits):
        lines_of.setdefault(number, []).append(line)
    linked: list[TraceJob] = []
    for line, (job, (number, preceding, where)) in enumerate(zip(jobs, waits, strict=True)):
        if preceding > 0 and preceding == number:
            raise BadInput(f"{where}: preceding job: {preceding:.0f} is the job itself")
        found = lines_of.get(preceding, []) if preceding > 0 else []
        notes["# jobs have a preceding job that is not in the trace, and are submitted as recorded"] += (
            preceding > 0 and not found
        )
        above = [each for each in found if each < line][-1:] or found[:1]
        linked.append(replace(job, number=line, after=above[0] if above else None))
    if circle := circle_in([job.after for job in linked]):
        names = " waits for ".join(linked[line].name for line in (*circle, circle[0]))
        raise BadInput(
            f"{waits[circle[0]][2]}: preceding job: {names}, so that none of them would be submitted"
        )
    return linked


def _take_header(line: str, header: dict[str, int]) -> None:
    """Store the machine's size from a comment such as `; MaxNodes: 240`."""
    name, _, value = line.strip("; \t").partition(":")
    number = value.split()[0] if value.split() else ""
    if name.strip() in ("MaxNodes", "MaxProcs") and number.isdecimal() and len(number) < 9 and int(number):
        header[name.strip()] = int(number)


def _machine(header: dict[str, int], jobs: list[TraceJob]) -> TracedMachine:
    nodes, processors = header.get("MaxNodes"), header.get("MaxProcs")
    most = max(len(job.maps) for job in jobs)
    if nodes is None and processors is None:
        busy = most_at_once(jobs)
        return TracedMachine(
            nodes=busy, processors=busy, why="most processors that the trace has in use at a time"
        )
    processors = max(processors or nodes or 0, most)
    return TracedMachine(
        nodes=min(nodes or processors, processors), processors=processors, why="header of the trace"
    )


def _values(line: str, where: str) -> dict[str, float]:
    parts = line.split()
    if len(parts) < len(COLUMNS):
        raise BadInput(f"{where}: {len(parts)} columns, expected the {len(COLUMNS)} numbers of SWF")
    values = {}
    for name, text in zip(COLUMNS, parts, strict=False):
        try:
            values[name] = float(text)
        except ValueError:
            raise BadInput(f"{where}: {name}: {text[:40]!r} is not a number") from None
        if not -1e15 < values[name] < 1e15:  # The comparison is also false for NaN.
            raise BadInput(f"{where}: {name}: {text[:40]!r} is not a number that can be")
    return values


def _job(values: dict[str, float], where: str, notes: Counter[str]) -> TraceJob | None:
    run_s = values["run time"]
    processors = values["allocated processors"]
    if processors <= 0:
        processors = values["requested processors"]
        notes["assumed: # jobs without allocated processors ran on those they requested"] += processors > 0
    if run_s == 0 and processors > 0 and values["status"] == COMPLETED:
        notes[f"assumed: # jobs that ended within the second of their start ran for {LEAST_S:g} s"] += 1
        run_s = LEAST_S
    if run_s <= 0 or processors <= 0:
        notes["# jobs without a run time or processors are left out"] += 1
        return None
    if processors > PROCESSORS_MAX or values["submit time"] < 0:
        raise BadInput(f"{where}: {processors:.0f} processors at {values['submit time']:g} s cannot be")
    notes["# jobs did not complete and are taken as if they had run as long as they did"] += values[
        "status"
    ] in (
        0,
        CANCELLED,
    )
    cpu_s = values["average CPU time"]
    notes["# jobs without a CPU time: their run time counts"] += cpu_s <= 0
    requested_s = values["requested time"]
    notes["assumed: # jobs without a requested time requested what they ran"] += requested_s <= 0
    notes["# jobs ran longer than they had requested"] += 0 < requested_s < run_s
    task = TraceTask(duration_s=run_s, work_s=run_s, cpu_s=min(cpu_s, run_s) if cpu_s > 0 else run_s)
    return TraceJob(
        name=f"{values['job number']:.0f}",
        submit_s=values["submit time"],
        user=_label("u", values["user"]),
        queue=_label("q", values["queue"]),
        duration_s=max(0.0, values["wait time"]) + run_s,
        requested_s=requested_s if requested_s > 0 else run_s,
        think_s=max(0.0, values["think time"]),
        maps=(task,) * int(processors),
    )


def _label(letter: str, number: float) -> str | None:
    return None if number < 0 else f"{letter}{number:.0f}"


def _looks_like(start: str) -> bool:
    parts = first_line(start).split()
    numbers = sum(part.lstrip("-").replace(".", "", 1).isdigit() for part in parts)
    return start.lstrip().startswith(";") or numbers >= len(COLUMNS)


FORMAT = TraceFormat(read=read_swf, looks_like=_looks_like)
