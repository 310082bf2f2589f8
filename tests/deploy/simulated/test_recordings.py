"""Recorded runs of real schedulers, and their simulation under the presets: docs/agrees.md shows these rows.

The recordings are in `examples/recorded` and in `../shared/traces`, each with a README that says how far to trust
which run.
"""

from __future__ import annotations

import pytest

from tests.pages.agrees import MAPREDUCE, PAIRS, ROWS, YARN, Row, effects, load, simulated

KEPT = load("simulated")["rows"]
NOISE = {YARN: 0.06}  # README of the recordings: repeats differ by 0 to 7% a job.


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_a_row_of_the_page_is_what_the_simulation_gives(row: Row) -> None:
    """After an intended change: python -m tests.pages.agrees, then python -m tests.bench.pages."""
    if not row.path.exists():
        pytest.skip("the folder with recordings of real schedulers is not beside the repository")
    found = simulated(row)
    assert found == KEPT[row.name]
    if row.most is not None:
        assert found["alone"]["error"] <= row.most
    if row.most_with is not None:
        assert found["with"]["error"] <= row.most_with
        few = row.system == MAPREDUCE  # Two of three jobs that end together say nothing about the order.
        assert few or (found.get("alone") or found["with"])["order"] >= 0.6


@pytest.mark.parametrize("pair", PAIRS, ids="-".join)
def test_the_better_of_two_settings_is_the_recorded_one(pair: tuple[str, str, str, str]) -> None:
    """Where recorded repeats of one setting differ as much as the pair does, there is no better one."""
    recorded, here = effects(KEPT, pair)
    assert recorded * here > 0 or abs(recorded) < NOISE.get(pair[0], 0.01)
