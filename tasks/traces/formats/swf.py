"""The Standard Workload Format of the Parallel Workloads Archive: one job per line, with 18 numbers.

Unknown values are -1. A job on n processors becomes n maps with its run time, which start together, as on a
parallel machine, under the policy `easy` or any with the admission axis `gang`. The machine's size is in the
header, or else the most processors in use at once.
"""

from __future__ import annotations

from collections import Counter
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

COLUMNS = (
    *("job number", "submit time", "wait time", "run time", "allocated processors", "average CPU time"),
    *("used memory", "requested processors", "requested time", "requested memory", "status", "user"),
    *("group", "executable", "queue", "partition", "preceding job", "think time"),
)
PROCESSORS_MAX = 1_000_000
CANCELLED = 5


def read_swf(path: Path) -> Trace:
    """Return the jobs of a file in order of submission. Raises BadInput for a line that is not a job."""
    notes: Counter[str] = Counter()
    jobs: list[TraceJob] = []
    header: dict[str, int] = {}
    for number, line in lines(path):
        if line.lstrip().startswith(";"):
            _take_header(line, header)
        elif line.strip() and not line.lstrip().startswith(";"):
            job = _job(_values(line, f"{path}:{number}"), f"{path}:{number}", notes)
            if job is not None:
                jobs.append(job)
    if not jobs:
        raise BadInput(
            f"{path}: no job with a run time in it, expected lines of {len(COLUMNS)} numbers (SWF)"
        )
    ordered = sorted(jobs, key=lambda job: job.submit_s)
    warnings = (
        "no bytes, locations or deadlines in an SWF trace; requested memory is not kept",
        ASSUMED,
        *(what.replace("#", str(count)) for what, count in sorted(notes.items()) if count),
    )
    return Trace(format="swf", jobs=tuple(ordered), machine=_machine(header, ordered), warnings=warnings)


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
        maps=(task,) * int(processors),
    )


def _label(letter: str, number: float) -> str | None:
    return None if number < 0 else f"{letter}{number:.0f}"


def _looks_like(start: str) -> bool:
    parts = first_line(start).split()
    numbers = sum(part.lstrip("-").replace(".", "", 1).isdigit() for part in parts)
    return start.lstrip().startswith(";") or numbers >= len(COLUMNS)


FORMAT = TraceFormat(read=read_swf, looks_like=_looks_like)
