"""The copy phase of a reduce: failed fetches are retried and reported, and nothing is copied twice."""

from __future__ import annotations

import json
import threading
from pathlib import Path

import pytest

from schedbed.tasks import shuffle
from schedbed.tasks.attempt_status import StatusFile
from schedbed.tasks.blockfile import Buffer
from schedbed.tasks.node_client.node import MapOutputAt
from schedbed.tasks.shuffle import Shuffle
from schedbed.tasks.specs import TaskKind
from schedbed.tasks.spill import FileRun
from tests.harness.memory_node import FakeNode, a_spec


@pytest.fixture(autouse=True)
def quick_retries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shuffle, "RETRY_S", 0.001)
    monkeypatch.setattr(shuffle, "WAIT_S", 0.001)


def a_map_output(root: Path, attempt: str, data: bytes) -> None:
    folder = root / "mapout" / attempt
    folder.mkdir(parents=True)
    (folder / "data").write_bytes(data)
    (folder / "index.json").write_text(json.dumps([[0, len(data)]]))


def output(index: int, number: int = 0, lost: bool = False) -> MapOutputAt:
    return MapOutputAt(index=index, attempt=f"job_0001_m_{index:06d}_{number}", node="n1", lost=lost)


def a_node(root: Path, count: int) -> FakeNode:
    node = FakeNode(root)
    for index in range(count):
        a_map_output(root, output(index).attempt, b"%d" % index * 10)
        node.outputs.append(output(index))
    return node


def copied(node: FakeNode, memory_bytes: int = 10**6) -> list[bytes | FileRun]:
    progress = StatusFile(node.root / "status", 0.0)
    runs = Shuffle(a_spec(TaskKind.REDUCE), node, node.root, memory_bytes, progress).run()
    return [run if isinstance(run, FileRun) else bytes(run) for run in runs]


def test_everything_arrives_in_the_order_of_the_maps(tmp_path: Path) -> None:
    node = a_node(tmp_path, 20)
    assert copied(node) == [b"%d" % index * 10 for index in range(20)]
    assert node.meter.counters().shuffle_bytes == sum(len(b"%d" % index * 10) for index in range(20))


def test_what_does_not_fit_in_memory_goes_to_disk(tmp_path: Path) -> None:
    node = a_node(tmp_path, 5)
    runs = copied(node, memory_bytes=25)
    on_disk = [run for run in runs if isinstance(run, FileRun)]
    assert len(on_disk) == 3 and all(run.path.read_bytes()[run.offset :][: run.length] for run in on_disk)
    assert node.meter.counters().spill_bytes == node.charged_bytes == 30


def test_one_failed_fetch_is_tried_again_before_anybody_is_told(tmp_path: Path) -> None:
    node = a_node(tmp_path, 3)
    node.broken[output(1).attempt] = 1
    assert copied(node)[1] == b"1" * 10
    assert node.reported == []


def test_a_fetch_that_keeps_failing_is_reported_and_its_replacement_taken(tmp_path: Path) -> None:
    node = a_node(tmp_path, 3)
    node.broken[output(1).attempt] = 1000
    a_map_output(tmp_path, output(1, number=1).attempt, b"again")
    node.replacements = [output(1, lost=True), output(1, number=1)]
    assert copied(node) == [b"0" * 10, b"again", b"2" * 10]
    assert set(node.reported) == {output(1).attempt}


def test_a_lost_output_is_waited_for(tmp_path: Path) -> None:
    node = a_node(tmp_path, 2)
    a_map_output(tmp_path, output(0, number=1).attempt, b"again")
    late = [([output(0), output(0, lost=True), output(1)], False), ([output(0, number=1)], True)]
    asked: list[int] = []

    def map_outputs(cursor: int) -> tuple[int, list[MapOutputAt], bool]:
        asked.append(cursor)
        outputs, done = late.pop(0)
        return cursor + len(outputs), outputs, done

    node.map_outputs = map_outputs
    assert copied(node) == [b"again", b"1" * 10]
    assert asked == [0, 3]


def test_a_fetch_that_hangs_is_abandoned_when_a_replacement_comes(tmp_path: Path) -> None:
    node = a_node(tmp_path, 2)
    a_map_output(tmp_path, output(0, number=1).attempt, b"again")
    hanging, released, plain, hangs = threading.Event(), threading.Event(), node.fetch, output(0).attempt

    def fetch(output: MapOutputAt, partition: int) -> Buffer:
        if output.attempt == hangs:
            hanging.set()
            released.wait(30)
        return plain(output, partition)

    def map_outputs(cursor: int) -> tuple[int, list[MapOutputAt], bool]:
        if cursor and hanging.wait(30):
            return 4, [output(0, lost=True), output(0, number=1)], True
        return 2, [output(0), output(1)], False

    node.fetch, node.map_outputs = fetch, map_outputs
    assert copied(node) == [b"again", b"1" * 10]
    released.set()


def test_a_reduce_gives_up_in_the_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shuffle, "RETRY_MAX_S", 0.002)
    node = a_node(tmp_path, 1)
    node.broken[output(0).attempt] = 10**6
    with pytest.raises(OSError, match="gave up after 31 tries to fetch job_0001_m_000000_0"):
        copied(node)
    assert len(node.reported) == 29


def test_a_job_without_map_output_has_nothing_to_copy(tmp_path: Path) -> None:
    assert copied(a_node(tmp_path, 0)) == []
