"""Tests all commands with bad inputs drawn from seeds: no traceback, no hang, no success."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.harness.bad_inputs import SIM, BadInputs, trouble, troubles


def test_a_good_input_succeeds_and_what_goes_wrong_is_seen(tmp_path: Path) -> None:
    BadInputs(tmp_path)
    good = ("run", tmp_path / "good.yaml", *SIM, "--out", tmp_path / "out")
    assert str(trouble(good)).startswith("exit 0")


@pytest.mark.long  # seconds
def test_bad_inputs_end_in_a_line(tmp_path: Path) -> None:
    assert not list(troubles(tmp_path, 120, seed=7))
