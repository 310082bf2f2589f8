"""Tests that outputs are copied from the block store, and that a wrong output is found."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from schedbed.cluster.masters import NameNodeDoor, make_stub
from schedbed.cluster.wire.tls import Tls
from schedbed.deploy.live import job_outputs
from schedbed.deploy.live.job_outputs import Outputs
from schedbed.tasks.specs import Demand
from schedbed.tasks.workloads.planned import PlannedJob

DEMAND = Demand(memory_bytes=1)


def wordcount(job: str = "job_0001") -> PlannedJob:
    return PlannedJob(
        job=job,
        name="words",
        app="wordcount",
        user="u",
        input="/in/text",
        maps=1,
        reduces=1,
        map_demand=DEMAND,
        reduce_demand=DEMAND,
    )


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> dict[str, bytes]:
    """Return a fake block store, a dictionary from path to content, in which each file is one block named by
    its path.
    """
    files: dict[str, bytes] = {"/in/text": b"a b a\n"}

    async def fetch(
        blocks: Sequence[str], peers: Mapping[str, str], token: str, tls: Tls | None
    ) -> AsyncIterator[bytes]:
        for path in blocks:
            yield files[path]

    monkeypatch.setattr(job_outputs, "fetch_file", fetch)
    return files


def of(store: dict[str, bytes]) -> Outputs:
    async def send(method: str, args: Sequence[Any], named: Mapping[str, Any]) -> Any:
        (path,) = args
        if method == "list":
            return [
                {"name": name.rpartition("/")[2], "length": len(store[name])}
                for name in sorted(store)
                if name.startswith(path + "/")
            ]
        return [path]

    return Outputs(make_stub(NameNodeDoor, send), {}, "token")


def test_a_right_output_passes_and_leaves_no_copy(store: dict[str, bytes], tmp_path: Path) -> None:
    store["/out/job_0001/part-00000"] = b"a\t2\nb\t1\n"
    assert of(store).check([wordcount()], tmp_path) == []
    assert list(tmp_path.iterdir()) == []


def test_a_lost_word_is_found_and_told(store: dict[str, bytes], tmp_path: Path) -> None:
    store["/out/job_0001/part-00000"] = b"a\t1\nb\t1\n"
    [problem] = of(store).check([wordcount()], tmp_path)
    assert problem.startswith("job_0001 words: wrong output: 'a' was counted 1 times")


def test_committed_parts_are_saved_and_nothing_else(store: dict[str, bytes], tmp_path: Path) -> None:
    store["/out/job_0001/part-00000"] = b"x"
    store["/out/job_0001/_temporary"] = b"y"
    of(store).save([wordcount()], tmp_path)
    assert [path.name for path in (tmp_path / "job_0001").iterdir()] == ["part-00000"]
