"""Conversion of the compiled loop's arrays to columns of the output tables (decisions, heartbeats, attempts, jobs)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from operator import add

import numpy as np

from schedbed.scheduler.core.rows import AttemptRow, JobRow
from schedbed.scheduler.history import ROW_GROUP_ROWS
from schedbed.scheduler.simulate.compiled import state as names
from schedbed.scheduler.simulate.compiled.arrays import Values
from schedbed.scheduler.simulate.compiled.state import State
from schedbed.scheduler.simulate.compiled.tables import QueueTexts
from schedbed.scheduler.simulate.placed_files import PlacedSplits
from schedbed.scheduler.simulate.row_frames import Column, Text
from schedbed.scheduler.simulate.tracked_nodes import SimNode
from schedbed.tasks.specs import JobSpec, TaskKind, task_id

LOCALITIES = ("off", "rack", "node", "none")
MAP, REDUCE = TaskKind
KEYS_MIN = 1 << 16
KINDS = ("map", "reduce")


class Labels:
    """The texts for the numbers in the compiled loop's arrays: ids, and reasons of decisions.

    `waits_s` has delay scheduling's two waits. `repeated` are rows of all attempts of tasks with several, and
    of parts of tasks.
    """

    def __init__(
        self,
        jobs: Sequence[JobSpec],
        nodes: Sequence[SimNode],
        waits_s: tuple[float, float],
        queues: QueueTexts | None = None,
        repeated: Sequence[AttemptRow] = (),
    ) -> None:
        import pandas as pd

        node_wait_s, rack_wait_s = waits_s
        self.repeated = repeated
        self._queues = queues
        self.jobs = pd.Index([job.job for job in jobs], dtype="str")
        self.nodes = pd.Index([node.spec.node for node in nodes], dtype="str")
        self.racks = list(dict.fromkeys(node.spec.rack for node in nodes))
        sizes = np.array([(job.maps, job.reduces) for job in jobs], np.int64).ravel()
        self._stage_ends = np.cumsum(sizes)
        self._stage_at = self._stage_ends - sizes
        self._prefixes = [task_id(job.job, kind, 0)[:-6] for job in jobs for kind in (MAP, REDUCE)]
        self._suffixes = [f"{number:06d}" for number in range(int(sizes.max(initial=0)))]
        self._templates = {
            names.NODE_LOCAL: "node-local",
            names.RACK_LOCAL: "rack-local",
            names.OFF_RACK: "off-rack",
            names.NO_PREFERENCE: "no preferred node",
            names.REDUCE_REASON: "reduce",
            names.RACK_AFTER: "rack-local after {:.1f} s",
            names.RACK_BEFORE: "rack-local, waited before",
            names.OFF_AFTER: "off-rack after {:.1f} s",
            names.OFF_BEFORE: "off-rack, waited before",
            names.WAITS_LOCAL: f"waits for a local node, up to {node_wait_s:.1f} s",
            names.WAITS_RACK: f"waits for a rack-local node, up to {rack_wait_s:.1f} s",
            names.QUEUE_FULL: "",
            names.USER_FULL: "",
        }

    def tasks(self, tasks: Values) -> list[str]:
        """Return the ids of the tasks whose numbers are in the array `tasks`."""
        stages = np.searchsorted(self._stage_ends, tasks, side="right")
        prefixes = map(self._prefixes.__getitem__, stages.tolist())
        return list(
            map(add, prefixes, map(self._suffixes.__getitem__, (tasks - self._stage_at[stages]).tolist()))
        )

    def launched(self, tasks: Values) -> Column:
        """Return ids of launched tasks, "" for -1 (no task): as codes and texts if there are any, usually many."""
        is_task = tasks >= 0
        if is_task.all():
            return self.tasks(tasks)
        codes = np.zeros(len(tasks), np.int32)
        codes[is_task] = np.arange(1, np.count_nonzero(is_task) + 1)
        return Text(codes, ["", *self.tasks(tasks[is_task])])

    def reasons(self, rows: Values) -> Text:
        """Return the reasons as codes and texts. Equal ones are formatted only once."""
        import pandas as pd

        values = _tenths(rows["value"])
        places = np.rint(values * 10).astype(np.int64)
        if (places / 10 == values).all():
            values = np.arange(places.max(initial=0) + 1) / 10
        else:
            places, values = pd.factorize(values)
        codes, found = _coded(rows["reason"].astype(np.int64) * len(values) + places)
        pairs = (divmod(key, len(values)) for key in found.tolist())
        texts = [self._templates[reason].format(float(values[place])) for reason, place in pairs]
        known = Text(codes, texts)
        return known if self._queues is None else self._queues.with_queues(rows, known)


def _coded(keys: Values) -> tuple[Values, Values]:
    """Return a code for each key, which is a number from 0 on, and the key of each code."""
    import pandas as pd

    if keys.max(initial=0) > max(len(keys), KEYS_MIN):
        return pd.factorize(keys)
    is_found = np.zeros(keys.max(initial=0) + 1, bool)
    is_found[keys] = True
    found = np.flatnonzero(is_found)
    code_of = np.zeros(len(is_found), np.int32)
    code_of[found] = np.arange(len(found))
    return code_of[keys], found


def _tenths(values: Values) -> Values:
    """Round to one decimal, so that values that print the same become equal.

    A value very close to the middle of two tenths is unchanged, since formatting may round it differently.
    """
    tenths = np.rint(values * 10)
    half_way = np.abs(np.abs(values * 10 - tenths) - 0.5) < 1e-6
    return np.where(half_way, values, tenths / 10)


def decisions(rows: Values, said: Labels) -> dict[str, Column]:
    """Return the columns of the decisions table."""
    return {
        "t": rows["t"],
        "node": Text(rows["node"], said.nodes),
        "job": Text(rows["job"], said.jobs),
        "task": said.launched(rows["task"]),
        "kind": Text(rows["kind"], KINDS),
        "answer": Text((rows["task"] < 0).astype(np.int8), ("launch", "skip")),
        "reason": said.reasons(rows),
    }


def heartbeats(rows: Values, said: Labels, decision_s: float) -> dict[str, Column]:
    """Return the columns of the heartbeats table. `decision_s` is the JobTracker's service time of each."""
    return {
        "t": rows["t"],
        "node": Text(rows["node"], said.nodes),
        "running_maps": rows["maps"],
        "running_reduces": rows["reduces"],
        "cpu_util": rows["cpu"],
        "disk_util": rows["disk"],
        "net_util": rows["net"],
        "memory_bytes": rows["memory"],
        "service_s": np.full(len(rows), decision_s),
    }


