"""The pages of figures and claims agree with the result files, and no result is left out."""

from __future__ import annotations

import pytest

from tests.bench import pages
from tests.bench.figures import ROOT, Figure, ResultFile


@pytest.mark.parametrize("name", pages.PAGES)
def test_a_page_is_what_the_result_files_give(name: str) -> None:
    committed = (ROOT / "docs" / name).read_text(encoding="utf-8")
    assert committed == pages.PAGES[name](), "edit docs/results, then: python -m tests.bench.pages"


def test_a_table_shows_each_figure_with_its_verdict_and_source() -> None:
    figures = [
        Figure(name="gap", values=[41.0, 39.0, 50.0], unit="ms", high=40, note="busy"),
        Figure(name="rate", values=[85_000], unit="tasks/s", low=60_000, median_of=3),
    ]
    kept = ResultFile(title="Overhead", date="2026-01-02", host="2 cores", command="run it", figures=figures)
    assert pages.table(kept).splitlines()[2:] == [
        "Measured on 2026-01-02. Host: 2 cores. Command: `run it`.",
        "",
        "| figure | target | median (min..max) | repeats | |",
        "|---|---|---|---|---|",
        "| gap (busy) | <= 40 ms | 41 ms (39..50) | 3 | missed |",
        "| rate | >= 60,000 tasks/s | 85,000 tasks/s | 3 | met |",
    ]


@pytest.mark.parametrize("template", ["{{old}}\n", "{{new}}\n{{old}}\n", "no place\n", "{{new}}\n{{new}}\n"])
def test_a_result_without_its_place_is_refused(template: str) -> None:
    assert pages.fill("a\n{{new}}\nb\n", {"new": "table\n"}).endswith("a\ntable\nb\n")
    with pytest.raises(ValueError, match="places"):
        pages.fill(template, {"new": "table\n"})
