"""Reading of trace files in any format, and detection of the format from the beginning of a file."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path

from schedbed.tasks.discover import declared
from schedbed.tasks.errors import BadInput
from schedbed.tasks.traces.formats import NAMES
from schedbed.tasks.traces.text import files_of, first_line, pieces
from schedbed.tasks.traces.trace import Trace, TraceFormat


def read_trace(path: Path | str, format: str | None = None) -> Trace:
    """Read a trace in the given or detected format. Raises BadInput."""
    path = Path(path)
    name = format or detect(path)
    if name not in NAMES:
        raise BadInput(f"{path}: unknown trace format {name!r}, expected one of {', '.join(NAMES)}")
    read = formats()[name].read
    try:
        return read(path)
    except BadInput:
        for file in files_of(path) if path.is_dir() else ():
            _raise_places(read, file)
        raise


def _raise_places(read: Callable[[Path], Trace], file: Path) -> None:
    """Raise BadInput if a file of a folder has an error at a place in it."""
    try:
        read(file)
    except BadInput as error:
        if str(error).startswith(f"{file}:") and not str(error).startswith(f"{file}: no "):
            raise


def detect(path: Path) -> str:
    """Return the name of a trace's format. Raises BadInput with the file's beginning."""
    if path.is_dir():
        found = {file: detect(file) for file in files_of(path) if file.stat().st_size}
        if not found:
            raise BadInput(f"{path}: a folder without traces, expected files of {', '.join(NAMES)}")
        if len(names := sorted(set(found.values()))) > 1:
            some = ", ".join(
                f"{next(file for file in found if found[file] == name)} {name}" for name in names
            )
            raise BadInput(f"{path}: traces of several formats, expected one: {some}")
        return names[0]
    known = formats()  # Their modules say how binary files are read.
    start = next(pieces(path), "")[:20_000]
    if not start.strip():
        raise BadInput(f"{path}: empty, expected a trace file ({', '.join(NAMES)})")
    for name, format in sorted(known.items(), key=lambda item: item[1].last_resort):
        if format.looks_like(start):
            return name
    shown, hint = first_line(start)[:40], ""
    if start.lstrip().startswith(("{", "[")):
        hint = ". JSON is rumen with jobID, spark with Event, sls with am.type, one object after another"
    elif "\t" in first_line(start):
        hint = ". Columns between tabs are swim, with five numbers after the job's name"
    raise BadInput(
        f"{path}: no trace format known here (it begins {shown!r}), expected {', '.join(NAMES)}{hint}"
    )


@cache
def formats() -> Mapping[str, TraceFormat]:
    found = declared("schedbed.tasks.traces.formats", "FORMAT", TraceFormat)
    return dict(zip(NAMES, found, strict=True))