def attempts(
    state: State, said: Labels, splits: tuple[Values, Values, Values], which: Values
) -> dict[str, Column]:
    """Return the columns of the attempts table for the tasks `which`; -1 - n is row n of `said.repeated`.

    `splits` is the result of `splits_of`.
    """
    repeated = np.flatnonzero(which < 0)
    if len(repeated):
        rows = [said.repeated[-1 - number] for number in which[repeated].tolist()]
        return _with_rows(attempts(state, said, splits, np.maximum(which, 0)), repeated, rows)
    tasks = state.tasks[which]
    costs, nodes = state.costs[tasks["cost"]], tasks["node"]
    is_map, count = tasks["is_map"] > 0, len(which)
    ids = said.tasks(which)
    nothing = Text(np.zeros(count, np.int8), ("",))
    return {
        "job": Text(tasks["job"], said.jobs),
        "task": ids,
        "attempt": [f"{each}_0" for each in ids],
        "kind": Text(1 - tasks["is_map"], KINDS),
        "split_of": nothing,
        "node": Text(nodes, said.nodes),
        "rack": Text(state.nodes["rack"][nodes], said.racks),
        "locality": Text(np.where(splits[2][which], tasks["locality"], 3), LOCALITIES),
        "speculative": np.zeros(count, bool),
        "assigned": tasks["assigned"],
        "start": tasks["start"],
        "end": tasks["end"],
        "state": Text(np.zeros(count, np.int8), ("succeeded",)),
        "reason": nothing,
        "offset": splits[0][which],
        "length": splits[1][which],
        "cpu_s": (tasks["fetch_cpu"] + costs["sort_cpu"] + costs["cpu"]) * state.nodes["speed"][nodes],
        "read_local_bytes": tasks["local_bytes"],
        "read_remote_bytes": tasks["remote_bytes"],
        "shuffle_bytes": tasks["shuffle_bytes"],
        "spill_bytes": tasks["spill_bytes"],
        "output_bytes": costs["output"],
        "shuffle_end": np.where(is_map, np.nan, tasks["shuffle_end"]),
        "sort_end": np.where(is_map, np.nan, tasks["sort_end"]),
    }


