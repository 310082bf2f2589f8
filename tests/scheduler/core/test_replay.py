"""A long history of rows, compared with a stored file and between processes with different hash seeds."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from schedbed.scheduler.registry.registry import build_policy
from tests.harness.world import World, job, node

GOLDEN = Path(__file__).with_name("golden_delay.txt")
ROOT = Path(__file__).parents[3]


def rich_history() -> str:
    """Return the rows of jobs of three users under delay scheduling with pre-emption.

    One task fails, one node is lost and returns, and messages are lost.
    """
    fair = {
        "pools": {"bo": {"weight": 2, "min_share": 1}},
        "fair_share_timeout": "15s",
        "node_wait": "200ms",
        "rack_wait": "100ms",
    }
    nodes = [node(f"n{number}", rack=f"r{number % 2}", maps=2) for number in range(5)]
    world = World(build_policy({"delay": fair}), nodes)
    world.failing = lambda attempt, _: "bad luck" if attempt == "job_0002_m_000003_0" else None
    world.loses = lambda name, count: "reply" if (name, count % 7) == ("n3", 0) else ""
    world.durations["job_0001"] = 40_000
    hosts = [f"n{(7 * index) % 5} n{(3 * index + 1) % 5}" for index in range(12)]
    world.submit(job("job_0001", hosts, reduces=2))
    world.submit(job("job_0002", hosts[:5], reduces=1, user="bo", submit_s=5))
    world.submit(job("job_0003", ["n4"] * 4, user="cy", submit_s=6, priority="high"))
    world.submit(job("job_0004", 2, user="cy", submit_s=12))
    world.at(30, lambda: world.crash("n4")).at(60, lambda: world.restart("n4"))
    return world.run().history()


def test_history_matches_the_golden_file():
    """The history equals the stored file.

    After an intended change, run this test with UPDATE_GOLDEN=1 and read the file's diff.
    """
    history = rich_history()
    if os.environ.get("UPDATE_GOLDEN"):
        GOLDEN.write_text(history)
    assert history == GOLDEN.read_text()


@pytest.mark.long  # seconds
def test_history_does_not_depend_on_the_process():
    """Processes with different hash seeds give the same history, so no result depends on the order of a set
    or on hash().
    """
    code = "from tests.scheduler.core.test_replay import rich_history; print(rich_history(), end='')"

    def simulate(hash_seed: str) -> str:
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
        return subprocess.run(
            [sys.executable, "-c", code],
            cwd=ROOT,
            env=environment,
            capture_output=True,
            text=True,
            check=True,
        ).stdout

    first = simulate("1")
    assert first == simulate("2")
    assert len(first.splitlines()) > 60
