"""The figures of docs/policies.md are those that the present simulator gives."""

from __future__ import annotations

from dataclasses import replace

import pytest

from schedbed.scheduler.registry.registry import POLICIES
from tests.bench.figures import Figure, ResultFile
from tests.pages.when_pays import CASES, KEPT, simulate, table


@pytest.mark.slow  # simulates a case of each policy
@pytest.mark.parametrize("name", CASES)
def test_the_first_repeat_is_as_kept(name: str) -> None:
    """Each kept value of the first repeat is reproduced.

    A change of the simulator or a policy requires a new table.
    """
    case = CASES[name]
    missing = set(case.policies) - set(POLICIES)
    if missing:
        pytest.skip(f"{', '.join(missing)}: not listed without OR-Tools")
    kept = {figure.name: figure.values[0] for figure in ResultFile.load(KEPT / f"{name}.json").figures}
    found = {figure.name: figure.values[0] for figure in simulate(replace(case, repeats=1))}
    assert found == pytest.approx(kept), "python -m tests.pages.when_pays"


def test_a_table_has_a_column_for_each_policy_and_intervals_only_where_repeats_differ() -> None:
    figures = [
        Figure(name="late jobs | a", values=[2.0, 2.0, 2.0]),
        Figure(name="late jobs | b", values=[1.0, 2.0, 3.0]),
    ]
    text = table(ResultFile(title="t", date="today", host="h", command="c", figures=figures))
    assert "| | `a` | `b` |" in text
    assert "| late jobs | 2 | 2 [-0.484, 4.48] |" in text
