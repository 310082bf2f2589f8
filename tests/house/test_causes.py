"""A claim counts as refuted only with a cause that results show.

All other claims that do not hold count as open.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from schedbed.deploy.papers import paper_file
from schedbed.deploy.papers.verdict import FAILS, HOLDS, OPEN, Row, judge_kept
from tests.bench.pages import RESULTS
from tests.pages import causes, claims

CLAIM = "polo2011/fig3/gain_four"  # the paper's 5%, within a quarter
OTHER = "polo2011/fig3/gain_least"
CHANGED = "polo2011/map/old_c3"
KEPT = {CLAIM: (-1.0, 1.0), OTHER: (-2.0, -1.0), CHANGED: (2.5, 5.5), "polo2011/fig3/J2": (600.0, 700.0)}


def row(key: str, low: float, high: float) -> Row:
    paper, experiment, value = key.split("/")
    said = paper_file.load(paper).experiments[experiment].values[value]
    return judge_kept(value, said, "Figure 3", mean=(low + high) / 2, ci95=(low, high))


ROWS = {key: row(key, *interval) for key, interval in KEPT.items()}
ONCE, OFF, WIDE = "polo2011/map/old_c8", "polo2011/map/old_c3_fit", "polo2011/map/nvme_c3"
ROWS[ONCE] = replace(row(ONCE, 4.0, 6.0), ci95=None)
ROWS |= {OFF: row(OFF, 2.0, 5.0), WIDE: row(WIDE, -1.0, 9.0)}


def load(folder: Path, *given: dict[str, Any]) -> causes.Checked:
    (folder / causes.CAUSES).write_text(yaml.safe_dump(list(given)))
    return causes.load(folder, ROWS)


def test_a_claim_without_a_cause_counts_as_open(tmp_path: Path) -> None:
    assert [ROWS[key].verdict for key in KEPT] == [FAILS, FAILS, HOLDS, HOLDS]
    checked = load(tmp_path, {"because": "The disk.", "changed": {CLAIM: CHANGED}})
    counts = causes.tally([CLAIM, OTHER, "polo2011/fig3/J2"], ROWS, checked)
    assert (counts.hold, counts.caused, counts.without, counts.open) == (1, 1, 1, 1)
    caused, without = causes.texts([CLAIM, OTHER], ROWS, checked)
    assert "The disk. Shown by polo2011/map" in caused and "4 [2.5, 5.5]" in caused
    assert without.startswith("No cause is shown") and ROWS[OTHER].what in without


def test_a_claim_whose_interval_is_undecided_is_open(tmp_path: Path) -> None:
    rows = {**ROWS, CLAIM: row(CLAIM, 1.0, 5.0)}
    assert rows[CLAIM].verdict == OPEN
    assert causes.tally([CLAIM], rows, {}).open == 1


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"changed": {CLAIM: "polo2011/causes/gone"}}, "there is no result of polo2011/causes/gone"),
        ({"changed": {"polo2011/fig3/J2": CHANGED}}, "holds, expected one that does not hold"),
        ({"changed": {CLAIM: OTHER}}, f"not shown by {OTHER}, which is -1.5 [-2, -1], expected within 25%"),
        ({"claims": [CLAIM], "shown": {CHANGED: {"at_least": 3}}}, f"not shown by {CHANGED}"),
        ({"changed": {CLAIM: OFF}}, "of its mean at least"),
        ({"changed": {CLAIM: WIDE}}, "a whole interval from the unchanged value"),
        ({"changed": {CLAIM: ONCE}}, "has no interval, expected three repeats or more"),
        ({"claims": [CLAIM]}, "expected changed"),
        ({"claims": [CLAIM], "changed": {CLAIM: CHANGED}}, "expected changed"),
    ],
)
def test_a_cause_that_results_do_not_show_is_refused(tmp_path: Path, given: Any, told: str) -> None:
    with pytest.raises(ValueError) as error:
        load(tmp_path, {"because": "The disk.", **given})
    assert told in str(error.value)


def test_other_values_show_a_cause_when_all_of_their_interval_does(tmp_path: Path) -> None:
    shown = {"because": "The disk.", "claims": [CLAIM, OTHER], "shown": {CHANGED: {"at_least": 1}}}
    assert set(load(tmp_path, shown)) == {CLAIM, OTHER}
    with pytest.raises(ValueError, match="has two causes"):
        load(tmp_path, shown, shown)


def test_the_page_shows_a_cause_of_every_claim_that_is_not_counted_as_open() -> None:
    """Exactly those kept claims count as refuted that do not hold and have a cause."""
    rows = claims.rows_of(claims.load(RESULTS / "reproduce" / "sim"))
    checked = causes.load(RESULTS / "reproduce", rows)
    counts = causes.tally(rows, rows, checked)
    failing = [key for key, each in rows.items() if each.verdict == FAILS]
    assert set(checked) <= set(failing)
    assert (counts.caused, counts.without) == (len(checked), len(failing) - len(checked))
