"""Tables of where the inputs of maps are: by map, by job and node or rack, and by node."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain, repeat
from operator import is_
from typing import NamedTuple

import numpy as np

from schedbed.cluster.spec import NodeSpec
from schedbed.scheduler.simulate.compiled import entity_records as plain
from schedbed.scheduler.simulate.compiled.arrays import Arrays, Table, Values, records
from schedbed.scheduler.simulate.compiled.state import NO_JOB
from schedbed.scheduler.simulate.placed_files import PlacedFile, PlacedSplits
from schedbed.scheduler.simulate.setup import NotCovered, Setup
from schedbed.scheduler.simulate.storage import Storage
from schedbed.tasks.specs import JobSpec, NodeId, Split

REPLICAS_AT_ONCE = 1 << 20
"""The number of replicas that are added or sorted at a time, to save memory."""


class Inputs:
    """The inputs of all tasks as arrays: preferred nodes, holders, and whether a block is read."""

    def __init__(self, setup: Setup, storage: Storage) -> None:
        self._node = {node.node: index for index, node in enumerate(setup.cluster.nodes)}
        self._replicas = storage.replicas_of
        # Jobs with splits of their own may say where blocks are.
        self._are_placed = not any(isinstance(job, JobSpec) for job in setup.jobs)
        self._place_of = np.zeros(0, np.int32)  # By a placed file's number of a node.
        # Jobs whose maps read the blocks of a file one by one: its file, whether each map reads bytes, and the
        # numbers of maps and reduces. They are added together, which is faster for many small jobs.
        self._waiting: list[tuple[PlacedFile, Values, tuple[int, int]]] = []
        self._waiting_replicas = 0
        self._hosts: list[Values] = []
        self._host_counts: list[Values] = []
        self._holders: list[Values] = []
        self._holder_counts: list[Values] = []
        self._reads: list[Values] = []

    def add(self, splits: Sequence[Split], has_bytes: Values, reduces: int) -> None:
        """Add inputs of maps, then `reduces` empty ones. Raises NotCovered if nobody holds a block."""
        if self._are_placed and isinstance(splits, PlacedSplits) and len(splits):
            self._waiting.append((splits.file, has_bytes, (len(splits), reduces)))
            self._waiting_replicas += len(splits.file.holders)
            if self._waiting_replicas >= REPLICAS_AT_ONCE:
                self._add_waiting()
            return
        self._add_waiting()
        reads = [
            split.block is not None and some for split, some in zip(splits, has_bytes.tolist(), strict=True)
        ]
        hosts = [split.hosts for split in splits]
        held = [self._held(split) if read else () for split, read in zip(splits, reads, strict=True)]
        for split, read, nodes in zip(splits, reads, held, strict=True):
            if read and (not nodes or nodes[0] not in self._node):
                raise NotCovered(f"nobody holds {split.block}")
        self._put(
            self._numbers(hosts),
            _counts(hosts, reduces),
            self._numbers(held),
            _counts(held, reduces),
            np.array([*reads, *[False] * reduces], bool),
        )

    def _add_waiting(self) -> None:
        """Add the inputs of all jobs in `_waiting`, as `add` does for one job."""
        if not self._waiting:
            return
        files, has_bytes, shapes = zip(*self._waiting, strict=True)
        self._waiting, self._waiting_replicas = [], 0
        if len(self._place_of) < len(files[0].nodes):  # All files have the same list of nodes.
            self._place_of = np.array([self._node.get(node, -1) for node in files[0].nodes], np.int32)
        is_map = np.repeat(np.tile([True, False], len(files)), np.ravel(shapes))
        reads, counts = np.zeros(len(is_map), bool), np.zeros(len(is_map), np.int32)
        reads[is_map] = np.concatenate(has_bytes)
        ends = np.concatenate([file.ends for file in files])
        copies = np.diff(ends, prepend=np.int32(0))
        maps = np.array([maps for maps, _ in shapes])
        firsts = np.cumsum(maps) - maps
        copies[firsts] = ends[firsts]
        counts[is_map] = copies
        hosts: Values = self._place_of[np.concatenate([file.holders for file in files])]
        is_whole = bool((reads == is_map).all())
        held, held_counts = (hosts, counts) if is_whole else (hosts[np.repeat(reads, counts)], counts * reads)
        if len(missing := np.flatnonzero(reads & (held_counts == 0))):
            place = np.searchsorted(np.cumsum(np.sum(shapes, axis=1)), missing[0], side="right")
            raise NotCovered(f"nobody holds a block of {files[int(place)].path}")
        self._put(hosts, counts, held, held_counts, reads)

    def _put(
        self, hosts: Values, host_counts: Values, holders: Values, holder_counts: Values, reads: Values
    ) -> None:
        self._hosts.append(hosts)
        self._host_counts.append(host_counts)
        self._holders.append(holders)
        self._holder_counts.append(holder_counts)
        self._reads.append(reads)

    def _held(self, split: Split) -> Sequence[NodeId]:
        nodes = self._replicas(split)
        return nodes if nodes is split.hosts else [node for node in nodes if node in self._node]

    def _numbers(self, groups: Sequence[Sequence[NodeId]]) -> Values:
        """Return the nodes' numbers, -1 for one outside the cluster."""
        return np.fromiter(map(self._node.get, chain.from_iterable(groups), repeat(-1)), np.int32)

    def arrays(self) -> Arrays:
        """Return the fields `host` and `holder` of the state."""
        self._add_waiting()
        host = _joined(self._hosts)
        are_same = all(map(is_, self._hosts, self._holders))
        return {"host": host, "holder": host if are_same else _joined(self._holders)}

    def fill(self, tasks: Table[plain.TaskEntry]) -> None:
        """Store in the table of all tasks whether each reads a block, and its ranges of `host` and `holder`."""
        self._add_waiting()
        tasks["reads_block"] = np.concatenate(self._reads)
        for name, counts in (("hosts", self._host_counts), ("holders", self._holder_counts)):
            ends = np.cumsum(np.concatenate(counts), dtype=np.int64)
            tasks[f"{name}_end"] = ends
            tasks[f"{name}_at"][1:] = ends[:-1]


