"""A simulated run, perhaps in another process: its rows go to the history, which writes tables, and progress
is shown.
"""

from __future__ import annotations

import time
from base64 import b64decode, b64encode
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from schedbed.deploy.display.progress import Progress, RunProgress
from schedbed.deploy.options import no_interrupts
from schedbed.deploy.results.record_check import seal
from schedbed.deploy.results.runfile import RunFile, RunRecord
from schedbed.deploy.results.shared_work import share
from schedbed.deploy.scenario.resolved import PolicyChoice
from schedbed.deploy.worker_fork import RESULT, STOPPED, CutOff, Send, WorkEnd
from schedbed.scheduler.core.rows import AttemptRow, DecisionRow, JobRow
from schedbed.scheduler.core.states import AS_PLANNED
from schedbed.scheduler.history import COLUMNS, ROW_GROUP_ROWS, History, drop_parts
from schedbed.scheduler.registry.policy_spec import is_policy_file
from schedbed.scheduler.simulate.row_frames import RowRanges, Text, as_frame

if TYPE_CHECKING:
    import pandas as pd

SHOW_S = 0.2
BATCH_ROWS = 2_000
"""The number of rows passed to the history at a time, since one call per row would be slow."""


class RowTarget(Protocol):
    """Receives table rows: the history, or a connection to its process."""

    def append(self, table: str, rows: list[tuple[Any, ...]]) -> None:
        """Append rows to this table."""
        ...

    def append_frame(self, table: str, data: pd.DataFrame) -> None:
        """Append a data frame's rows to this table."""
        ...


class SentRows:
    """A `RowTarget` that sends rows and progress to the parent process, also from several threads."""

    def __init__(self, send: Send) -> None:
        self._send, self._lock = send, Lock()
        self._last_s = 0.0

    def append(self, table: str, rows: list[tuple[Any, ...]]) -> None:
        self._send_alone("rows", table, rows)

    def append_frame(self, table: str, data: pd.DataFrame) -> None:
        self._send_alone("frame", table, pack(data))

    def show(self, now_s: float, ends: int) -> None:
        """Send the virtual time `now_s` and the number of ended attempts, at most a few times per second."""
        if time.monotonic() - self._last_s > SHOW_S:
            self._last_s = time.monotonic()
            self._send_alone("show", now_s, ends)

    def _send_alone(self, *message: Any) -> None:
        with self._lock:  # Parts of two messages would mix.
            self._send(message)


@dataclass(slots=True)
class SimulationEnd:
    """The end of a simulation, copied by `OneRun.close` to the `RunRecord` except `ends`, of attempts.

    `findings` are reports of the policy by topic.
    """

    state: str = "interrupted"
    note: str = ""
    duration_s: float = 0.0
    ends: int = 0
    findings: dict[str, Any] = field(default_factory=dict)
    rates: dict[str, int] = field(default_factory=dict)


