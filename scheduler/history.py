"""The measurements of a run as Parquet tables. Rows go to part files, merged at the end or later by `merge`."""

from __future__ import annotations

import time
import zlib
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args, get_type_hints

from schedbed.scheduler.coded_columns import (
    CODED_ROWS,
    AlikeGroups,
    TableFile,
    coded_alike,
    coded_in,
    is_coded,
    joined,
    shared,
    used_texts,
)
from schedbed.scheduler.core.rows import AttemptRow, DecisionRow, JobRow
from schedbed.tasks.errors import BadInput

if TYPE_CHECKING:
    import pandas as pd

STR, FLOAT, INT, BOOL = "str", "float64", "int64", "bool"
_KINDS: dict[type, str] = {str: STR, float: FLOAT, int: INT, bool: BOOL}
_WRITTEN = {STR: "str", FLOAT: "float64", INT: "Int64", BOOL: "bool"}


def _columns(row: type[AttemptRow] | type[DecisionRow] | type[JobRow]) -> dict[str, str]:
    """Return {column: type} of a class of rows. Any column may have None."""
    types = {name: next(iter(get_args(kind)), kind) for name, kind in get_type_hints(row).items()}
    return {name: _KINDS[kind] for name, kind in types.items()}


COLUMNS: dict[str, dict[str, str]] = {
    "jobs": _columns(JobRow),
    "attempts": _columns(AttemptRow),
    "heartbeats": {
        "t": FLOAT,  # when the JobTracker received the heartbeat
        "node": STR,  # node that reported
        "running_maps": INT,  # maps running on the node
        "running_reduces": INT,  # reduces running on the node
        "cpu_util": FLOAT,  # share of the node's CPU in use since its last heartbeat, 0 to 1
        "disk_util": FLOAT,  # share of the disk's rate in use
        "net_util": FLOAT,  # share of the NIC's rate in use, the busier direction
        "memory_bytes": INT,  # memory in use by the node's attempts
        "service_s": FLOAT,  # time to answer the heartbeat
    },
    "decisions": _columns(DecisionRow),
    "blocks": {
        "block": STR,  # id of the block
        "file": STR,  # file that the block belongs to
        "node": STR,  # node that holds the replica
        "bytes": INT,  # length of the block
        "added": FLOAT,  # when the replica was created
        "removed": FLOAT,  # when the replica was removed; missing if it still exists
        "cause": STR,  # `write`, `pipeline`, `repair`, `dare`, `scarlett` and so on
    },
    "faults": {
        "t": FLOAT,  # when the fault began
        "kind": STR,  # kind of the fault, as in docs/faults.md
        "target": STR,  # what the fault affects, such as a node
        "until": FLOAT,  # when the fault ended; missing if permanent
    },
}
"""The columns of each table in order, with their types; files have `policy` and `repeat` before them."""


def places_of(table: str, *columns: str) -> list[int]:
    """Return the positions of columns in a row of the table."""
    names = list(COLUMNS[table])
    return [names.index(column) for column in columns]


PARTS = "parts"
RUN_COLUMNS = ["policy", "repeat"]
"""The first columns of each table, which say to which run a row belongs."""
ROW_GROUP_ROWS = 250_000


