"""Tests `changes`: parameters of policies that change during a run, in all engines, and after a crash."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from schedbed.deploy.results.record_check import open_record
from schedbed.deploy.results.recorded import Recorded
from schedbed.deploy.scenario.resolve import resolve
from schedbed.deploy.scenario.resolved import ResolvedScenario
from schedbed.deploy.whole_run import RunOptions, run_scenario
from schedbed.scheduler.history import read_tables
from schedbed.tasks.errors import BadInput

BURN = {"app": "synthetic", "maps": 60, "map": {"cpu": "4s"}}
BIDS = {"dp": {"interval": "10s"}}
HALVES = {"capacity": {"queues": {"a": {"capacity": 50}, "b": {"capacity": 50}}}}
BID = {"at": "15s", "accounts": {"ana": {"bid": 3}}}
SHARES = {"at": "15s", "queues": {"a": {"capacity": 75, "user_limit_factor": 2}, "b": {"capacity": 25}}}


def scenario(*changes: Any, policies: Any = (BIDS, HALVES), **more: Any) -> dict[str, Any]:
    return {
        "cluster": {"nodes": 4, "heartbeat": "500ms", "node": {"cores": 2, "map_slots": 2}},
        "workload": {"jobs": [{**BURN, "user": "ana", "queue": "a"}, {**BURN, "user": "bo", "queue": "b"}]},
        "policies": list(policies),
        "changes": list(changes),
        **more,
    }


def shares(folder: Path, policy: str, from_s: float, until_s: float) -> float:
    """Return which share of the maps launched in a time belong to the first job."""
    attempts = Recorded(folder, open_record(folder)).tables(policy, 0).attempts
    late = attempts[(attempts["assigned"] >= from_s) & (attempts["assigned"] < until_s)]
    return float((late["job"] == "job_0001").mean())


def run(folder: Path, given: dict[str, Any]) -> list[str]:
    folder.mkdir()
    run_scenario(resolve(given), RunOptions(out=folder, machines="sim", live=False, report=False))
    return open_record(folder).policies


@pytest.mark.parametrize("more", [{}, {"faults": [{"at": "20s", "crash": "jobtracker", "for": "1s"}]}])
def test_bids_and_shares_change_at_their_time_and_survive_a_crash(tmp_path: Path, more: Any) -> None:
    dp, capacity = run(tmp_path / "a", scenario(BID, SHARES, **more))
    for policy in (dp, capacity):
        assert shares(tmp_path / "a", policy, 0, 10) == pytest.approx(0.5, abs=0.05)
        assert shares(tmp_path / "a", policy, 30, 42) == pytest.approx(0.75, abs=0.1)


def test_a_run_can_be_repeated_from_its_record(tmp_path: Path) -> None:
    run(tmp_path / "a", scenario(BID, scale=0.5))
    again = ResolvedScenario.from_json(open_record(tmp_path / "a").scenario)
    assert [(each.at_s, each.given) for each in again.changes] == [(7.5, {"accounts": {"ana": {"bid": 3}}})]
    (tmp_path / "b").mkdir()
    run_scenario(again, RunOptions(out=tmp_path / "b", machines="sim", live=False, report=False))
    first, second = read_tables(tmp_path / "a"), read_tables(tmp_path / "b")
    assert all(first[name].equals(second[name]) for name in ("attempts", "decisions", "jobs"))


def test_a_policy_without_the_parameter_is_not_affected(tmp_path: Path) -> None:
    plain = run(tmp_path / "a", scenario(policies=["fifo", BIDS]))
    changed = run(tmp_path / "b", scenario(BID, policies=["fifo", BIDS]))
    assert plain == changed
    kept, other = (Recorded(tmp_path / name, open_record(tmp_path / name)) for name in ("a", "b"))
    assert kept.tables("fifo", 0).attempts.equals(other.tables("fifo", 0).attempts)
    assert not kept.tables(plain[1], 0).attempts.equals(other.tables(plain[1], 0).attempts)


@pytest.mark.parametrize(
    ("change", "line"),
    [
        ({"at": "1s"}, r"changes\[0\]: nothing changes, expected accounts or queues"),
        (
            {"at": "1s", "accounts": {"ana": {"bid": 0}}},
            r"account ana: bid: 0 is not a number above 0",
        ),
        ({"at": "1s", "queues": {"c": {"capacity": 1}}}, r"capacities add up to 101, expected at most 100"),
        ({"at": "1s", "cycle": "5s"}, r"changes\[0\].cycle: unknown key"),
        ({"accounts": {"ana": {"bid": 1}}}, r"changes\[0\].at"),
    ],
)
def test_a_wrong_change_is_one_line(change: Any, line: str) -> None:
    with pytest.raises(BadInput, match=line):
        resolve(scenario(change))


def test_a_change_that_no_policy_takes_is_refused() -> None:
    with pytest.raises(BadInput, match=r"changes\[0\]: no policy here has accounts to change"):
        resolve(scenario(BID, policies=["fifo", HALVES]))
