"""Tests that launches of simulated attempts take as long as the launches in recorded runs."""

from __future__ import annotations

import pytest

from schedbed.deploy.simulated.recorded_costs import launches_as_in
from schedbed.scheduler.simulate.setup import Timing
from tests.harness.tables import run_of


def test_each_measured_launch_can_be_drawn() -> None:
    slow = run_of(attempts=[{"assigned": 1.0, "start": 1.5}, {"assigned": 2.0, "start": 2.25}])
    fast = run_of(attempts=[{"assigned": 4.0, "start": 4.125}, {"assigned": 9.0, "start": None}])
    found, timing = launches_as_in([slow, fast]), Timing()
    answer_s = timing.decision_s + timing.reply_s
    drawn = [answer_s + found.launch(core_speed=0.01) + later for later in found.launch_later_s]
    assert drawn == pytest.approx([0.125, 0.25, 0.5])


def test_runs_without_a_launch_are_refused() -> None:
    with pytest.raises(ValueError, match="no attempt"):
        launches_as_in([run_of()])
