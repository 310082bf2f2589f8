"""The cluster on which a Rumen trace was recorded: hosts, slots and settings, as far as the trace contains them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from schedbed.tasks.errors import BadInput
from schedbed.tasks.traces.jsonstream import objects
from schedbed.tasks.traces.trace import Host

NODES_PER_HEARTBEAT_SECOND = 100
HEARTBEAT_LEAST_S = 3.0
"""As in JobTracker.getNextHeartbeatInterval of Hadoop 0.20: 100 heartbeats/s in total, at least 3 s."""
_UNKNOWN_RACK = "default-rack"
_KINDS = {"mapTasks": "map", "reduceTasks": "reduce"}
_SLOTS = "mapreduce.tasktracker.{}.tasks.maximum"


@dataclass(frozen=True, slots=True, kw_only=True)
class Recording:
    """The cluster on which a trace was recorded. `why` has a line for each value derived from the trace."""

    hosts: tuple[Host, ...]
    map_slots: int  # Map slots of each host.
    reduce_slots: int
    heartbeat_s: float
    out_of_band: bool | None = None
    scheduler: str | None = None  # Name of the scheduler's Java class.
    why: tuple[str, ...] = ()


@dataclass(slots=True)
class _Seen:
    """The facts about the recorded cluster that have been found so far in a trace."""

    racks: dict[str, str] = field(default_factory=dict)  # Rack by host.
    spans: dict[tuple[str, str], list[tuple[int, int]]] = field(default_factory=lambda: defaultdict(list))
    settings: dict[str, str] = field(default_factory=dict)

    def host(self, rack: str | None, name: str) -> None:
        if self.racks.get(name, _UNKNOWN_RACK) == _UNKNOWN_RACK:
            self.racks[name] = rack or _UNKNOWN_RACK


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
    most = 1
    for (known, _), spans in seen.spans.items():
        if known == kind:
            steps = sorted([(begin, 1) for begin, _ in spans] + [(end, -1) for _, end in spans])
            running = 0
            for _, step in steps:
                running += step
                most = max(most, running)
    return most
