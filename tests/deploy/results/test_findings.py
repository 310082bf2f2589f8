"""Tests that the results that a policy reports about itself are in run.json, and their numbers in the
summary.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from schedbed import run
from schedbed.deploy.results.table import rows
from schedbed.scheduler.models.job_profile import JobProfile

SCENARIO: dict[str, Any] = {
    "name": "findings",
    "cluster": {"nodes": 3, "racks": 1, "node": {"cores": 2, "map_slots": 2, "reduce_slots": 1}},
    "workload": {
        "jobs": [
            {
                "name": "burn",
                "app": "synthetic",
                "user": "ana",
                "maps": 8,
                "map": {"cpu": "5s", "read": "1MiB", "write": "1MiB"},
                "reduces": 1,
                "reduce": {"cpu": "1s", "write": "1MiB"},
                "submit": f"{60 * number}s",
                "deadline": "60s",
            }
            for number in range(2)
        ]
    },
    "policies": ["fifo", "csla", {"aria": {"profiles": "none"}}],
}


def test_findings_are_kept(tmp_path: Path) -> None:
    """The summary has CSLA's prediction errors and ARIA's predictions.

    ARIA's learned profile is only in run.json.
    """
    run(SCENARIO, machines="sim", out=tmp_path)
    summary = json.loads((tmp_path / "summary.json").read_text())["policies"]
    fifo, csla, aria = (summary[name] for name in ("fifo", "csla", "aria:profiles=none"))
    assert "findings" not in fifo
    [found] = csla["findings"]["repeats"]
    assert set(found["predictor"]) == {"cpu", "io"}
    assert 0 < found["predictor"]["cpu"]["mae"] <= found["predictor"]["cpu"]["rmse"] < 1
    [shown] = [row for row in rows(summary) if row[0] == "predicted CPU load, MAE [%]"]
    assert shown == ["predicted CPU load, MAE [%]", "-", f"{100 * found['predictor']['cpu']['mae']:.1f}", "-"]
    [found] = aria["findings"]["repeats"]
    assert list(found) == ["predictions"] and list(found["predictions"]) == ["job_0002"]
    kept = json.loads((tmp_path / "run.json").read_text())["runs"]
    profiles = next(one["findings"]["profiles"] for one in kept if one["policy"].startswith("aria"))
    assert JobProfile.from_json(profiles["aria"]["ana/burn"]).runs == 2
