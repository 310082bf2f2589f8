"""Planned jobs: how files are divided into blocks, how tasks vary, and how a job's splits are made."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schedbed.tasks.specs import BlockRange, Cost, Demand
from schedbed.tasks.workloads.planned import PlannedJob, build_job, cut, vary


def planned(**fields) -> PlannedJob:
    """Return a wordcount job with two maps over the file /in/a; `fields` replace defaults."""
    need = Demand(memory_bytes=1)
    base = {"job": "job_0001", "name": "a", "app": "wordcount", "user": "u", "input": "/in/a", "maps": 2}
    return PlannedJob(**{**base, "map_demand": need, "reduce_demand": need, **fields})


@given(st.integers(1, 10**6), st.integers(1, 10**6))
def test_blocks_add_up_and_only_the_last_is_short(length, block):
    if length // block > 10_000:
        block = length
    blocks = cut(length, block)
    assert sum(blocks) == length
    assert all(one == block for one in blocks[:-1])
    assert 0 < blocks[-1] <= block


def test_splits_follow_the_blocks_and_their_hosts():
    blocks = [
        BlockRange(block="b2", offset=10, length=5, nodes=("n2",)),
        BlockRange(block="b1", offset=0, length=10, nodes=("n1", "n3")),
    ]
    job = build_job(planned(params={"x": 1}), lambda path: blocks, {"boundaries": ["00"]})
    assert [(s.index, s.block, s.offset, s.length, s.hosts) for s in job.splits] == [
        (0, "b1", 0, 10, ("n1", "n3")),
        (1, "b2", 10, 5, ("n2",)),
    ]
    assert job.params == {"x": 1, "boundaries": ["00"]}
    assert job.input_bytes == 15


def test_a_job_without_input_has_splits_without_file():
    job = build_job(planned(input=None, maps=3), lambda path: [])
    assert [(split.index, split.file) for split in job.splits] == [(0, None), (1, None), (2, None)]


def test_a_file_cut_otherwise_than_planned_is_refused():
    with pytest.raises(ValueError, match="has 0 blocks, job_0001 was planned for 2"):
        build_job(planned(), lambda path: [])


def test_variation_changes_cpu_and_output_alike_but_not_what_is_read():
    cost = Cost(cpu_s=10.0, read_bytes=100, write_bytes=1_000_000)
    varied = vary(cost, 0.3, 1, "a", "map", 0)
    assert varied.read_bytes == 100
    assert varied.cpu_s != 10.0
    assert varied.cpu_s / 10.0 == pytest.approx(varied.write_bytes / 1_000_000, rel=1e-5)
    assert vary(cost, 0.0, 1, "a", "map", 0) == cost