def _counts(groups: Sequence[Sequence[NodeId]], reduces: int) -> Values:
    return np.array([*map(len, groups), *[0] * reduces], np.int32)


def _joined(parts: Sequence[Values]) -> Values:
    """Return one array, of a single 0 if all are empty."""
    return np.concatenate(parts) if any(map(len, parts)) else np.zeros(1, np.int32)


class _Groups(NamedTuple):
    """Groups of maps: the job and the node or rack of each, its number of maps, and the maps of all groups."""

    jobs: Values
    where: Values
    sizes: Values
    maps: Values


def near_tables(
    nodes: Sequence[NodeSpec], jobs: Table[plain.JobEntry], tasks: Table[plain.TaskEntry], hosts: Values
) -> Arrays:
    """Return the fields `near` and `near_task`: each job's maps by input on one node, or in one rack.

    Stores the range of each job's groups in `jobs`. `hosts` is the field `host`.
    """
    racks, rack_of = racks_of_nodes(nodes)
    by_host: list[_Groups] = []
    by_rack: list[_Groups] = []
    for first, end in _task_ranges(jobs, tasks):
        counts = tasks["hosts_end"][first:end] - tasks["hosts_at"][first:end]
        maps = np.repeat(np.arange(first, end, dtype=np.int32), counts)
        where = hosts[int(tasks["hosts_at"][first]) : int(tasks["hosts_end"][end - 1])]
        maps, where = maps[where >= 0], where[where >= 0]
        owners = tasks["job"][maps].astype(np.int64)
        by_host.append(_grouped(owners, where, len(rack_of), maps))
        by_rack.append(_grouped(owners, rack_of[where], racks, maps))
    near = records(sum(len(groups.sizes) for groups in chain(by_host, by_rack)), plain.NearEntry)
    at = done = 0
    for name, found in (("hosts", by_host), ("racks", by_rack)):
        per_job = np.zeros(len(jobs), np.int64)
        begin = at
        for groups in found:
            part = near[at : at + len(groups.sizes)]
            part["where"] = groups.where
            part["end"] = done + np.cumsum(groups.sizes)
            part["cursor"] = part["end"] - groups.sizes
            per_job += np.bincount(groups.jobs, minlength=len(jobs))
            at, done = at + len(groups.sizes), done + len(groups.maps)
        jobs[f"{name}_end"] = begin + np.cumsum(per_job)
        jobs[f"{name}_at"] = jobs[f"{name}_end"] - per_job
    every = [groups.maps for groups in chain(by_host, by_rack)]
    return {"near": near, "near_task": np.concatenate([*every, np.zeros(1, np.int32)])}


