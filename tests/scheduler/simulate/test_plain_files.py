"""Tests files of a simulation that the NameNode is told about only when it is needed."""

from __future__ import annotations

import numpy as np
import pytest

from schedbed.cluster.blocks.block_errors import NoNodes
from schedbed.cluster.blocks.memory_journal import MemoryJournal
from schedbed.cluster.blocks.namenode import NameNode
from schedbed.cluster.blocks.namespace import block_id
from schedbed.scheduler.coded_columns import plain_texts
from schedbed.scheduler.simulate.plain_files import PlainFiles, block_ids, columns_of_lives
from schedbed.scheduler.simulate.row_frames import as_frame


def namenode(nodes: int, racks: int = 3) -> tuple[NameNode, MemoryJournal]:
    journal = MemoryJournal(keeps_changes=False)
    names = NameNode(journal, seed=4, order=[f"n{i}" for i in range(nodes)])
    for i in range(nodes):
        names.register(0.0, f"n{i}", f"r{i % racks}", "", [])
    return names, journal


def fill(files: PlainFiles) -> None:
    for number in range(12):
        files.add_input(f"/in/f{number}", [100 + number] * (number % 4), 2 if number % 3 else 3)
    for number in range(9):
        files.add_output(
            1.5 * number,
            f"/out/j/part-{number:05d}",
            [70] * (1 + number % 3),
            3,
            writer=f"n{number % 7}",
            placed_as=f"/out/j/_temporary/a{number}",
        )


def test_the_rows_are_those_of_a_namenode_that_was_told() -> None:
    names, journal = namenode(7)
    files = PlainFiles(names, 4)
    fill(files)
    replicas = files.replicas()
    [made] = replicas.between(0, len(replicas))
    assert not journal.has_living() and len(files) == 21
    files.tell()
    assert not len(files)
    [told] = columns_of_lives(journal.take_living(), list(names.files()))
    assert plain_texts(as_frame("blocks", made)).equals(plain_texts(as_frame("blocks", told)))


def test_a_namenode_that_is_told_earlier_places_the_same() -> None:
    (names, journal), (other, others) = namenode(7), namenode(7)
    late, early = PlainFiles(names, 4), PlainFiles(other, 4)
    fill(late)
    for number in range(12):
        early.add_input(f"/in/f{number}", [100 + number] * (number % 4), 2 if number % 3 else 3)
        early.tell()
    for number in range(9):
        path, aside = f"/out/j/part-{number:05d}", f"/out/j/_temporary/a{number}"
        lengths, writer = [70] * (1 + number % 3), f"n{number % 7}"
        early.add_output(1.5 * number, path, lengths, 3, writer=writer, placed_as=aside)
        early.tell()
    late.tell()
    assert names.loads.load_bytes == other.loads.load_bytes
    assert dict(journal.take_living()) == dict(others.take_living())


def test_the_namenode_is_told_at_once_of_a_block_that_lacks_replicas() -> None:
    names, _ = namenode(2)
    files = PlainFiles(names, 4)
    files.add_input("/in/whole", [10], 2)
    assert len(files) == 1 and not names.has_orders()
    files.add_input("/in/lacks", [10], 3)
    assert not len(files) and names.has_orders()
    assert [path for path, _ in names.files()] == ["/in/whole", "/in/lacks"]


def test_an_output_needs_a_node() -> None:
    names, _ = namenode(0)
    with pytest.raises(NoNodes, match=r"/out/j/part-00000: no node"):
        PlainFiles(names, 4).add_output(0.0, "/out/j/part-00000", [1], 3, writer="n1", placed_as="/out/a")


def test_many_block_ids_are_those_of_single_blocks() -> None:
    numbers = [0, 7, 999, 1000, 1_234_567, 98_765_432_101_234, 98_765_432_100_000]
    for some in (numbers[:1], numbers[1:5], numbers[5:], []):
        assert block_ids(np.array(some, np.int64)) == [block_id(number) for number in some]
