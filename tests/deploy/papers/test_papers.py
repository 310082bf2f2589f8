"""Tests that every paper's values are complete: sources, criteria that can be met, experiments' texts."""

from __future__ import annotations

import re

import pytest

from schedbed.deploy.papers import paper_file
from schedbed.deploy.papers.catalogue import PAPERS, CatalogueEntry, entries
from schedbed.deploy.papers.experiment import Measured, by_repeat, minus, percent_less
from schedbed.deploy.papers.figures import Panel, panels

ENTRIES = list(entries().values())


@pytest.mark.parametrize("paper", PAPERS)
def test_every_experiment_of_a_paper_is_there_and_described(paper: str) -> None:
    named = [entry.experiment.name for entry in ENTRIES if entry.paper == paper]
    assert named == list(paper_file.load(paper).experiments)


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.label)
def test_values_say_where_they_stand(entry: CatalogueEntry) -> None:
    for key, value in entry.about.values.items():
        where = value.where or entry.about.where
        assert re.search(r"(Table|Figure|section|abstract)", where), key
        if value.read_off:
            assert "Figure" in where, key
        if value.holds and not value.holds.equal:
            low, high = value.bounds()
            assert low <= high, key
    assert any(value.holds for value in entry.about.values.values())
    assert entry.experiment.takes_s and set(entry.experiment.takes_s) <= {"sim", "process"}


def test_values_are_collected_and_compared_by_repeat() -> None:
    found = by_repeat({"fifo": 10.0 * repeat, "fair": 8.0} for repeat in (1, 2))
    assert found == {"fifo": [10, 20], "fair": [8, 8]}
    assert minus(found["fifo"], found["fair"]) == [2, 12]
    assert percent_less(8, 10) == pytest.approx(20)


def test_panels_show_what_was_measured_beside_the_paper() -> None:
    said = paper_file.load("polo2011").experiments["fig3"].values
    measured = Measured(values={"ras_makespan": [4500.0, 4700.0]})
    chart = Panel({"RAS": "ras_makespan", "Fair": "fair_makespan"}, "makespan [s]")
    figure = pytest.importorskip("matplotlib.figure").Figure()
    panels(chart, chart, sharey=True)(figure, said, measured)
    left, right = figure.axes
    assert [label.get_text() for label in left.get_xticklabels()] == ["RAS"]  # Fair was not measured
    assert [bar.get_height() for bar in right.patches] == [said["ras_makespan"].number, 4600]
