"""Merging of a run's part files into one Parquet file for each table."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

from schedbed.scheduler import history
from schedbed.scheduler.coded_columns import AlikeGroups, TableFile, checked_groups, coded_in
from schedbed.scheduler.history import COLUMNS, PARTS, frame, part_order, typed

if TYPE_CHECKING:
    import pandas as pd


MergeAll = Callable[[Sequence[Callable[[], list[str]]]], list[list[str]]]
"""Calls all functions, and returns their results in order."""


def merge(
    out_dir: Path | str,
    written: Callable[[list[str]], None] | None = None,
    merge_all: MergeAll = lambda merges: [merge_one() for merge_one in merges],
) -> list[str]:
    """Merge the part files of each table into `out_dir/<table>.parquet`. Return the unreadable ones' names.

    These move to `out_dir/parts.broken`, others are removed after `written` was called with the names; after
    an interruption, the next merge calls it again. Merging again changes nothing. `merge_all` calls the
    functions that each merge one table.
    """
    out = Path(out_dir)
    parts, done = out / PARTS, out / f"{PARTS}.merged"
    shutil.rmtree(done, ignore_errors=True)
    targets = {table: out / f"{table}.parquet" for table in COLUMNS}
    merges = {
        table: partial(_merge_table, table, parts / table, target)
        for table, target in targets.items()
        if parts.is_dir() or not target.exists()
    }
    largest_first = sorted(merges, key=lambda table: -folder_bytes(parts / table))
    found = dict(zip(largest_first, merge_all([merges[table] for table in largest_first]), strict=True))
    broken = [name for table in merges for name in found[table]]
    for name in broken:
        kept = out / f"{PARTS}.broken" / name
        kept.parent.mkdir(parents=True, exist_ok=True)
        (parts / name).replace(kept)
    if written is not None:
        written(broken)
    if parts.is_dir():
        parts.replace(done)
        shutil.rmtree(done, ignore_errors=True)
    return broken


def folder_bytes(folder: Path) -> int:
    """Return the bytes of all files below a folder, 0 without one."""
    return sum(path.stat().st_size for path in folder.rglob("*"))


def _merge_table(table: str, folder: Path, target: Path) -> list[str]:
    """Write the rows of part files to `target`. Return the names of unreadable ones.

    The file depends only on each run's rows, not on how part files divided or stored them. A run of at least
    ROW_GROUP_ROWS rows begins a group, so that its part files, and a table's only one, can be copied.
    """
    broken = sorted(f"{table}/{torn.name}" for torn in folder.glob("*.tmp"))
    groups = AlikeGroups(history.ROW_GROUP_ROWS)
    tmp = target.with_name(f".{target.name}.tmp")
    with TableFile(tmp, frame(table, [])) as out:
        parts = sorted(folder.glob("*.parquet"), key=part_order)
        for _, of_run in groupby(parts, key=lambda part: part_order(part)[:2]):
            counts = {part: _count(part) for part in of_run}
            if sum(counts.values()) >= history.ROW_GROUP_ROWS:
                _add_all(out, groups.rest())
            for part, rows in counts.items():
                is_whole = rows == history.ROW_GROUP_ROWS or (
                    rows < history.ROW_GROUP_ROWS and len(parts) == 1
                )
                try:
                    data = checked_groups(part) if is_whole and not len(groups) else _read(part, table)
                except Exception:  # A damaged file can fail anywhere inside the reader.
                    broken.append(f"{table}/{part.name}")
                    continue
                if isinstance(data, tuple):
                    out.add_copy(*data)
                    continue
                groups.add(data)
                _add_all(out, groups.whole())
        _add_all(out, groups.rest())
    tmp.replace(target)
    return broken


def _add_all(out: TableFile, groups: Iterator[pd.DataFrame]) -> None:
    for group in groups:
        out.add(group)


def _count(part: Path) -> int:
    """Return the number of rows of a part file, or 0 if it is not readable."""
    import fastparquet

    try:
        with part.open("rb") as file:  # fastparquet does not close files that it opens.
            return int(fastparquet.ParquetFile(file).count())
    except Exception:  # A damaged file can fail anywhere inside the reader.
        return 0


def _read(part: Path, table: str) -> pd.DataFrame:
    """Return a part file's rows: integers can be missing, texts categorical."""
    import fastparquet

    with part.open("rb") as file:
        rows = fastparquet.ParquetFile(file)
        return typed(rows.to_pandas(categories=coded_in(rows)), table, as_written=True)
