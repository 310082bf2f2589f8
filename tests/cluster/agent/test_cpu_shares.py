"""Tests of the division of a node's CPU among attempts that compute, wait, or alternate between both."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schedbed.cluster.agent.node_groups import CpuShares

STEP_S = 0.25  # between two looks


class Node:
    """A node whose cores are each a fifth of a host core; its attempts use up to their shares of the CPU."""

    def __init__(self, cores: int, attempts: int) -> None:
        self.rate = 0.2 * cores
        self.now_s = 100.0
        self.shares = CpuShares(cores, 0.2)
        self.used = {str(number): 0.0 for number in range(attempts)}
        self.quota: dict[str, float] = {}
        for name in self.used:
            self.quota |= self.shares.begin(name, self.now_s, dict(self.used))

    def pass_time(self, wants: dict[str, float], for_s: float = STEP_S) -> dict[str, float]:
        """Let `for_s` seconds pass and return the shares after the next rebalancing.

        `wants` is a dictionary from attempt to the number of host cores it would use. It uses at most its
        share.
        """
        for name, want in wants.items():
            self.used[name] += for_s * min(want, self.quota[name])
        self.now_s += for_s
        self.quota |= self.shares.rebalance(self.now_s, dict(self.used))
        return self.quota

    @property
    def total_s(self) -> float:
        """Return the CPU time that all attempts have used, in seconds of a host core."""
        return sum(self.used.values())


def test_an_attempt_that_waits_takes_nothing_from_one_that_computes() -> None:
    node = Node(cores=1, attempts=2)
    node.pass_time({"0": 1.0, "1": 0.002}, 0.07)
    began_s = node.used["0"]
    for _ in range(20):
        node.pass_time({"0": 1.0, "1": 0.002})
    assert node.used["0"] - began_s == pytest.approx(20 * STEP_S * (0.2 - 0.002), rel=0.03)


def test_an_attempt_that_wakes_has_half_of_an_even_share_at_once_and_soon_all_of_it() -> None:
    node = Node(cores=1, attempts=2)
    for _ in range(8):
        node.pass_time({"0": 1.0, "1": 0.0})
    assert node.quota["1"] == pytest.approx(0.05, rel=0.05)
    node.pass_time({"0": 1.0, "1": 1.0})
    assert (
        node.quota["1"] == pytest.approx(node.quota["0"]) == pytest.approx(0.1, rel=0.3)
    )  # pays a debt back
    for _ in range(12):
        node.pass_time({"0": 1.0, "1": 1.0})
    assert node.quota == pytest.approx({"0": 0.1, "1": 0.1}, rel=0.03)


@given(
    st.integers(1, 2),
    st.lists(st.lists(st.floats(0.0, 0.2), min_size=5, max_size=5), min_size=1, max_size=60),
)
def test_a_node_never_gets_far_above_its_rate(cores: int, wants: list[list[float]]) -> None:
    node = Node(cores, attempts=5)
    for number, row in enumerate(wants, 1):
        node.pass_time({str(attempt): want for attempt, want in enumerate(row)})
        assert node.total_s <= node.rate * (number * STEP_S + 0.3)


def test_attempts_that_wait_and_wake_in_turns_never_get_more_than_the_rate_in_the_long_run() -> None:
    node = Node(cores=1, attempts=4)
    for number in range(400):
        node.pass_time(dict.fromkeys(node.used, 1.0 if number % 2 else 0.0) | {"0": 1.0})
    assert 0.75 < node.total_s / (node.rate * 400 * STEP_S) < 1.01