class HistoryRows:
    """Passes a simulation's rows in batches to the history.

    With `at_once` above 1, for which the history must be that of `run`, that many processes write a large
    table's rows.
    """

    def __init__(self, history: RowTarget, run: OneRun | None = None, at_once: int = 1) -> None:
        self._history, self._run, self._at_once = history, run, at_once
        self._waiting: dict[str, list[tuple[Any, ...]]] = {table: [] for table in COLUMNS}
        self.bad_jobs: list[str] = []

    def _take(self, table: str, row: tuple[Any, ...]) -> None:
        rows = self._waiting[table]
        rows.append(row)
        if len(rows) >= BATCH_ROWS:
            self._pass_on(table)

    def _pass_on(self, table: str) -> None:
        self._history.append(table, self._waiting[table])
        self._waiting[table].clear()

    def decision(self, row: DecisionRow) -> None:
        self._take("decisions", row)

    def attempt(self, row: AttemptRow) -> None:
        self._take("attempts", row)

    def job(self, row: JobRow) -> None:
        """Implement `Sink.job`: queue the row for the jobs table, and record a job that makes the run fail."""
        if row.state not in AS_PLANNED:
            self.bad_jobs.append(f"{row.job} {row.state}")
        self._take("jobs", row)

    def heartbeat(self, row: tuple[object, ...]) -> None:
        self._take("heartbeats", row)

    def block(self, row: tuple[object, ...]) -> None:
        self._take("blocks", row)

    def fault(self, row: tuple[object, ...]) -> None:
        self._take("faults", row)

    def columns(self, table: str, data: pd.DataFrame) -> None:
        """Append a data frame's rows after those queued for the table."""
        self._pass_on(table)
        self._history.append_frame(table, data)

    def shares(self, count: int) -> bool:
        """Return whether `ranges` makes such a table in several processes."""
        return self._run is not None and self._at_once > 1 and count > self._at_once * (ROW_GROUP_ROWS - 1)

    def ranges(self, table: str, rows: RowRanges) -> None:
        """Append rows to a table, after the rows that are queued for it. There must be no others later."""
        run, count = self._run, len(rows)
        if run is None or not self.shares(count):
            for data in rows.between(0, count):
                self.columns(table, as_frame(table, data))
            return
        each = -(-count // (self._at_once * ROW_GROUP_ROWS)) * ROW_GROUP_ROWS
        self._pass_on(table)
        first, parts = run.history.finish(table), each // ROW_GROUP_ROWS

        def write(place: int) -> None:
            history = run.new_history(first + place * parts)
            for data in rows.between(place * each, min((place + 1) * each, count)):
                history.append_frame(table, as_frame(table, data))
            history.close()

        share([partial(write, place) for place in range(-(-count // each))], self._at_once)

    def flush(self) -> None:
        """Pass all queued rows to the history."""
        for table in self._waiting:
            self._pass_on(table)


@dataclass(slots=True, kw_only=True)
class OneRun:
    """A run of a policy in a repeat, in the process that writes results: record, history and progress
    display.

    `place` has the folder of the results, and the record and the display of all runs.
    """

    choice: PolicyChoice
    repeat: int
    label: str
    place: tuple[Path, RunFile, Progress]
    ended: SimulationEnd = field(default_factory=SimulationEnd)
    history: History = field(init=False)
    _record: RunRecord | None = None
    _shown: RunProgress = field(init=False)

    @property
    def is_of_file(self) -> bool:
        """Return whether the policy is a user's file, so that it must run in a separate process."""
        return self.choice.make is None and is_policy_file(self.choice.spec)

    def new_history(self, first: int | None = None) -> History:
        """Return a new writer of this run's tables. `first` is as in `History`."""
        return History(self.place[0], self.choice.spec, self.repeat, part_rows=ROW_GROUP_ROWS, first=first)

    def begin(self) -> None:
        """Begin the run's record and display, after deleting rows of an earlier begin or of another run's policy."""
        folder, record, progress = self.place
        self.ended = SimulationEnd()
        drop_parts(folder, self.choice.spec, self.repeat)
        if self._record is None:
            self._shown = progress.begin(self.label)
            self._record = RunRecord(policy=self.choice.spec, repeat=self.repeat, epoch_s=time.time())
            record.runs.append(self._record)
        self.history = self.new_history()

    def take(self, message: Any) -> None:
        """Handle a message from the process that simulates the run. Raises CutOff for an unknown message."""
        try:
            match message:
                case ["rows", table, rows]:
                    self.history.append(table, rows)
                case ["frame", table, columns]:
                    self.history.append_frame(table, unpack(table, columns))
                case ["show", now_s, ends]:
                    self.show(float(now_s), int(ends))
                case ["ended", said]:
                    self.ended = SimulationEnd(**said)
                case _:
                    raise ValueError("unknown")
        except (KeyError, TypeError, ValueError) as error:  # A user's code may have written to the pipe.
            raise CutOff(f"the policy's process sent what is no message: {error}") from None

    def show(self, now_s: float, ends: int) -> None:
        """Show the virtual time in s and the number of ended attempts."""
        self.ended.duration_s, self.ended.ends = now_s, ends
        self._shown.show(now_s, ends)

    def end(self, end: WorkEnd) -> None:
        """Record how the process of the simulation ended, and close the run."""
        if end.kind == STOPPED:
            self.ended.state, self.ended.note = "interrupted", end.value
        elif end.kind != RESULT:
            self.ended.state, self.ended.note = "failed", end.value
        self.close()

    def close(self) -> None:
        """Write the remaining rows and the record of the run, and end its display."""
        folder, record, _ = self.place
        assert self._record is not None
        ended, kept = self.ended, self._record
        kept.state, kept.note, kept.findings = ended.state, ended.note, ended.findings
        kept.duration_s, kept.rates = ended.duration_s, ended.rates
        try:
            with no_interrupts():
                self.history.close()
                seal(folder, kept)
                self._shown.end(self.ended.duration_s, self.ended.ends)
        finally:
            record.save(folder)


# Data frames as JSON values, with the numbers of a column as one text. A policy's process sends them to its
# parent.
#
# The parent trusts no process that runs a user's code: it accepts only columns of a known table and numbers
# of known types, all of one length.

NUMBERS = ("<f8", "<i8", "<i4", "<i2", "|i1", "|b1")
"""The types of numbers that are accepted, as numpy writes them."""


def pack(data: pd.DataFrame) -> dict[str, Any]:
    """Return the columns as JSON values.

    A column of numbers becomes [type, text], a categorical one [type, text, texts], and other texts a list of
    one list.
    """
    return {name: _pack_column(data[name]) for name in data.columns}


def _pack_column(column: pd.Series[Any]) -> list[Any]:
    if column.dtype == "category":
        return [*_pack_numbers(column.cat.codes.to_numpy()), column.cat.categories.tolist()]
    if column.dtype.kind in "fib":
        return _pack_numbers(column.to_numpy())
    return [column.tolist()]


def _pack_numbers(values: Any) -> list[str]:
    return [values.dtype.str, b64encode(values.tobytes()).decode("ascii")]


def unpack(table: str, columns: Any) -> pd.DataFrame:
    """Undo `pack`. Raises KeyError, TypeError or ValueError for what it cannot have returned."""
    found = {name: _unpack_column(columns[name]) for name in COLUMNS[table]}
    data = as_frame(table, found)
    if len(found) != len(columns):
        raise ValueError(f"{table} has other columns")
    return data


def _unpack_column(column: Any) -> Any:
    match column:
        case [str(kind), str(text)]:
            return _numbers(kind, text)
        case [str(kind), str(text), [*texts]] if kind[1:2] == "i":
            codes = _numbers(kind, text)
            if len(codes) and not 0 <= codes.min() <= codes.max() < len(texts):
                raise ValueError("a text has no code")
            return Text(codes, _texts(texts))
        case [[*texts]]:
            return _texts(texts)
        case _:
            raise ValueError("no column")


def _numbers(kind: str, text: str) -> Any:
    if kind not in NUMBERS:
        raise ValueError(f"no numbers of the type {kind:.9}")
    return np.frombuffer(b64decode(text, validate=True), kind)


def _texts(texts: list[Any]) -> list[str]:
    if not all(isinstance(text, str) for text in texts):
        raise TypeError("a text is none")
    return texts
