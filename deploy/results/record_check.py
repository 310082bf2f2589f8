"""Checks that a run's tables are complete and unchanged, based on row counts and checksums in run.json."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from schedbed.deploy.results.measures.row_values import texts_of
from schedbed.deploy.results.referee import refuse_impossible
from schedbed.deploy.results.runfile import RunFile, RunRecord, TableRecord
from schedbed.deploy.results.shared_work import cores_for, share
from schedbed.deploy.workspace import is_locked
from schedbed.scheduler.core.states import AS_PLANNED
from schedbed.scheduler.history import COLUMNS, PARTS, read_table, slug_of
from schedbed.scheduler.part_merge import folder_bytes, merge
from schedbed.tasks.errors import BadInput

SHOWN = 20
"""The most jobs named in one line."""


def open_record(folder: Path | str) -> RunFile:
    """Check a finished run's tables. Return its record. Print a note for each damaged part file.

    Raises BadInput if run.json or a table is missing or has changed, and RunFailed for impossible rows.
    """
    run = RunFile.load(folder)
    check_tables(folder, run)
    refuse_impossible(folder, run)
    for part in run.left_out:
        print(f"note: {folder}: damaged and left out: {part}", file=sys.stderr)
    return run


def check_tables(folder: Path | str, run: RunFile) -> None:
    """Raise BadInput if a table is missing or has changed since it was written. The message lists such tables."""
    if not run.tables:
        wanted = (
            "the end of the run that writes there"
            if is_locked(folder)
            else f"`schedbed report {folder}` first"
            if (Path(folder) / PARTS).is_dir()
            else "the rows and sha256 of each table in run.json"
        )
        raise BadInput(f"{folder}: the tables of this run were never completed, expected {wanted}")
    faults = [fault for table in COLUMNS for fault in _faults(Path(folder), table, run.tables.get(table))]
    if faults:
        raise BadInput(f"{folder}: damaged: {'; '.join(faults)}")


def merge_parts(folder: Path | str, run: RunFile) -> None:
    """Merge part files of tables, and store row counts, checksums and damaged parts, left out, in run.json.

    If run.json has the checksums of tables already, or without part files, only check the tables. All cores
    share the tables of a large simulation. Raises BadInput if a table is missing or has changed.
    """
    if run.tables or (run.runs and not (Path(folder) / PARTS).is_dir()):
        check_tables(folder, run)
        return

    for record in run.runs:
        if record.parts:
            record.rewritten, record.parts = _rewritten(Path(folder), record), {}

    do_all = partial(share, at_once=cores_for(run, folder_bytes(Path(folder) / PARTS)))

    def note(broken: list[str]) -> None:
        run.left_out = sorted({*run.left_out, *broken})
        found = do_all([partial(_measured, Path(folder) / f"{table}.parquet") for table in COLUMNS])
        run.tables = {
            table: TableRecord(rows=rows, sha256=sha256)
            for table, (rows, sha256) in zip(COLUMNS, found, strict=True)
        }
        run.save(folder)

    merge(folder, note, do_all)


def seal(folder: Path | str, record: RunRecord) -> None:
    """Note the part files of a run that has ended, which nobody may write to any more."""
    record.parts = {name: _sha256(path) for name, path in _parts_of(Path(folder), record).items()}


def _parts_of(folder: Path, record: RunRecord) -> dict[str, Path]:
    names = f"*/{slug_of(record.policy)}-{record.repeat}-*.parquet"
    return {f"{path.parent.name}/{path.name}": path for path in (folder / PARTS).glob(names)}


def _rewritten(folder: Path, record: RunRecord) -> list[str]:
    """Return the part files of a run that are no longer, or not yet, those of its end."""
    found = {name: _sha256(path) for name, path in _parts_of(folder, record).items()}
    return sorted(name for name, _ in found.items() ^ record.parts.items())


def failures(folder: Path | str, run: RunFile) -> list[str]:
    """Return a line for each run that failed, for each job that did not succeed, and for each damaged part file.

    A job that ran for longer than requested, and was ended by the policy for this, is no failure of the run.
    """
    jobs = read_table(folder, "jobs")
    found: list[str] = []
    for record in run.runs:
        if record.state not in ("succeeded", "interrupted"):
            found.append(f"{record.policy}: {record.note or record.state}")
        elif record.state == "succeeded":
            mine = jobs[(jobs["policy"] == record.policy) & (jobs["repeat"] == record.repeat)]
            states = dict(zip(texts_of(mine["job"]), texts_of(mine["state"]), strict=True))
            found += [f"{record.policy}: {line}" for line in _unlike_plan(run, record, states)]
    found += [f"damaged and left out: {part}" for part in run.left_out]
    return found


def _unlike_plan(run: RunFile, record: RunRecord, states: dict[str, str]) -> Iterator[str]:
    bad = [f"{job} {state}" for job, state in states.items() if state not in AS_PLANNED]
    lost = [job for job in run.jobs if job not in states]
    if run.jobs and bad:
        yield shortened(bad)
    if lost:
        yield f"{len(lost)} of {len(run.jobs)} planned jobs have no row: {shortened(lost, ', ')}"


def shortened(lines: list[str], between: str = "; ") -> str:
    """Join the first `SHOWN` lines, with the number of the others at the end."""
    more = f"{between}and {len(lines) - SHOWN} more" if len(lines) > SHOWN else ""
    return between.join(lines[:SHOWN]) + more


def _measured(path: Path) -> tuple[int, str]:
    """Return a table file's number of rows and checksum."""
    import fastparquet

    with path.open("rb") as file:
        rows = int(fastparquet.ParquetFile(file).count())
    return rows, _sha256(path)


def _faults(folder: Path, table: str, wanted: TableRecord | None) -> Iterator[str]:
    path = folder / f"{table}.parquet"
    if wanted is None:
        yield f"run.json says nothing of {path.name}"
    elif not path.exists():
        yield f"{path.name} is missing ({wanted.rows} rows)"
    elif not path.is_file():
        yield f"{path.name} is not a file"
    else:
        try:
            same = _sha256(path) == wanted.sha256
        except OSError as error:
            yield f"{path.name} cannot be read ({error.strerror})"
            return
        if not same:
            yield f"{path.name} is not what was written ({wanted.rows} rows)"


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
