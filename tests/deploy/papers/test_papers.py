"""Tests that every paper's values are complete: sources, criteria that can be met, experiments' texts."""

from __future__ import annotations

import re

import pytest

from schedbed.deploy.papers import paper_file
from schedbed.deploy.papers.catalogue import PAPERS, CatalogueEntry, entries

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
