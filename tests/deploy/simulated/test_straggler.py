"""Tests the shipped scenario of a straggler: the time that speculation by LATE saves, and the wasted work."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from schedbed import run

SCENARIO = Path(__file__).parents[3] / "deploy" / "scenarios" / "straggler.yaml"


def simulated(speculation: Any, out: Path) -> tuple[float, float, int]:
    """Simulate the scenario under `fifo` with these settings of speculation.

    Return the makespan in seconds, the wasted core-seconds, and the number of speculative attempts.
    """
    values = yaml.safe_load(SCENARIO.read_text()) | {"speculation": speculation}
    result = run(values, policies=["fifo"], machines="sim", out=out)
    jobs, attempts = result.jobs, result.attempts
    assert set(jobs["state"]) == {"succeeded"}
    wasted = attempts[attempts["state"] != "succeeded"]["cpu_s"].sum()
    return float(jobs["finish"].max()), float(wasted), int(attempts["speculative"].sum())


@pytest.mark.long  # seconds
def test_late_gains_a_quarter_of_the_makespan_and_its_waste_is_told(tmp_path: Path) -> None:
    without, nothing, none = simulated("none", tmp_path / "none")
    with_, wasted, copies = simulated("late", tmp_path / "late")
    assert (nothing, none) == (0.0, 0)
    assert with_ <= 0.75 * without
    assert copies >= 2 and 0 < wasted < 5
