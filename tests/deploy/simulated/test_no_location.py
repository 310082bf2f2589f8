"""Recorded maps whose input has no recorded location have none in a replay, and the table says so."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import schedbed
from schedbed.deploy.results.comparison import FIGURES, leaf_of


def recorded(folder: Path, places: int) -> Path:
    """Write a Rumen trace of one job with 12 maps, of which the first `places` have a location."""
    attempt = {"result": "SUCCESS", "startTime": 1000, "finishTime": 11_000, "hostName": "/r/h1"}
    maps = [
        {
            "inputBytes": 1_000_000,
            "outputBytes": 0,
            "preferredLocations": [{"layers": ["/r", f"h{index % 4}"]}] if index < places else [],
            "attempts": [attempt],
        }
        for index in range(12)
    ]
    job = {
        "jobID": "job_1_1",
        "submitTime": 500,
        "finishTime": 30_000,
        "outcome": "SUCCESS",
        "mapTasks": maps,
    }
    (folder / "t.json").write_text(json.dumps(job | {"totalMaps": 12, "totalReduces": 0}))
    return folder / "t.json"


@pytest.mark.parametrize("places", [0, 4, 12])
@pytest.mark.parametrize("policy", ["capacity", "delay:node_wait=20s"])
def test_a_map_without_a_location_has_none(tmp_path: Path, places: int, policy: str) -> None:
    scenario = {
        "cluster": {"nodes": 6},
        "workload": {"trace": str(recorded(tmp_path, places))},
        "policies": [policy],
    }
    result: Any = schedbed.run(scenario, machines="sim")
    seen = result.attempts["locality"].astype(str)
    assert (seen == "none").sum() == 12 - places
    found = result.summary["policies"][policy]["locality"]["tasks"]
    assert set(found) == {"node", "rack", "off"} | ({"none"} if places < 12 else set())
    if places < 12:
        assert found["none"]["mean"] == pytest.approx((12 - places) / 12)
    [row] = [figure for figure in FIGURES if figure.label == "maps with no location"]
    assert (leaf_of(result.summary["policies"][policy], row.path) is not None) == (places < 12)
