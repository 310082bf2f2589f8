"""Tests nodes that die while a run starts.

A node that dies after the start was announced is lost as usual; before, the run fails without the node.
"""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from ray import exceptions
from ray.exceptions import RayActorError

from schedbed.deploy.failures import RunFailed
from schedbed.deploy.live import ray_cluster, ray_join
from schedbed.deploy.live.ray_cluster import RayCluster


class FakeTracker:
    """A fake TaskTracker. If it is `down`, a call returns the error that Ray would raise."""

    def __init__(self, *, down: bool = False) -> None:
        self.down = down
        self.heard_s: list[float] = []

    def introduce(self, peers: dict[str, str], racks: dict[str, str], epoch_s: float) -> Any:
        if self.down:
            return RayActorError()
        self.heard_s.append(epoch_s)
        return "heard"


def get(calls: list[Any], timeout: float) -> list[Any]:
    for call in calls:
        if isinstance(call, Exception):
            raise call
    return calls


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RayCluster:
    fake = SimpleNamespace(
        get=get, wait=lambda calls, num_returns, timeout: (calls, []), exceptions=exceptions
    )
    for module in (ray_cluster, ray_join):
        monkeypatch.setattr(module, "ray", fake)
    cluster = RayCluster([], tmp_path)
    trackers: dict[str, Any] = {"n1": FakeTracker(), "n2": FakeTracker(down=True), "n3": FakeTracker()}
    cluster.trackers = trackers
    return cluster


def test_a_node_that_is_lost_as_the_run_begins_does_not_end_the_run(cluster: RayCluster) -> None:
    cluster.introduce({}, {}, 100.0)
    heard: dict[str, Any] = cluster.trackers
    assert {name: tracker.heard_s for name, tracker in heard.items()} == {
        "n1": [100.0],
        "n2": [],
        "n3": [100.0],
    }


def test_before_the_run_has_begun_a_lost_node_ends_it_in_one_line(cluster: RayCluster) -> None:
    with pytest.raises(RunFailed, match=r"^a run needs all its nodes: .+$") as caught:
        cluster.introduce({}, {}, 0.0)
    assert "\n" not in str(caught.value)
