"""Reading of a run that goes on: its writer's files are linked into a temporary folder and merged there."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from schedbed.deploy.results.record_check import merge_parts
from schedbed.deploy.results.runfile import RunFile
from schedbed.deploy.workspace import base_folder, is_locked, owned
from schedbed.scheduler.history import COLUMNS, PARTS
from schedbed.tasks.errors import BadInput


@contextmanager
def readable(folder: Path | str) -> Iterator[Path]:
    """Yield the folder of a run or, while the run goes on, a temporary folder with its rows so far.

    A note on stderr then says how much of the run this is. Raises BadInput if nothing was measured yet.
    """
    out = Path(folder)
    if not is_locked(out):
        yield out
        return
    with TemporaryDirectory(prefix=owned("view-"), dir=base_folder()) as base:
        tries = 0
        while is_locked(out):
            copy = Path(base) / str(tries)
            tries += 1
            run = RunFile.load(out)
            if not run.runs:
                raise BadInput(f"{out}: its run has only begun, expected a run with rows")
            # The writer may have merged its part files meanwhile, and then some were missing here.
            if _linked(out, copy, run) and is_locked(out):
                ended = sum(record.state != "running" for record in run.runs)
                whole = len(run.policies) * run.repeats
                print(f"note: {out}: the run goes on; so far, {ended} of {whole} runs", file=sys.stderr)
                yield copy
                return
        yield out


def _linked(out: Path, copy: Path, run: RunFile) -> bool:
    """Make tables in `copy` from links to the files in `out`. Return whether these stayed while they were read."""
    tables = list((out / PARTS).glob("*/*.parquet")) if not run.tables else []
    for path in tables or [out / f"{table}.parquet" for table in COLUMNS if run.tables]:
        link = copy / path.relative_to(out)
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(path.absolute())
    (copy if run.tables else copy / PARTS).mkdir(parents=True, exist_ok=True)
    run.save(copy)
    merge_parts(copy, run)
    return all(path.exists() for path in tables)
