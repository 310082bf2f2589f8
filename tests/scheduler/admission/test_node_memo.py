"""Tests that values computed from a node's attempts are computed again only if the attempts have changed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from schedbed.scheduler.admission.node_memo import NodeMemo
from schedbed.scheduler.core.entities import Node
from tests.harness.simulation import node, random_faults, random_jobs, setup, simulate


def test_a_result_is_kept_for_a_turn_of_a_life_of_a_node() -> None:
    calls: list[int] = []

    def count(node: Any) -> int:
        calls.append(node.incarnation)
        return len(calls)

    memo: NodeMemo[int] = NodeMemo(count)
    first, second = Node(node("n1"), 1, 0.0), Node(node("n1"), 2, 0.0)
    assert [memo.of(first), memo.of(first)] == [1, 1]
    first.turn += 1
    assert [memo.of(first), memo.of(first)] == [2, 2]
    second.turn = first.turn
    assert memo.of(second) == 3
    memo.drop(lambda result: result == 3)
    assert memo.of(second) == 4
    memo.clear()
    assert memo.of(second) == 5


def test_nothing_is_kept_for_a_node_that_does_not_count_its_changes() -> None:
    class Unknown:
        node = "n1"

    calls: list[Any] = []
    memo: NodeMemo[None] = NodeMemo(calls.append)
    for _ in range(3):
        memo.of(Unknown())  # type: ignore[arg-type]
    assert len(calls) == 3


@pytest.mark.parametrize("faults", [(), ("kill", "slow"), ("partition", "freeze"), ("crash_jobtracker",)])
@pytest.mark.parametrize("policy", ["fgcs", "ras", "order=fair,locality=delay,admission=fgcs"])
def test_what_is_kept_is_what_would_be_computed(
    policy: str, faults: Sequence[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = NodeMemo.of
    asked = 0

    def check(memo: NodeMemo[Any], node: Any) -> Any:
        nonlocal asked
        asked += 1
        found = kept(memo, node)
        assert found == memo._compute(node)
        return found

    monkeypatch.setattr(NodeMemo, "of", check)
    for seed in range(3):
        jobs, files = random_jobs(seed, 12)
        made = setup(jobs, 4, policy=policy, files=files, seed=seed)
        simulate(replace(made, faults=random_faults(seed, 4, faults)))
    assert asked > 100
