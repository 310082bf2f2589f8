"""Simulates users' applications, whose costs are declared, or measured once in a child process and stored."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

import schedbed
from schedbed.deploy.simulated import own_costs
from schedbed.scheduler.profiles import ProfileStore
from schedbed.tasks.errors import BadInput

JOB = {"app": "streaming", "mapper": "cat", "reducer": "cat", "input": {"generate": "text", "size": "600kB"}}


@pytest.fixture(autouse=True)
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the path of a new profile store, and forget costs that other tests have measured."""
    monkeypatch.setenv("SCHEDBED_PROFILES", str(tmp_path / "profiles.sqlite"))
    monkeypatch.setattr(own_costs, "_known", {})
    monkeypatch.chdir(tmp_path)
    return tmp_path / "profiles.sqlite"


def simulated(*jobs: Mapping[str, Any]) -> schedbed.Result:
    values = {
        "cluster": {"nodes": 2, "node": {"core_speed": 0.1}},
        "blocks": {"size": "300kB", "replication": 1},
        "workload": {"jobs": list(jobs)},
        "policies": ["fifo"],
    }
    return schedbed.run(values, machines="sim")


@pytest.mark.long  # seconds
def test_costs_are_measured_once_and_the_same_ever_after(
    store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = simulated(JOB, JOB).attempts
    [name] = ProfileStore(store).load_all(own_costs.KIND)
    assert name.startswith("streaming ")
    monkeypatch.setattr(own_costs, "_known", {})

    def nobody(*_: object) -> None:
        raise AssertionError("it was measured again")

    monkeypatch.setattr(own_costs, "ask", nobody)
    assert simulated(JOB, JOB).attempts.equals(first)
    maps = first[first["kind"] == "map"]
    assert (maps["output_bytes"] > 250_000).all() and (maps["cpu_s"] > 0).all()
    with pytest.raises(AssertionError, match="measured again"):
        simulated({**JOB, "mapper": "cat | cat"})


def test_declared_costs_run_nothing(store: Path) -> None:
    broken = {**JOB, "mapper": "exit 9", "costs": {"map_s_per_mb": 2.0, "map_output": 0.5, "output": 0.1}}
    attempts = simulated(broken).attempts
    maps = attempts[attempts["kind"] == "map"]
    assert maps["output_bytes"].tolist() == [150_000, 150_000]
    assert maps["cpu_s"].tolist() == pytest.approx([0.6, 0.6], rel=0.05)
    assert attempts[attempts["kind"] == "reduce"]["output_bytes"].tolist() == [30_000]
    assert not store.exists()


def test_an_application_that_fails_on_its_sample_is_one_line(store: Path) -> None:
    with pytest.raises(BadInput) as caught:
        simulated({**JOB, "mapper": "echo no >&2; exit 3"})
    assert str(caught.value) == (
        "job_0001 streaming fails on a sample of its input: mapper `echo no >&2; exit 3` exited with status 3: no; "
        "costs: {...} in the scenario declares its costs"
    )


def test_an_application_that_takes_too_long_is_one_line(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(own_costs, "LIMIT_S", 0.5)
    (store.parent / "slow.py").write_text(
        "class Slow:\n    def map(self, line):\n        while True: yield line, 1\n"
    )
    with pytest.raises(
        BadInput, match=r"job_0001 slow.py:Slow: a sample .* did not end within 500ms; costs: "
    ):
        simulated({"app": "slow.py:Slow", "input": JOB["input"], "params": {"output_limit": "1GiB"}})