def _with_rows(columns: dict[str, Column], places: Values, rows: list[AttemptRow]) -> dict[str, Column]:
    """Return the columns with other rows at the positions `places`."""
    changed: dict[str, Column] = {}
    values_of = dict(zip(AttemptRow._fields, zip(*rows, strict=True), strict=True))
    for name, column in columns.items():
        values = values_of[name]
        if isinstance(column, list):
            for place, value in zip(places.tolist(), values, strict=True):
                column[place] = value
        elif isinstance(column, Text):
            codes = column.codes.astype(np.int32)
            codes[places] = np.arange(len(column.texts), len(column.texts) + len(rows))
            column = Text(codes, [*column.texts, *values])
        else:
            column[places] = [np.nan if value is None else value for value in values]
        changed[name] = column
    return changed


@dataclass(frozen=True, slots=True)
class AttemptRanges:
    """Rows of the attempts table, a `RowRanges`; see `attempts`."""

    state: State
    said: Labels
    splits: tuple[Values, Values, Values]
    which: Values

    def __len__(self) -> int:
        return len(self.which)

    def between(self, low: int, high: int) -> Iterator[dict[str, Column]]:
        """Implement `RowRanges.between`. A batch is a group of rows of a table."""
        for begin in range(low, high, ROW_GROUP_ROWS):
            rows = self.which[begin : min(begin + ROW_GROUP_ROWS, high)]
            yield attempts(self.state, self.said, self.splits, rows)


def splits_of(jobs: Sequence[JobSpec]) -> tuple[Values, Values, Values]:
    """Return all tasks' offsets and lengths of splits in bytes, and whether each has a location or needs none."""
    offsets: list[Values] = [np.zeros(0, np.int64)]
    lengths: list[Values] = [np.zeros(0, np.int64)]
    placed: list[Values] = [np.zeros(0, bool)]
    for job in jobs:
        none = np.zeros(job.reduces, np.int64)
        splits = job.splits
        if isinstance(splits, PlacedSplits):
            offsets += [splits.file.offsets, none]
            lengths += [np.array(splits.file.lengths, np.int64), none]
            placed.append(np.ones(len(splits) + job.reduces, bool))
        else:
            offsets += [np.array([split.offset for split in splits], np.int64), none]
            lengths += [np.array([split.length for split in splits], np.int64), none]
            located = [bool(split.hosts) or not split.length for split in splits]
            placed.append(np.array([*located, *[True] * job.reduces], bool))
    return np.concatenate(offsets), np.concatenate(lengths), np.concatenate(placed)


def job_rows(state: State, jobs: Sequence[JobSpec], numbers: Values, lengths: Values) -> Iterator[JobRow]:
    """Yield the jobs table's rows for ended jobs. `lengths` are the bytes of all tasks' splits."""
    entries = state.jobs[numbers]
    until = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths, dtype=np.int64)])
    read = until[entries["first"] + entries["maps"]] - until[entries["first"]]
    maps = state.stages["total"][2 * numbers]
    columns = (entries["started"], entries["start"], entries["finish"], maps, read, entries["output_bytes"])
    for number, started, start, finish, maps, input_bytes, output_bytes in zip(
        numbers.tolist(), *(column.tolist() for column in columns), strict=True
    ):
        spec = jobs[number]
        yield JobRow(
            spec.job,
            spec.name,
            spec.user,
            spec.queue,
            spec.app,
            spec.submit_s,
            start if started else None,
            finish,
            spec.deadline_s,
            maps,
            spec.reduces,
            input_bytes,
            output_bytes,
            "succeeded",
        )
