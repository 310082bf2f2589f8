"""Which format a trace file has, by its name and its first bytes, and the reader for it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from schedbed.tasks.errors import BadInput
from schedbed.tasks.traces.alibaba import BATCH_TASK, HEADED, read_alibaba
from schedbed.tasks.traces.rumen import read_rumen
from schedbed.tasks.traces.sls import JOB_KEYS, read_sls
from schedbed.tasks.traces.swf import COLUMNS, read_swf
from schedbed.tasks.traces.swim import read_swim
from schedbed.tasks.traces.text import pieces
from schedbed.tasks.traces.trace import Trace

READERS: Mapping[str, Callable[[Path], Trace]] = {
    "swim": read_swim,
    "rumen": read_rumen,
    "sls": read_sls,
    "swf": read_swf,
    "alibaba": read_alibaba,
}


def read_trace(path: Path | str, format: str | None = None) -> Trace:
    """The trace of a file in that format, or in the one it looks like; BadInput when it is none of them."""
    path = Path(path)
    name = format or detect(path)
    if name not in READERS:
        raise BadInput(f"{path}: unknown trace format {name!r}, expected one of {', '.join(READERS)}")
    return READERS[name](path)


def detect(path: Path) -> str:
    """Its format, one of READERS; BadInput says how the file begins when it is none of them."""
    if path.is_dir():
        raise BadInput(f"{path}: a folder, expected a trace file")
    start = next(pieces(path), "")[:20_000]
    if not start.strip():
        raise BadInput(f"{path}: empty, expected a trace file ({', '.join(READERS)})")
    if start.lstrip().startswith("{"):
        return _json_kind(start)
    first = next((line for line in start.splitlines() if line.strip() and line[0] not in "#;"), "")
    if start.lstrip().startswith(";") or _numbers(first.split()) >= len(COLUMNS):
        return "swf"
    cells = [cell.strip() for cell in first.split(",")]
    if set(HEADED) <= set(cells) or set(BATCH_TASK) <= set(cells) or _is_batch_task(cells):
        return "alibaba"
    if "\t" in first or len(first.split()) in (6, 8):
        return "swim"
    raise BadInput(
        f"{path}: no trace format known here (it begins {first[:40]!r}), expected {', '.join(READERS)}"
    )


def _json_kind(start: str) -> str:
    keys = (*JOB_KEYS, "workloads", "num.nodes", "nodes")
    return "sls" if '"jobID"' not in start and any(f'"{key}"' in start for key in keys) else "rumen"


def _numbers(parts: Sequence[str]) -> int:
    return sum(part.lstrip("-").replace(".", "", 1).isdigit() for part in parts)


def _is_batch_task(cells: Sequence[str]) -> bool:
    named = len(cells) == len(BATCH_TASK) and not cells[0].isdigit() and cells[4].isalpha()
    return named and cells[1].isdigit()