def _task_ranges(jobs: Table[plain.JobEntry], tasks: Table[plain.TaskEntry]) -> Iterator[tuple[int, int]]:
    """Yield the ranges of the tasks of some jobs, with about `REPLICAS_AT_ONCE` replicas of inputs each."""
    ends = jobs["first"] + jobs["maps"] + jobs["reduces"]
    ends = ends[ends > jobs["first"]]
    done = tasks["hosts_end"][ends - 1]
    begin = at = 0
    while at < len(ends):
        enough = tasks["hosts_at"][begin] + REPLICAS_AT_ONCE
        at = min(int(np.searchsorted(done, enough)), len(ends) - 1)
        end = int(ends[at])
        yield begin, end
        begin, at = end, at + 1


def _grouped(owners: Values, where: Values, places: int, maps: Values) -> _Groups:
    """Return the maps in groups of equal `owners` (jobs) and equal `where`, a node or a rack of `places`."""
    keys = owners * places + where
    order = np.argsort(keys, kind="stable")
    keys = keys[order]
    first = np.flatnonzero(np.diff(keys, prepend=-1))
    found = keys[first]
    return _Groups(
        jobs=(found // places).astype(np.int32),
        where=(found % places).astype(np.int32),
        sizes=np.diff(first, append=len(keys)).astype(np.int32),
        maps=maps[order],
    )


def beside_table(
    jobs: Table[plain.JobEntry],
    near: Table[plain.NearEntry],
    near_task: Values,
    nodes: Table[plain.NodeEntry],
) -> Table[plain.BesideEntry]:
    """Return a table of the jobs with input on each node, oldest first, and store each node's range in `nodes`."""
    sizes = jobs["hosts_end"] - jobs["hosts_at"]
    owners = np.repeat(np.arange(len(jobs), dtype=np.int32), sizes)
    where = near["where"][: len(owners)]
    order = np.argsort(where, kind="stable")
    beside = records(len(owners), plain.BesideEntry)
    part = beside[: len(owners)]
    part["job"], part["cursor"], part["end"] = owners[order], near["cursor"][order], near["end"][order]
    part["task"] = near_task[part["cursor"]]
    edges = np.searchsorted(where[order], np.arange(len(nodes) + 1))
    for name in ("at", "left", "next"):
        nodes[f"beside_{name}"] = edges[:-1]
    nodes["beside_end"] = edges[1:]
    nodes["beside_job"] = NO_JOB
    some = edges[:-1] < edges[1:]
    nodes["beside_job"][some] = part["job"][edges[:-1][some]]
    return beside


def racks_of_nodes(nodes: Sequence[NodeSpec]) -> tuple[int, Values]:
    """Return the number of racks, and an array with the number of each node's rack."""
    place: dict[str, int] = {}
    rack_of = [place.setdefault(node.rack, len(place)) for node in nodes]
    return max(1, len(place)), np.array(rack_of, np.int32)
