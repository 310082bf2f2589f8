"""The file `timeline.json`: a run in Chrome's trace event format, for ui.perfetto.dev and chrome://tracing.

Policies are in the run's order. The first process of each is the whole cluster, with waiting tasks, their
mean wait and the decisions. Then each node is a process and each of its slots a thread. Utilization is a
counter, and a fault an instant event.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import islice
from pathlib import Path
from shutil import copyfileobj
from typing import TYPE_CHECKING

import numpy as np

from schedbed.deploy.results.measures.row_values import MISSING, object_texts, texts_of, to_json, value_texts
from schedbed.deploy.results.measures.series import Steps
from schedbed.deploy.results.measures.waits import first_assignments
from schedbed.deploy.results.metrics import RunTables
from schedbed.deploy.results.recorded import Recorded, assign_lanes, drawn_nodes
from schedbed.deploy.results.runfile import RunFile

if TYPE_CHECKING:
    import pandas as pd

NAME = "timeline.json"
HEARTBEATS_A_NODE_MAX = 4000
QUEUE_POINTS_MAX = 4000
SKIPS_MAX = 10_000  # The most skips per run; of more, every n-th is included.
EVENTS_A_LINE = 1000
COPY_BYTES = 1 << 20
COLORS = {
    "failed": "terrible",
    "lost": "black",
    "killed": "grey",
}  # Chrome's color names; successful attempts are colored by job.
ARGS = ("node", "locality", "state", "reason", "length", "cpu_s", "read_local_bytes", "read_remote_bytes")
ARGS += ("shuffle_bytes", "spill_bytes", "output_bytes")

Event = str
"""The JSON text of an event."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """The piece of timeline.json about one policy in one repeat, first written to the file `path`.

    `number` is that of the cluster's process. Those of the nodes in `drawn` follow it.
    """

    policy: str
    repeat: int
    title: str
    number: int
    drawn: list[str]
    path: Path


def pieces(out_dir: Path | str, run: RunFile, recorded: Recorded) -> list[Piece]:
    """Return the timeline's pieces, policy after policy, with the nodes that `lanes.drawn_nodes` selects."""
    made: list[Piece] = []
    number, names = 1, [str(node["node"]) for node in run.nodes]
    policies = {policy: place for place, policy in enumerate(run.policies, 1)}
    for record in sorted(run.runs, key=lambda record: (policies[record.policy], record.repeat)):
        title = f"{policies[record.policy]} {record.policy}"
        title += f", repeat {record.repeat + 1}" if run.repeats > 1 else ""
        drawn = drawn_nodes(names, recorded.count("attempts", record.policy, record.repeat))
        path = Path(out_dir) / f".{NAME}.{len(made)}.tmp"
        piece = Piece(
            policy=record.policy,
            repeat=record.repeat,
            title=title,
            number=number,
            drawn=drawn,
            path=path,
        )
        made.append(piece)
        number += 1 + len(drawn)
    return made


def write_piece(piece: Piece, run: RunFile, recorded: Recorded) -> None:
    """Write the events of one policy in one repeat to the file of the piece."""
    with piece.path.open("w", encoding="utf-8") as out:
        made, between = _events(piece, run, recorded), "\n"
        while some := list(islice(made, EVENTS_A_LINE)):
            out.write(between + ",".join(some))
            between = ",\n"


def join(out_dir: Path | str, written: Sequence[Piece]) -> Path:
    """Write timeline.json into a run's folder from its pieces, remove these, and return the file's path."""
    path = Path(out_dir) / NAME
    tmp = path.with_name(f".{NAME}.tmp")
    with tmp.open("wb") as out:
        out.write(b'{"displayTimeUnit":"ms","traceEvents":[')
        for piece in written:
            out.write(b"" if piece is written[0] else b",")
            with piece.path.open("rb") as file:
                copyfileobj(file, out, COPY_BYTES)
            piece.path.unlink()
        out.write(b"\n]}\n")
    tmp.replace(path)
    return path


