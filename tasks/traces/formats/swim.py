"""Workload files of SWIM: one job per line, with six columns, or eight with input and output paths.

In published files with paths, each line ends with a tab, an empty ninth column.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from schedbed.tasks.errors import BadInput
from schedbed.tasks.traces.text import first_line, lines
from schedbed.tasks.traces.trace import Trace, TraceFormat, TraceJob

_COLUMNS = ("job", "submit s", "inter-arrival s", "map input B", "shuffle B", "reduce output B")
_TOO_LARGE = 1e18
_NUMBER = re.compile(r"[-+]?[\d.]+(?:[eE][-+]?\d+)?")


def read_swim(path: Path) -> Trace:
    """Return the jobs of a file in order of submission. Raises BadInput for a line that is not a job."""
    jobs = [
        _job(line, path, number) for number, line in lines(path) if line and line[0] != "#" and line.strip()
    ]
    if not jobs:
        raise BadInput(
            f"{path}: no job in it, expected lines of {len(_COLUMNS)} columns: {', '.join(_COLUMNS)}"
        )
    warnings = [
        "no task counts, durations, CPU times, users or locations in a SWIM trace; "
        "submissions give the times between arrivals"
    ]
    ordered = sorted(jobs, key=lambda job: job.submit_s)
    if any(job.output_path for job in jobs):
        warnings.append(
            "output paths are not kept: a job that reads another's output finds it there from the start"
        )
    if ordered != jobs:
        warnings.append("lines not in order of submission were sorted")
    return Trace(format="swim", jobs=tuple(ordered), warnings=tuple(warnings))


def _job(line: str, path: Path, number: int) -> TraceJob:
    """Return the job in the line `line` of the file `path`, whose number is `number`."""
    parts = _parts(line)
    if len(parts) not in (6, 8):
        raise BadInput(
            f"{path}:{number}: {len(parts)} columns, expected 6 ({', '.join(_COLUMNS)}) or 8 (and two paths)"
        )
    name = parts[0].strip()
    if not name:
        raise BadInput(f"{path}:{number}: the job has no name")
    submit_s, _, read, shuffled, written = _numbers(parts, path, number)
    return TraceJob(
        name=name[:200],
        submit_s=submit_s,
        input_bytes=round(read),
        shuffle_bytes=round(shuffled),
        output_bytes=round(written),
        input_path=_path(parts, 6),
        output_path=_path(parts, 7),
    )


def _parts(line: str) -> list[str]:
    parts = line.split("\t") if "\t" in line else line.split()
    if len(parts) in (7, 9) and not parts[-1].strip():
        return parts[:-1]
    return parts


def _path(parts: list[str], place: int) -> str | None:
    return (parts[place].strip()[:500] or None) if place < len(parts) else None


def _numbers(parts: Sequence[str], path: Path, number: int) -> list[float]:
    """Return the values of the columns after the first one. Raises BadInput if one is not a number."""
    texts = parts[1:6]
    with suppress(ValueError):
        values = list(map(float, texts))
        if all(0 <= value < _TOO_LARGE for value in values):
            return values
    return [_number(text, name, f"{path}:{number}") for text, name in zip(texts, _COLUMNS[1:], strict=True)]


def _number(text: str, name: str, where: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 <= value < _TOO_LARGE:  # The comparison is also false for NaN.
        raise BadInput(f"{where}: {name}: {text.strip()[:40]!r} is not a number of 0 or more")
    return value


def _looks_like(start: str) -> bool:
    """Return whether the first line has a job's name and then at least three numbers among its columns."""
    cells = first_line(start).split("\t" if "\t" in first_line(start) else None)
    numbers = sum(_NUMBER.fullmatch(cell.strip()) is not None for cell in cells[1:6])
    return ("\t" in first_line(start) or len(cells) in (6, 8, 9)) and numbers >= min(3, len(cells) - 1) > 0


FORMAT = TraceFormat(read=read_swim, looks_like=_looks_like, last_resort=True)
