"""Scarlett and CDRM on a live cluster: they add replicas of files that jobs read, and change no output."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from schedbed.scheduler.history import read_tables
from tests.harness.command import outputs, start_run, write_scenario

pytestmark = pytest.mark.live

SCHEMES: dict[str, Any] = {
    "none": "none",
    "scarlett": {"scarlett": {"epoch": "20s", "delta": 1, "budget": 1}},
    "cdrm": {"cdrm": {"epoch": "20s", "availability": 0.99, "failure": 0.1}},
}
WORDS = {"app": "wordcount", "input": {"generate": "text", "size": "96MiB"}, "reduces": 1}
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
def test_replicas_come_to_be_where_none_were(finished: dict[str, Path], scheme: str) -> None:
    blocks = read_tables(finished[scheme])["blocks"]
    made = blocks[(blocks["cause"] == scheme) & blocks["file"].str.startswith("/in/")]
    assert len(made) > 0 and (made["node"] != "n1").all()
    assert set(read_tables(finished["none"])["blocks"]["cause"]).isdisjoint(SCHEMES)


@pytest.mark.parametrize("scheme", ["scarlett", "cdrm"])
def test_the_outputs_are_those_without_a_scheme(finished: dict[str, Path], scheme: str) -> None:
    expected = outputs(finished["none"], "fifo")
    assert len(expected) == len(JOBS) and all(expected.values())
    assert outputs(finished[scheme], "fifo") == expected
