"""The notebooks of examples/ run, and their saved outputs are those of the present version."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.pages.notebooks import NOTEBOOKS, PICTURE, ran, read, without_pictures


@pytest.mark.slow  # some thirty simulations
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_shows_what_its_cells_give(path: Path) -> None:
    kept = read(path)
    assert without_pictures(ran(kept)) == without_pictures(kept), "run: python -m tests.pages.notebooks"


def test_both_notebooks_show_a_comparison_with_lanes() -> None:
    texts = {path.stem: path.read_text(encoding="utf-8") for path in NOTEBOOKS}
    assert sorted(texts) == ["compare_policies", "your_own_policy"]
    for text in texts.values():
        assert "makespan [s]" in text and PICTURE.search(text) and len(text) < 300_000
