"""The measured speed of the hosts' cores, relative to the slowest host."""

from __future__ import annotations

import pytest

from schedbed.cluster.core_trial import ALIKE, CoreTrial, relative_speeds
from tests.harness.tables import NODES


def test_the_slowest_host_is_the_measure_and_what_differs_by_noise_is_alike() -> None:
    found = relative_speeds({"slow": 0.04, "same": 0.04 / (1 + ALIKE / 2), "fast": 0.02})
    assert found == {"slow": 1.0, "same": 1.0, "fast": 2.0}
    assert relative_speeds({"alone": 0.1}) == {"alone": 1.0} and relative_speeds({}) == {}


def test_the_least_of_the_rounds_counts() -> None:
    clock = iter([0.0, 3.0, 3.0, 4.0, 4.0, 9.0])
    assert CoreTrial().least_s(rounds=3, cpu_clock=lambda: next(clock)) == pytest.approx(1.0)


def test_a_node_gets_less_of_a_faster_core() -> None:
    from schedbed.cluster.spec import NodeSpec

    node = NodeSpec(**NODES[0])
    assert node.on_host(1.0) is node
    assert node.on_host(2.0).cpu_rate == pytest.approx(node.cpu_rate / 2)
