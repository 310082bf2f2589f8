"""Scarlett and CDRM on a live cluster: they add replicas of files that jobs read, and change no output."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from schedbed.scheduler.history import read_tables
from schedbed.tasks.appkit.app_catalogue import generate
from tests.harness.command import SCENARIO, outputs, start_run, write_scenario

pytestmark = pytest.mark.live

SCHEMES: dict[str, Any] = {
    "scarlett": {"scarlett": {"epoch": "20s", "delta": 1, "budget": 1}},
    "cdrm": {"cdrm": {"epoch": "20s", "availability": 0.99, "failure": 0.1}},
}
SIZE_BYTES = 96 * 2**20
WORDS = {"app": "wordcount", "input": {"generate": "text", "size": SIZE_BYTES}, "reduces": 1}
JOBS = [
    {**WORDS, "name": "one", "user": "ana"},
    {**WORDS, "name": "other", "user": "bo"},
    {**WORDS, "name": "later", "user": "cleo", "submit": "60s"},
]


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Run each replication scheme, and return a dictionary from scheme to the folder of its results.

    All input is on one of three nodes, and three jobs read it.
    """
    found: dict[str, Path] = {}
    for name, scheme in SCHEMES.items():
        folder = tmp_path_factory.mktemp(name)
        blocks = {"size": "16MiB", "replication": 1, "placement": {"skewed": 0.3}, "dynamic": scheme}
        path = write_scenario(
            folder, blocks=blocks, workload={"jobs": JOBS}, policies=["fifo"], profiles={"store": "none"}
        )
        command, found[name] = start_run(folder, path)
        assert command.wait() == 0, command.text()
        assert command.left_behind() == []
    return found


@pytest.mark.parametrize("scheme", ["scarlett", "cdrm"])
def test_replicas_come_to_be_where_none_were(
    finished: dict[str, Path], undisturbed: Path, scheme: str
) -> None:
    blocks = read_tables(finished[scheme])["blocks"]
    made = blocks[(blocks["cause"] == scheme) & blocks["file"].str.startswith("/in/")]
    assert len(made) > 0 and (made["node"] != "n1").all()
    assert set(read_tables(undisturbed)["blocks"]["cause"]).isdisjoint(SCHEMES)


@pytest.mark.parametrize("scheme", ["scarlett", "cdrm"])
def test_the_outputs_are_the_words_of_the_input(finished: dict[str, Path], scheme: str) -> None:
    counts = Counter(
        b"".join(generate("text", int(SIZE_BYTES * SCENARIO["scale"]), SCENARIO["seed"])).split()
    )
    expected = b"".join(b"%s\t%d\n" % counted for counted in sorted(counts.items()))
    parts = {f"job_000{number}/part-00000": expected for number in range(1, len(JOBS) + 1)}
    assert outputs(finished[scheme], "fifo") == parts
