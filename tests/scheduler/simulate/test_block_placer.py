"""Blocks that are placed many at a time are on the nodes that the NameNode's Python code chooses.

Most tests run the compiled functions as plain Python. One test compiles them.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from numba.core import config as numba_config

CONFIG: Any = numba_config
CONFIG.DISABLE_JIT = "COMPILED" not in os.environ
from schedbed.cluster.blocks.live_nodes import CandidateNode, NodeIndex  # noqa: E402
from schedbed.cluster.blocks.memory_journal import MemoryJournal  # noqa: E402
from schedbed.cluster.blocks.namenode import NameNode  # noqa: E402
from schedbed.cluster.blocks.placement import place_file, place_new  # noqa: E402
from schedbed.scheduler.coded_columns import plain_texts  # noqa: E402
from schedbed.scheduler.engines import fast_engine  # noqa: E402
from schedbed.scheduler.simulate.compiled.placing import block_placer  # noqa: E402
from schedbed.scheduler.simulate.compiled.placing.block_placer import (  # noqa: E402
    EXACT,
    BlockPlacer,
    most_bytes_of,
)
from schedbed.scheduler.simulate.compiled.placing.twisters import MOST_DRAWS, first_draws  # noqa: E402
from schedbed.scheduler.simulate.loading import task_tables  # noqa: E402
from schedbed.scheduler.simulate.loading.task_tables import InputPlacer  # noqa: E402
from schedbed.scheduler.simulate.plain_files import PlainFiles, WrittenFiles  # noqa: E402
from schedbed.scheduler.simulate.row_frames import Column, as_frame  # noqa: E402
from schedbed.tasks.chance import Coin, chance, keys_of  # noqa: E402
from tests.harness.compiled_run import compare_compiled  # noqa: E402

LOADS = (0, 1, 5, 1 << 20, 3 << 40, (1 << 51) + 1)


def drawn_index(luck: Coin) -> NodeIndex:
    """Return an index of up to 12 nodes with all kinds of racks and loads."""
    racks, nodes = luck.randint(1, 5), luck.randint(1, 12)
    sizes = [luck.choice(LOADS) for _ in range(luck.randint(1, 4))]
    drawn = [(f"r{luck.randrange(racks)}", luck.choice(sizes)) for _ in range(nodes)]
    return NodeIndex([CandidateNode(f"n{i}", rack, load) for i, (rack, load) in enumerate(drawn)])


def drawn_indexes(luck: Coin) -> tuple[NodeIndex, NodeIndex]:
    """Return a random index of nodes, and an equal one."""
    index = drawn_index(luck)
    nodes = [CandidateNode(node, index.racks[node], index.load_bytes[node]) for node in index.names]
    return index, NodeIndex(nodes)


def hold_against_python(seed: int) -> tuple[int, int]:
    """Place some blocks of outputs and of an input in both ways, and assert that nodes and loads are equal.

    Return the numbers of blocks of both kinds that were placed.
    """
    luck = chance(seed, "test")
    index, known = drawn_indexes(luck)
    count = luck.randint(1, min(5, len(index.names)))
    lengths = [luck.choice((1, 7, 1 << 20, 1 << 44)) for _ in range(luck.randint(1, 30))]
    writers = [luck.choice([*index.names, "a client"]) for _ in lengths]
    blocks = [f"/out/{'x' * luck.randrange(9)}/b:{number}" for number in range(len(lengths))]
    placer = BlockPlacer(index, seed)
    assert placer.takes(count, 2 * sum(lengths))
    sizes = np.array(lengths, np.int64)
    outputs = placer.place_outputs(iter(blocks), placer.numbers_of(writers), sizes, count)
    inputs = placer.place_input("blk_1", sizes, count)
    placer.put_back()
    for block, writer, length, chosen in zip(blocks, writers, lengths, outputs.tolist(), strict=True):
        nodes = place_new(known, count, chance(seed, "place", block, 0), writer)
        known.charge_all(nodes, length)
        assert [placer.names[place] for place in chosen] == nodes
    placed = place_file(known, count, ["blk_1"], lengths, seed=seed)
    assert [[placer.names[place] for place in chosen] for chosen in inputs.tolist()] == placed
    assert index.load_bytes == known.load_bytes and index.total_bytes == known.total_bytes
    return len(outputs), len(inputs)


@given(st.integers(0, 1 << 30))
@settings(max_examples=60, deadline=None)
def test_many_blocks_are_placed_as_one_by_one(seed: int) -> None:
    assert min(hold_against_python(seed)) > 0


@pytest.mark.parametrize("seed", range(20))
def test_they_are_when_few_random_numbers_are_computed_at_first(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(block_placer, "DRAWS_EACH", 1)
    monkeypatch.setattr(block_placer, "BLOCKS_AT_ONCE", 3)
    assert min(hold_against_python(seed)) > 0


def test_too_few_nodes_or_too_many_bytes_are_left_to_the_python_code() -> None:
    placer = BlockPlacer(NodeIndex([CandidateNode(f"n{i}", "r") for i in range(3)]), 1)
    assert placer.takes(3, 1 << 52) and not placer.takes(3, 1 << 53)
    assert not placer.takes(4, 1) and not placer.takes(0, 1)


@given(st.integers(0, (1 << 61) - 1), st.integers(1, 100_000))
@example((1 << 53) + 1, 3)
@settings(deadline=None)
def test_the_limit_of_a_load_is_rounded_as_in_python(total_bytes: int, nodes: int) -> None:
    field = BlockPlacer(NodeIndex(), 1)._field._replace(  # pyright: ignore[reportPrivateUsage]
        rack=np.zeros(nodes, np.int64), total_bytes=np.array([total_bytes])
    )
    assert 2 * total_bytes // nodes >= EXACT or most_bytes_of(field) == 2 * total_bytes / nodes


def drawn_files(seed: int, nodes: int, *, many: bool) -> PlainFiles:
    """Return files on `nodes` nodes, placed `many` at a time or one by one."""
    files = namenode_files(nodes, seed)
    if many:
        files.place_many(fast_engine())
    for number in range(6):
        files.add_input(f"/in/f{number}", [100 + number] * (number % 4), 2)
    counts = np.array([1 + number % 3 for number in range(9)])
    outputs = WrittenFiles(
        made_s=[1.5 * number for number in range(9)],
        paths=[f"/out/j/part-{number:05d}" for number in range(9)],
        placed_as=[f"/out/j/_temporary/a{number}" for number in range(9)],
        writers=[f"n{number % 7}" for number in range(9)],
        counts=counts,
        lengths=np.arange(1, 1 + counts.sum()),
    )
    files.add_outputs(outputs, 3)
    return files


def all_columns(files: PlainFiles) -> Iterator[dict[str, Column]]:
    rows = files.replicas()
    return rows.between(0, len(rows))


@pytest.mark.parametrize("nodes", [3, 7])
def test_the_rows_do_not_depend_on_how_files_are_added(nodes: int) -> None:
    [one], [other] = (all_columns(drawn_files(5, nodes, many=many)) for many in (False, True))
    assert plain_texts(as_frame("blocks", one)).equals(plain_texts(as_frame("blocks", other)))


def test_files_that_lack_nodes_are_told_of_either_way() -> None:
    assert len(drawn_files(5, 2, many=True)) == len(drawn_files(5, 2, many=False)) == 0


def draw_all() -> None:
    """Compare the first random numbers of many generators with those of Python."""
    for size in (1, 3, 130):
        blocks = [f"{'long name ' * (number % 6)}{number}" for number in range(size)]
        for count in (1, 8, MOST_DRAWS, MOST_DRAWS + 1, 700):
            draws = first_draws(keys_of(3, ("place", "b"), blocks, 0), count)
            lucks = [chance(3, "place", "b", block, 0) for block in blocks]
            assert draws.tolist() == [luck.random() for luck in lucks for _ in range(count)]


def test_the_random_numbers_are_those_of_chance() -> None:
    draw_all()


def compare_all() -> None:
    """Compare the compiled functions with Python."""
    draw_all()
    for seed in range(1500):
        hold_against_python(seed)
        hold_files_against_python(seed)


@pytest.mark.slow  # compiles for most of a minute; the engine places blocks with them in test_compiled
def test_the_compiled_functions_do_the_same() -> None:
    compare_compiled(__file__)


def hold_files_against_python(seed: int) -> int:
    """Place input files many at a time and one by one, and assert that nodes and loads are equal.

    Return the number of files.
    """
    luck = chance(seed, "files")
    index, known = drawn_indexes(luck)
    count, most = luck.randint(1, min(5, len(index.names))), luck.choice((1, 3, 40, 900))
    counts = [luck.randint(1, most) for _ in range(luck.randint(1, 1 + 60 // most))]
    ends = np.cumsum(counts)
    lengths = [luck.choice((1, 7, 1 << 20, 1 << 44)) for _ in range(int(ends[-1]))]
    blocks = [f"blk_{number:010d}" for number in range(len(counts))]
    placer = InputPlacer(index, seed)
    chosen = placer.place_inputs(blocks, ends, np.array(lengths, np.int64), count)
    placer.put_back()
    names = [[placer.names[place] for place in places] for places in chosen.tolist()]
    for block, low, high in zip(blocks, (ends - counts).tolist(), ends.tolist(), strict=True):
        assert names[low:high] == place_file(known, count, [block], lengths[low:high], seed=seed)
    assert index.load_bytes == known.load_bytes and index.total_bytes == known.total_bytes
    return len(counts)


@given(st.integers(0, 1 << 30))
@settings(max_examples=150, deadline=None)
def test_many_files_are_placed_as_one_by_one(seed: int) -> None:
    assert hold_files_against_python(seed) > 0


@pytest.mark.parametrize("draws", [0, 1, task_tables.DRAWS_EACH])
def test_they_are_when_they_are_placed_in_parts(draws: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(task_tables, "BLOCKS_AT_ONCE", 3)
    monkeypatch.setattr(task_tables, "DRAWS_EACH", draws)
    assert sum(map(hold_files_against_python, range(30))) > 100


@pytest.mark.parametrize("nodes", [2, 3, 40])
@pytest.mark.parametrize("many", [False, True])
def test_inputs_may_be_added_together(nodes: int, many: bool) -> None:
    """Files of one block, of several and of none are placed as when each is added alone."""
    inputs = [(f"/in/f{number}", (100 + number,) * (number % 7 and 1 + number % 2)) for number in range(60)]
    alone, together = namenode_files(nodes), namenode_files(nodes)
    if many:
        together.place_many(fast_engine())
    one = [alone.add_input(path, lengths, 3) for path, lengths in inputs]
    other = together.add_inputs(inputs, 3)
    assert [(file.path, file.ranges()) for file in one] == [(file.path, file.ranges()) for file in other]
    assert len(alone) == len(together) and bool(len(alone)) == (nodes > 2)
    for rows, others in zip(all_columns(alone), all_columns(together), strict=True):
        assert plain_texts(as_frame("blocks", rows)).equals(plain_texts(as_frame("blocks", others)))


def namenode_files(nodes: int, seed: int = 5) -> PlainFiles:
    """Return an empty store of files on `nodes` nodes in three racks."""
    names = NameNode(MemoryJournal(keeps_changes=False), seed=4, order=[f"n{i}" for i in range(nodes)])
    for i in range(nodes):
        names.register(0.0, f"n{i}", f"r{i % 3}", "", [])
    return PlainFiles(names, seed)
