"""The cluster on which a trace was recorded: hosts, slots and settings, as far as the trace contains them.

Formats whose reader sees all of it set `Trace.recording`. A Rumen trace is read a second time here.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from schedbed.tasks.errors import BadInput
from schedbed.tasks.traces.jsonstream import objects
from schedbed.tasks.traces.trace import Recording, Trace, TracedMachine

NODES_PER_HEARTBEAT_SECOND = 100
HEARTBEAT_LEAST_S = 3.0
"""As in JobTracker.getNextHeartbeatInterval of Hadoop 0.20: 100 heartbeats/s in total, at least 3 s."""
_UNKNOWN_RACK = "default-rack"
_KINDS = {"mapTasks": "map", "reduceTasks": "reduce"}
_SLOTS = "mapreduce.tasktracker.{}.tasks.maximum"


@dataclass(slots=True)
class _Seen:
    """The facts about the recorded cluster that have been found so far in a trace."""

    racks: dict[str, str] = field(default_factory=dict)  # Rack by host.
    spans: dict[tuple[str, str], list[tuple[int, int]]] = field(default_factory=lambda: defaultdict(list))
    settings: dict[str, str] = field(default_factory=dict)

    def host(self, rack: str | None, name: str) -> None:
        if self.racks.get(name, _UNKNOWN_RACK) == _UNKNOWN_RACK:
            self.racks[name] = rack or _UNKNOWN_RACK


def recording_of(trace: Trace, path: Path) -> Recording:
    """Return the cluster of a trace that was read from `path`. Raises BadInput if the format does not tell it."""
    if trace.format == "rumen" and trace.jobs:
        return read_recording(path)
    if trace.recording is None:
        raise BadInput(
            f"{path}: {trace.format} does not say hosts, slots and times, expected rumen, spark, slurm or swf"
        )
    return trace.recording


def on_machine(machine: TracedMachine, heartbeat_s: float) -> Recording:
    """Return the recording of jobs on processors that all nodes have equally."""
    slots = -(-machine.processors // machine.nodes)
    why = f"{machine.nodes} nodes of {slots} slots: {machine.why}"
    return Recording(
        hosts=tuple((_UNKNOWN_RACK, f"node{number:06d}") for number in range(1, machine.nodes + 1)),
        map_slots=slots,
        reduce_slots=0,
        heartbeat_s=heartbeat_s,
        why=(why,),
    )


def read_recording(path: Path) -> Recording:
    """Return the cluster of a Rumen trace. Raises BadInput if no attempt has a host and times."""
    seen = _Seen()
    for _, raw in objects(path):
        _see(raw, seen)
    if not seen.spans:
        raise BadInput(f"{path}: no attempt with a host and times, expected a Rumen trace of a recorded run")
    hosts = tuple(sorted((rack, name) for name, rack in seen.racks.items()))
    slots, why = {}, [f"{len(hosts)} hosts that ran attempts or held inputs"]
    for kind in _KINDS.values():
        said = seen.settings.get(_SLOTS.format(kind), "")
        slots[kind] = int(said) if said.isdecimal() and 0 < int(said) < 1000 else _most_at_once(seen, kind)
        source = (
            "as the recording's settings say" if said.isdecimal() else "the most that ran at a time on a host"
        )
        why.append(f"{slots[kind]} {kind} slots a node, {source}")
    heartbeat_s = max(HEARTBEAT_LEAST_S, float(-(-len(hosts) // NODES_PER_HEARTBEAT_SECOND)))
    why.append(f"a heartbeat each {heartbeat_s:g} s, by Hadoop's rule for {len(hosts)} nodes")
    band = seen.settings.get("mapreduce.tasktracker.outofband.heartbeat")
    return Recording(
        hosts=hosts,
        map_slots=slots["map"],
        reduce_slots=max(1, slots["reduce"]),
        heartbeat_s=heartbeat_s,
        out_of_band=None if band is None else band == "true",
        scheduler=seen.settings.get("mapreduce.jobtracker.taskscheduler", "").rpartition(".")[2] or None,
        why=tuple(why),
    )


def _see(raw: Mapping[str, Any], seen: _Seen) -> None:
    settings = raw.get("jobProperties")
    if isinstance(settings, dict) and not seen.settings:
        seen.settings = {str(key): str(value) for key, value in settings.items()}
    for key, kind in _KINDS.items():
        for task in _dicts(raw.get(key)):
            for place in _dicts(task.get("preferredLocations")):
                layers = place.get("layers")
                if isinstance(layers, list) and len(layers) >= 2:
                    seen.host(_plain(layers[-2]), _plain(layers[-1]))
            for attempt in _dicts(task.get("attempts")):
                _see_attempt(attempt, kind, seen)


def _see_attempt(attempt: Mapping[str, Any], kind: str, seen: _Seen) -> None:
    where, begin, end = attempt.get("hostName"), attempt.get("startTime"), attempt.get("finishTime")
    if not isinstance(where, str) or not isinstance(begin, int) or not isinstance(end, int):
        return
    if 0 < begin <= end:
        rack, _, name = _plain(where).strip("/").rpartition("/")
        seen.host(rack, name)
        seen.spans[kind, name].append((begin, end))


def _plain(text: Any) -> str:
    return str(text).replace("\\", "")


def _dicts(value: Any) -> Iterator[Mapping[str, Any]]:
    return (each for each in value if isinstance(each, dict)) if isinstance(value, list) else iter(())


def _most_at_once(seen: _Seen, kind: str) -> int:
    """Return the largest number of attempts of a kind ("map" or "reduce") that ran on one host at the same time."""
    spans = [spans for (known, _), spans in seen.spans.items() if known == kind]
    return max([1, *(round(most_held((begin, end, 1) for begin, end in each)) for each in spans)])


def most_held(spans: Iterable[tuple[float, float, float]]) -> float:
    """Return the most that is held at a time. A span is a begin, an end, and what is held in between."""
    steps = sorted(step for begin, end, held in spans for step in ((begin, held), (end, -held)))
    held = most = 0.0
    for _, step in steps:  # At equal times, ends come first, since they are negative.
        held += step
        most = max(most, held)
    return most