def _events(piece: Piece, run: RunFile, recorded: Recorded) -> Iterator[Event]:
    """Yield the events of one policy in one repeat. Times are microseconds since the start of the run."""
    key = (piece.policy, piece.repeat)
    yield from _process(piece.number, f"{piece.title}: cluster")
    yield from _queue(recorded.measured(*key), piece.number)
    drawn = recorded.of_nodes(*key, piece.drawn)
    pids = {name: number for number, name in enumerate(piece.drawn, piece.number + 1)}
    yield from _decisions(drawn, piece.number, pids)
    racks = {str(node["node"]): node["rack"] for node in run.nodes}
    for node, number in pids.items():
        yield from _process(number, f"{piece.title}: {node} (rack {racks[node]})")
    yield from _slices(drawn.attempts, recorded.end_s(*key), pids)
    yield from _counters(drawn, pids)
    yield from _faults(drawn, pids)


def _process(pid: int, name: str) -> Iterator[Event]:
    yield to_json({"ph": "M", "name": "process_name", "pid": pid, "tid": 0, "args": {"name": name}})
    yield to_json(
        {"ph": "M", "name": "process_sort_index", "pid": pid, "tid": 0, "args": {"sort_index": pid}}
    )


def _thread(pid: int, tid: int, name: str) -> Event:
    return to_json({"ph": "M", "name": "thread_name", "pid": pid, "tid": tid, "args": {"name": name}})