class History:
    """Writes the rows of one run (one policy, one repeat) to `out_dir/parts`. Not thread-safe.

    Rows stay in memory until their part file is complete: after an OSError, the write can be repeated.
    Without `part_rows`, `flush` writes after `every_s` seconds. With it, a file has this number of a table's
    rows, which limits the memory, and equal rows give equal files. `first` numbers the first file, by default
    after those there.
    """

    def __init__(
        self,
        out_dir: Path | str,
        policy: str,
        repeat: int,
        *,
        every_s: float = 3.0,
        part_rows: int | None = None,
        first: int | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._parts = Path(out_dir) / PARTS
        self._parts.mkdir(parents=True, exist_ok=True)
        self._policy, self._repeat = policy, repeat
        self._every_s, self._clock = every_s, clock
        self._part_rows = part_rows
        self._rows: dict[str, list[tuple[Any, ...]]] = {table: [] for table in COLUMNS}
        self._groups = {table: AlikeGroups(part_rows) for table in COLUMNS} if part_rows else {}
        self._last_s = clock()
        self._count = next_part_number(self._parts, slug_of(policy), repeat) if first is None else first

    def append(self, table: str, rows: Sequence[Sequence[Any]]) -> None:
        """Add rows with values ordered as `COLUMNS[table]`, None if missing. Raises ValueError."""
        width = len(COLUMNS[table])
        for row in rows:
            if len(row) != width:
                raise ValueError(f"{table}: a row has {len(row)} values, expected {width}: {row!r}")
        kept = self._rows[table]
        kept.extend(map(tuple, rows))
        if self._part_rows is not None and len(kept) >= min(self._part_rows, CODED_ROWS):
            self._write_rows(table)

    def append_frame(self, table: str, data: pd.DataFrame) -> None:
        """Add a data frame's rows; texts may be categorical. Raises ValueError if the columns differ."""
        if list(data.columns) != list(COLUMNS[table]):
            raise ValueError(f"{table}: columns are {list(data.columns)}, expected {list(COLUMNS[table])}")
        self._write_rows(table)
        import numpy as np
        import pandas as pd

        kinds = {name: _WRITTEN[kind] for name, kind in COLUMNS[table].items() if not is_coded(data[name])}
        data = data.astype(kinds)
        same = np.zeros(len(data), np.int8)
        policy: Any = pd.Categorical.from_codes(same, pd.Index([self._policy], dtype="str"))
        data.insert(0, "policy", policy)
        data.insert(1, "repeat", pd.Series(same + self._repeat, dtype="Int64"))
        if not self._groups:
            self._write_part(table, coded_alike(data))
            return
        self._groups[table].add(data)
        self._write_rows(table)

    def flush(self) -> None:
        """Write the rows in memory to part files if `every_s` seconds have passed since the last write."""
        if self._part_rows is not None or self._clock() - self._last_s < self._every_s:
            return
        self._last_s = self._clock()
        for table in COLUMNS:
            self._write_rows(table)

    def close(self) -> None:
        """Write all rows left to part files."""
        for table in COLUMNS:
            self.finish(table)

    def finish(self, table: str) -> int:
        """Write all rows of a table that are still in memory. Return the number of the next part file."""
        self._write_rows(table)
        if table in self._groups:
            for group in self._groups[table].rest():
                self._write_part(table, group)
        return self._count

    def _write_rows(self, table: str) -> None:
        """Write the table's waiting rows, or as many as make whole part files if these have a set length."""
        rows, groups = self._rows[table], self._groups.get(table)
        data = frame(table, rows, self._policy, self._repeat) if rows else None
        if groups is None:
            if data is not None:
                self._write_part(table, coded_alike(data))
                rows.clear()
            return
        if data is not None:
            groups.add(data)
            rows.clear()
        for group in groups.whole():
            self._write_part(table, group)

    def _write_part(self, table: str, data: pd.DataFrame) -> None:
        name = f"{slug_of(self._policy)}-{self._repeat}-{self._count}.parquet"
        folder = self._parts / table
        folder.mkdir(exist_ok=True)
        tmp = folder / f"{name}.tmp"
        with TableFile(tmp, data) as file:
            file.add(data)
        tmp.replace(folder / name)
        self._count += 1


def drop_parts(out_dir: Path | str, policy: str, repeat: int) -> None:
    """Remove the part files of this run, so that it can be repeated."""
    for part in (Path(out_dir) / PARTS).glob(f"*/{slug_of(policy)}-{repeat}-*"):
        part.unlink()


def frame(table: str, rows: Sequence[Sequence[Any]], policy: str = "", repeat: int = 0) -> pd.DataFrame:
    """Return rows as a data frame with the table's types, with `policy` and `repeat` first."""
    import pandas as pd

    columns = COLUMNS[table]
    values = list(zip(*rows, strict=True)) if rows else [()] * len(columns)
    data: dict[str, Any] = {"policy": [policy] * len(rows), "repeat": [repeat] * len(rows)}
    data.update(zip(columns, values, strict=True))
    kinds = {"policy": STR, "repeat": INT, **columns}
    return pd.DataFrame({name: _series(data[name], kind) for name, kind in kinds.items()})


def read_table(
    out_dir: Path | str,
    table: str,
    run: tuple[str, int] | None = None,
    groups: Sequence[int] | None = None,
    *,
    columns: Sequence[str] | None = None,
    coded: bool = False,
    keep: Callable[[pd.DataFrame], Any] | None = None,
) -> pd.DataFrame:
    """Return a merged table, or its rows of one `run`, (policy, repeat), read in groups to save memory.

    `groups` are numbers of groups, `columns` those beside `policy` and `repeat`; all by default. With
    `coded`, stored codes become categorical, sorted. `keep` returns the wanted rows of a group as an array.
    Raises BadInput if the file is missing or damaged.
    """
    names = None if columns is None else [*RUN_COLUMNS, *columns]
    read = partial(_read, run=run, groups=groups, names=names, coded=coded, keep=keep)
    return typed(_from_file(out_dir, table, read), table, names)


def groups_by_run(
    out_dir: Path | str, table: str, only: tuple[str, int] | None = None
) -> dict[tuple[str, int], dict[int, int]]:
    """Return {(policy, repeat): {number of a group: rows in it}} of a merged table. Raises BadInput.

    If `only` is known to be the single run, the rows are not read.
    """
    if only is not None:
        sizes = _from_file(out_dir, table, lambda file: [group.num_rows for group in file.row_groups])
        return {only: dict(enumerate(map(int, sizes)))}
    found: dict[tuple[str, int], dict[int, int]] = {}
    for number, counts in enumerate(_from_file(out_dir, table, _runs_by_group)):
        for (policy, repeat), count in counts.items():
            found.setdefault((policy, int(repeat)), {})[number] = int(count)
    return found


def _runs_by_group(file: Any) -> list[Any]:
    """Return, for each group of rows of an open file, the number of rows by (policy, repeat)."""
    groups = (file[number] for number in range(len(file.row_groups)))
    return [
        _group_rows(group, RUN_COLUMNS, coded=True).groupby(RUN_COLUMNS, observed=True, sort=False).size()
        for group in groups
    ]


def _group_rows(group: Any, names: Sequence[str] | None, *, coded: bool) -> pd.DataFrame:
    """Return one group's rows, with all columns or `names`."""
    codes = coded_in(group) if coded else None
    if codes and names is not None:
        codes = {name: count for name, count in codes.items() if name in names}
    return group.to_pandas(columns=None if names is None else list(names), categories=codes)


def _from_file(out_dir: Path | str, table: str, read: Callable[[Any], Any]) -> Any:
    """Return what `read` returns for a merged table. Raises BadInput if it is missing or damaged."""
    import fastparquet

    path = Path(out_dir) / f"{table}.parquet"
    if not path.is_file():
        raise BadInput(f"{path}: no such table, expected the folder of a finished run")
    try:
        with path.open("rb") as file:  # fastparquet does not close files that it opens.
            return read(fastparquet.ParquetFile(file))
    except Exception as error:
        raise BadInput(f"{path}: not a readable Parquet table of {table} ({error})") from error


def read_tables(out_dir: Path | str) -> dict[str, pd.DataFrame]:
    """Return all merged tables. Raises BadInput if one is missing or damaged."""
    return {table: read_table(out_dir, table) for table in COLUMNS}


def _read(
    file: Any,
    run: tuple[str, int] | None,
    groups: Sequence[int] | None,
    names: Sequence[str] | None,
    *,
    coded: bool,
    keep: Callable[[pd.DataFrame], Any] | None,
) -> pd.DataFrame:
    """Return a run's or all rows, one group at a time. The parameters are those of `read_table`."""
    import pandas as pd

    frames: list[pd.DataFrame] = []
    for number in range(len(file.row_groups)) if groups is None else groups:
        group = file[number]
        rows = _group_rows(group, names, coded=coded)
        if run and not (mine := (rows["policy"] == run[0]) & (rows["repeat"] == run[1])).all():
            rows = rows[mine]
        if keep is not None:
            rows = rows[keep(rows)]
        if not coded:
            rows = shared(rows)
        elif len(rows) < group.row_groups[0].num_rows:
            rows = used_texts(rows)  # All texts of a whole group are used.
        frames.append(rows)
    if coded and frames:
        return joined(frames, in_order=True)
    if frames:
        return pd.concat(frames, ignore_index=True)
    return file.to_pandas(columns=None if names is None else list(names)).iloc[:0]


def typed(
    data: pd.DataFrame, table: str, names: Sequence[str] | None = None, *, as_written: bool = False
) -> pd.DataFrame:
    """Return the columns (all or `names`) in the order and with the types of `COLUMNS`.

    With `as_written`, integers have the type in which values can be missing.
    """
    import pandas as pd

    kinds = {"policy": STR, "repeat": INT, **COLUMNS[table]}
    wanted = kinds if names is None else names
    if as_written:
        kinds = {name: _WRITTEN[kind] for name, kind in kinds.items()}
    made = {name: _plain(data[name], kind) for name, kind in kinds.items() if name in wanted}
    return pd.DataFrame(made, copy=False)


def _plain(column: pd.Series, kind: str) -> pd.Series:
    """Return the column as `kind`: integers as Int64 only if values are missing, categorical texts unchanged."""
    if kind == STR and is_coded(column):
        return column
    have = column.dtype.name
    if kind == INT:
        kind = "int64" if have == "int64" or not column.isna().any() else "Int64"
    if have == kind:
        return column
    return column.astype(kind)  # type: ignore[call-overload]


def _series(values: Sequence[Any], kind: str) -> pd.Series:
    """Return a column of Int64 (nullable, NaN missing), str, float64 or bool."""
    import pandas as pd

    if kind == INT:
        return pd.Series([None if v is None or v != v else int(v) for v in values], dtype="Int64")
    if kind == STR:
        return pd.Series([None if v is None else str(v) for v in values], dtype="str")
    return pd.Series(values, dtype=kind)  # type: ignore[call-overload]


# The names of part files: the policy, the repeat, and the number of the file.


def part_order(part: Path) -> tuple[str, int, int]:
    """Return a part file's sort key: policy, repeat, number."""
    slug, repeat, number = part.stem.rsplit("-", 2)
    return (slug, int(repeat), int(number))


def slug_of(policy: str) -> str:
    """Return a policy's name for files, with a checksum, as names may differ only in punctuation."""
    plain = "".join(c if c.isascii() and c.isalnum() else "_" for c in policy)[:40]
    return f"{plain}_{zlib.crc32(policy.encode()):08x}"


def next_part_number(parts: Path, slug: str, repeat: int) -> int:
    """Return the next part file's number, over all tables."""
    numbers = [0]
    for part in parts.glob(f"*/{slug}-{repeat}-*.parquet"):
        with suppress(ValueError):
            numbers.append(part_order(part)[2] + 1)
    return max(numbers)
