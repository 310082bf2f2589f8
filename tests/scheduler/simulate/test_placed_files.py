"""Splits that are made only when they are needed are those that are made at once."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np
import pytest

from schedbed.cluster.spec import ClusterSpec
from schedbed.scheduler.simulate import storage
from schedbed.scheduler.simulate.compiled import entity_records, input_tables
from schedbed.scheduler.simulate.compiled.arrays import records
from schedbed.scheduler.simulate.compiled.input_tables import Inputs
from schedbed.scheduler.simulate.placed_files import PlacedSplits
from schedbed.scheduler.simulate.storage import Storage
from schedbed.tasks.specs import JobSpec, Split
from schedbed.tasks.workloads.planned import InputFile
from tests.harness.simulation import MIB, cluster, job, setup

FILES = [
    InputFile(path=f"/in/{number}", source="filler", blocks=(64 * MIB,) * number + (7 * MIB,))
    for number in range(4)
]
COLUMNS = ("reads_block", "hosts_at", "hosts_end", "holders_at", "holders_end")


def store_of(spec: ClusterSpec, files: list[InputFile]) -> Storage:
    """Return a store with the files on the nodes of the cluster."""
    store = Storage(spec, 5, restarts=False)
    for node in spec.nodes:
        store.register(0.0, node.node, node.rack, ())
    store.load(files)
    return store


def specs_of(spec: ClusterSpec, files: list[InputFile]) -> list[JobSpec]:
    """Return jobs that read each of the files, with their splits, and a job that reads half of each block."""
    store = store_of(spec, files)
    jobs = [
        job(file.path.replace("/", "_"), [1.0] * len(file.blocks), input=file.path, read_bytes=7 * MIB)
        for file in files
    ]
    halves = [each for each in jobs[-1].map_costs for _ in range(2)]
    last = dataclasses.replace(jobs[-1], job="half", maps=len(halves), map_costs=tuple(halves))
    return store.specs([*jobs, last])


@pytest.mark.parametrize("nodes", [1, 2, 6])
def test_a_split_is_the_same_whenever_it_is_made(nodes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    at_once = specs_of(cluster(nodes), FILES)
    monkeypatch.setattr(storage, "MANY_BLOCKS", 0)
    later = specs_of(cluster(nodes), FILES)
    assert [isinstance(spec.splits, PlacedSplits) for spec in later] == [True] * len(FILES) + [False]
    for one, other in zip(at_once, later, strict=True):
        assert tuple(other.splits) == one.splits and len(other.splits) == len(one.splits)
        assert other.splits[-1] == one.splits[-1] and other.splits[1:3] == one.splits[1:3]
        assert other.input_bytes == one.input_bytes


@pytest.mark.parametrize("at_once", [1, 5, 1000])
@pytest.mark.parametrize("reading", [1.0, 0.5, 0.0])
def test_inputs_are_in_the_same_tables_whenever_the_splits_are_made(
    at_once: int, reading: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(storage, "MANY_BLOCKS", 0)
    monkeypatch.setattr(input_tables, "REPLICAS_AT_ONCE", at_once)
    spec = cluster(4)
    specs = specs_of(spec, [FILES[3], FILES[0], FILES[2], FILES[1]])
    luck = np.random.default_rng(1)
    reads = [luck.random(len(each.splits)) < reading for each in specs]

    def tables(splits: Sequence[Sequence[Split]]) -> list[list[int]]:
        inputs = Inputs(setup([], 4), Storage(spec, 5))
        for number, (some, has_bytes) in enumerate(zip(splits, reads, strict=True)):
            inputs.add(some, has_bytes, number % 3)
        tasks = records(
            sum(map(len, splits)) + sum(number % 3 for number in range(len(splits))), entity_records.TaskEntry
        )
        inputs.fill(tasks)
        return [values.tolist() for values in (*inputs.arrays().values(), *(tasks[name] for name in COLUMNS))]

    assert tables([each.splits for each in specs]) == tables([tuple(each.splits) for each in specs])


def test_the_holders_of_a_block_are_those_that_the_namenode_knows() -> None:
    spec = cluster(6)
    empty = InputFile(path="/in/empty", source="filler", blocks=())
    store = store_of(spec, [empty, *FILES, dataclasses.replace(empty, path="/in/empty too")])
    blocks = [f"blk_{number:010d}" for number in range(1, 1 + sum(len(file.blocks) for file in FILES))]
    held = [store.holders(block) for block in blocks]
    assert not store.has_replica_changes() and all(len(nodes) == 2 for nodes in held)
    lost = held[0][0]
    assert [store.names.holders(block) for block in blocks] == [list(nodes) for nodes in held]
    assert [store.holders(block) for block in blocks] == [list(nodes) for nodes in held]
    store.names.node_lost(9.0, lost)
    left = [[node for node in nodes if node != lost] for nodes in held]
    assert [store.holders(block) for block in blocks] == left
    assert store.holders("blk_0000000999") == []


def test_the_namenode_is_told_before_it_loses_a_node() -> None:
    store = store_of(cluster(6), FILES)
    lost = store.holders("blk_0000000001")[0]
    store.names.node_lost(9.0, lost)
    assert lost not in store.holders("blk_0000000001")
