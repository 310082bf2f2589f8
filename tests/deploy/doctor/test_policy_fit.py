"""Tests the warnings about policies that would leave nodes of a scenario idle."""

from __future__ import annotations

import pytest

from schedbed.deploy.doctor.doctor import policy_warnings
from schedbed.deploy.scenario.resolve import resolve


def warnings(policy: object, cores: int) -> list[str]:
    """Return the warnings about a policy on two nodes with `cores` cores each."""
    return list(
        policy_warnings(
            resolve(
                {
                    "cluster": {"nodes": 2, "node": {"cores": cores}},
                    "workload": {"jobs": [{"app": "synthetic", "maps": 2, "map": {"cpu": "1s"}}]},
                    "policies": [policy],
                }
            )
        )
    )


@pytest.mark.parametrize("policy", ["fgcs", "order=fifo,admission=fgcs", {"fgcs": {"shortest": "1s"}}])
def test_fgcs_on_two_cores_runs_one_unknown_task_a_node(policy: object) -> None:
    (found,) = warnings(policy, 2)
    assert "2 of 2 nodes have 2 cores, 1 reserved: such a node runs one task at a time" in found


@pytest.mark.parametrize(
    ("policy", "cores"), [("fgcs", 3), ("fgcs:reserved_cores=0", 2), ("fifo", 2), ("ras", 1)]
)
def test_where_two_tasks_fit_or_nobody_asks_for_cores_nothing_is_said(policy: str, cores: int) -> None:
    assert warnings(policy, cores) == []