def _queue(mine: RunTables, pid: int) -> Iterator[Event]:
    """Yield counters of waiting tasks and their mean wait so far, for the cluster's process `pid`."""
    first = first_assignments(mine.jobs, mine.attempts)
    first = first[first["runnable"].notna() & (first["assigned"] > first["runnable"])]
    times = np.unique(np.concatenate([[0.0], first["runnable"], first["assigned"]]))
    times = times[:: len(times) // QUEUE_POINTS_MAX + 1]
    waiting: dict[str, np.ndarray] = {}
    begun = np.zeros(len(times))
    for kind in ("map", "reduce"):
        rows = first[first["kind"] == kind]
        since, until = rows["runnable"].to_numpy(float), rows["assigned"].to_numpy(float)
        both, one_each = np.concatenate([since, until]), np.repeat([1.0, -1.0], len(rows))
        counts, sums = Steps.all_at(Steps.of_all(both, [one_each, np.concatenate([since, -since])]), times)
        waiting[kind], begun = counts, begun + sums
    for t, maps, reduces, sum_since in zip(times, waiting["map"], waiting["reduce"], begun, strict=True):
        count = round(float(maps + reduces))
        waited = max(0.0, float(t) - float(sum_since) / count) if count else 0.0
        queue = {"maps": round(float(maps)), "reduces": round(float(reduces))}
        yield _counter("tasks waiting", pid, t, queue)
        yield _counter("mean wait so far [s]", pid, t, {"seconds": round(waited, 3)})


def _counter(name: str, pid: int, t: float, args: Mapping[str, float]) -> Event:
    return to_json({"ph": "C", "name": name, "pid": pid, "ts": _micros(t), "args": args})


def _decisions(mine: RunTables, pid: int, pids: Mapping[str, int]) -> Iterator[Event]:
    """Yield an event for each answer about the nodes in `pids`, at the cluster's process `pid`.

    If there are very many skips, only every n-th is included.
    """
    data = mine.tables["decisions"]
    skips = np.flatnonzero((data["answer"] == "skip").to_numpy())
    step = len(skips) // SKIPS_MAX + 1
    dropped = np.setdiff1d(skips, skips[::step])
    of = f" of {len(pids)} nodes" if len(pids) < len(mine.nodes) else ""
    thread = f"decisions{of}" + (f" (one of {step} skips)" if step > 1 else "")
    yield _thread(pid, 1, thread)
    data = data.drop(index=data.index[dropped])
    texts = {name: value_texts(data[name]) for name in ("node", "job", "task", "kind")}
    args = object_texts({name: [_unless_empty(text) for text in column] for name, column in texts.items()})

    @cache
    def named(answer: str, reason: str) -> str:
        return to_json(f"{answer}: {reason}" if reason == reason and reason else answer)

    names = map(named, texts_of(data["answer"]), texts_of(data["reason"]))
    for name, ts, arg in zip(names, _all_micros(data["t"]).tolist(), args, strict=True):
        yield f'{{"ph":"i","s":"t","name":{name},"ts":{ts},"pid":{pid},"tid":1,"args":{arg}}}'


def _unless_empty(text: str) -> str:
    return MISSING if text == '""' else text


def _slices(attempts: pd.DataFrame, end_s: float, pids: Mapping[str, int]) -> Iterator[Event]:
    """Yield an event for each attempt and each phase of a reduce. A slot's first follows one with its name."""
    data = assign_lanes(attempts, end_s)
    args = object_texts({name: value_texts(data[name]) for name in ARGS})
    names, spans = value_texts(data["attempt"]), _spans(data["from_s"], data["to_s"])
    colors = {state: f',"cname":{to_json(color)}' for state, color in COLORS.items()}
    ends = list(zip(data["shuffle_end"].tolist(), data["sort_end"].tolist(), strict=True))
    starts, stops = data["from_s"].tolist(), data["to_s"].tolist()
    columns = (data["lane"].tolist(), *(texts_of(data[name]) for name in ("node", "kind", "state")))
    named: set[tuple[int, int]] = set()
    for row, (lane, node, kind, state) in enumerate(zip(*columns, strict=True)):
        pid, tid = pids[node], lane + (1 if kind == "map" else 1001)
        if (pid, tid) not in named:
            named.add((pid, tid))
            yield _thread(pid, tid, f"{kind} slot {lane + 1}")
        base = f'"pid":{pid},"tid":{tid},"cat":"{kind}"'
        color = colors.get(state, "")
        yield f'{{"ph":"X","name":{names[row]},{spans[row]},{base},"args":{args[row]}{color}}}'
        start, end = starts[row], stops[row]
        phases = (("shuffle", ends[row][0]), ("sort", ends[row][1]), ("reduce", end))
        if kind == "reduce" and all(start <= at <= end for _, at in phases):
            for phase, at in phases:
                yield f'{{"ph":"X","name":"{phase}",{_span(_micros(start), _micros(at))},{base},"args":{{}}}}'
                start = at


def _counters(mine: RunTables, pids: Mapping[str, int]) -> Iterator[Event]:
    for node, heartbeats in mine.heartbeats.groupby("node", sort=True):
        pid = pids[str(node)]
        step = len(heartbeats) // HEARTBEATS_A_NODE_MAX + 1
        few = heartbeats.iloc[::step].fillna(0.0)
        shares = [few[name].tolist() for name in ("cpu_util", "disk_util", "net_util")]
        for ts, cpu, disk, net in zip(_all_micros(few["t"]).tolist(), *shares, strict=True):
            args = f'"cpu %":{_percent(cpu)},"disk %":{_percent(disk)},"network %":{_percent(net)}'
            yield f'{{"ph":"C","name":"utilisation","pid":{pid},"ts":{ts},"args":{{{args}}}}}'


def _faults(mine: RunTables, pids: Mapping[str, int]) -> Iterator[Event]:
    for fault in mine.tables["faults"].to_dict("records"):
        nodes = str(fault["target"]).rpartition(" on ")[2].split(",")
        scopes = [{"s": "p", "pid": pids[node]} for node in nodes if node in pids]
        name = f"{fault['kind']} {fault['target']}"
        until = {} if fault["until"] != fault["until"] else {"until_s": fault["until"]}
        for scope in scopes or [{"s": "g", "pid": min(pids.values(), default=1)}]:
            event = {"ph": "i", "name": name, "ts": _micros(fault["t"]), "tid": 0, "args": until}
            yield to_json(event | scope)


def _spans(starts: pd.Series, ends: pd.Series) -> list[str]:
    """Return the members `ts` and `dur` of events between times in seconds."""
    return list(map(_span, _all_micros(starts).tolist(), _all_micros(ends).tolist()))


def _span(start: int, end: int) -> str:
    """Return the members `ts` and `dur`, from microseconds."""
    return f'"ts":{start},"dur":{max(1, end - start)}'


def _micros(t: float) -> int:
    return round(t * 1e6)


def _all_micros(times: pd.Series) -> np.ndarray:
    return np.rint(times.to_numpy(float) * 1e6).astype(np.int64)


def _percent(share: float) -> float:
    return round(100 * share, 1)
