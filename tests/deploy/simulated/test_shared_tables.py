"""Tests that several processes can write the rows of one table of a simulation."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import yaml
from typer.testing import CliRunner

from schedbed.cluster.blocks.memory_journal import MemoryJournal
from schedbed.cluster.blocks.namenode import NameNode
from schedbed.deploy.cli import main
from schedbed.deploy.display.progress import make_progress
from schedbed.deploy.results.runfile import RunFile
from schedbed.deploy.scenario.resolved import PolicyChoice
from schedbed.deploy.simulated import one_run, simulated_runs
from schedbed.deploy.simulated.one_run import HistoryRows, OneRun
from schedbed.scheduler import history
from schedbed.scheduler.part_merge import merge
from schedbed.scheduler.simulate.plain_files import PlainFiles, PlainReplicas
from schedbed.scheduler.simulate.row_frames import Column, as_frame, put_ranges
from schedbed.scheduler.simulate.storage import Storage

GROUP_ROWS = 40


def replicas(files: int) -> PlainReplicas:
    names = NameNode(MemoryJournal(keeps_changes=False), seed=4, order=[f"n{i}" for i in range(9)])
    for number in range(9):
        names.register(0.0, f"n{number}", f"r{number % 3}", "", [])
    plain = PlainFiles(names, 4)
    for number in range(files):
        plain.add_input(f"/in/f{number}", [100 + number] * (1 + number % 3), 3)
    return plain.replicas()


class BrokenOnce:
    """Rows of which one process fails to make the second range."""

    def __init__(self, rows: PlainReplicas, mark: Path) -> None:
        self._rows, self._mark = rows, mark

    def __len__(self) -> int:
        return len(self._rows)

    def between(self, low: int, high: int) -> Iterator[dict[str, Column]]:
        yield from self._rows.between(low, high - 1)
        if low and not self._mark.exists():
            self._mark.touch()
            raise OSError("as if the disk were full")
        yield from self._rows.between(high - 1, high)


def write(folder: Path, rows: Any, at_once: int, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Write the rows as the blocks table in `folder`. Return how many pieces of work were shared each time."""
    monkeypatch.setattr(one_run, "ROW_GROUP_ROWS", GROUP_ROWS)
    monkeypatch.setattr(history, "ROW_GROUP_ROWS", GROUP_ROWS)
    shared: list[int] = []
    share = one_run.share

    def watched(works: Any, at_once: int) -> list[Any]:
        shared.append(len(works))
        return share(works, at_once)

    with make_progress(1, live=False) as progress, monkeypatch.context() as patch:
        patch.setattr(one_run, "share", watched)
        record = RunFile(scenario={}, policies=["fifo"], repeats=1, seed=1, machines="sim")
        choice = PolicyChoice(spec="fifo", given="fifo")
        run = OneRun(choice=choice, repeat=0, label="fifo", place=(folder, record, progress))
        run.begin()
        made = HistoryRows(run.history, run, at_once)
        made.block(("b", "/in/lost", "n1", 7, 0.0, 3.0, "input"))
        made.ranges("blocks", rows)
        made.flush()
        run.close()
    assert not merge(folder)
    return shared


@pytest.mark.parametrize("files", [0, 5, 13, 40, 90])
@pytest.mark.parametrize("at_once", [2, 3])
def test_several_processes_write_the_same_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, files: int, at_once: int
) -> None:
    rows = replicas(files)
    assert write(tmp_path / "one", rows, 1, monkeypatch) == []
    shared = write(tmp_path / "more", rows, at_once, monkeypatch)
    assert bool(shared) == (len(rows) > at_once * (GROUP_ROWS - 1))
    assert all(1 < works <= at_once for works in shared)
    one, more = (tmp_path / name / "blocks.parquet" for name in ("one", "more"))
    assert one.read_bytes() == more.read_bytes()
    read = history.read_table(tmp_path / "more", "blocks")
    assert read["file"].tolist()[:1] == ["/in/lost"] and len(read) == len(rows) + 1


def test_a_range_whose_process_fails_is_written_by_the_parent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = replicas(90)
    write(tmp_path / "one", rows, 1, monkeypatch)
    mark = tmp_path / "failed"
    assert write(tmp_path / "more", BrokenOnce(rows, mark), 2, monkeypatch) == [2]
    assert mark.exists()
    one, more = (tmp_path / name / "blocks.parquet" for name in ("one", "more"))
    assert one.read_bytes() == more.read_bytes()


def test_ranges_of_replicas_together_are_all_rows() -> None:
    rows = replicas(40)
    whole = pd.concat([as_frame("blocks", each) for each in rows.between(0, len(rows))])
    cuts = [0, 1, 17, 18, len(rows)]
    parts = [as_frame("blocks", each) for low, high in pairwise(cuts) for each in rows.between(low, high)]
    pd.testing.assert_frame_equal(pd.concat(parts).reset_index(drop=True), whole.reset_index(drop=True))


@pytest.mark.parametrize(
    ("policies", "cores", "works"),
    [
        (["fifo"], 1, []),
        (["fifo"], 2, ["2"]),
        (["fifo", "fair"], 2, []),
        (["fifo", "fair", "delay"], 2, ["2"]),
        (["fifo", "fair", "delay"], 1, []),
        (["fifo", "fair", "delay"], 3, []),
    ],
)
def test_a_run_that_would_leave_cores_without_work_uses_all_for_a_large_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, policies: list[str], cores: int, works: list[str]
) -> None:
    path = tmp_path / "s.yaml"
    jobs = [{"name": "burn", "app": "synthetic", "maps": 3, "map": {"cpu": "1s"}}]
    scenario = {"name": "s", "cluster": {"nodes": 2}, "workload": {"jobs": jobs}, "policies": policies}
    path.write_text(yaml.safe_dump(scenario))
    shared = tmp_path / "shared"
    shared.touch()

    def watched(works: Any, at_once: int) -> list[Any]:
        with shared.open("a") as file:  # Processes of several runs may call this.
            file.write(f"{len(works)}\n")
        return [work() for work in works]

    rows = replicas(30)
    monkeypatch.setattr(one_run, "ROW_GROUP_ROWS", GROUP_ROWS)
    monkeypatch.setattr(one_run, "share", watched)
    monkeypatch.setattr(simulated_runs, "all_cores", lambda: cores)
    monkeypatch.setattr(Storage, "put_living", lambda _, sink: put_ranges(sink, "blocks", rows))
    out = tmp_path / "out"
    options = ["--machines", "sim", "--jobs", str(cores), "--no-live", "--no-report", "--out", str(out)]
    result = CliRunner().invoke(main.app, ["run", str(path), *options])
    assert result.exit_code == 0, result.output
    assert shared.read_text().split() == works
    written = [block for each in rows.between(0, len(rows)) for block in each["block"]]
    assert history.read_table(out, "blocks")["block"].tolist() == written * len(policies)
