"""Recorded runs of real schedulers, and their simulation under the presets: docs/agrees.md shows these rows.

The recordings are in `examples/recorded` and in `../shared/traces`, each with a README that says how far to trust
which run.
"""

from __future__ import annotations

import pytest

from tests.pages.agrees import MAPREDUCE, PAIRS, ROWS, YARN, Row, effects, load, simulated

KEPT = load("simulated")["rows"]


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
        assert found["with" if row.system == MAPREDUCE else "alone"]["order"] >= 0.8


@pytest.mark.parametrize("pair", [pair for pair in PAIRS if pair[0] != YARN], ids="-".join)
def test_the_better_of_two_settings_is_the_recorded_one(pair: tuple[str, str, str, str]) -> None:
    recorded, here = effects(KEPT, pair)
    assert recorded * here > 0 or abs(recorded) < 0.01
