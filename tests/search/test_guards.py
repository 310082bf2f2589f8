"""Tests of the fault finder: with a guard disabled or a mutant, a check fails at the listed seed."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.search.generate import make_story
from tests.search.guards import GUARDS, Guard, find
from tests.search.mutants import MUTANTS
from tests.search.search import examine
from tests.search.seeds import EXAMINED

TRIES = 60  # Seeds to search, since a change of decisions may move a failure to another seed.


@pytest.mark.slow  # it tests the finder, not the product, with some ten stories a guard
@pytest.mark.parametrize("guard", [*GUARDS, *MUTANTS], ids=lambda guard: guard.name)
def test_a_guard_that_is_missing_is_missed(guard: Guard) -> None:
    found = find(guard, TRIES)
    assert found is not None, f"{guard.name}: python -m tests.search.guards finds a seed, if there is one"
    story, violation = found
    assert violation.check in guard.checks, f"seed {story.seed}: {violation}"
    if guard.policies is not None or story.seed not in EXAMINED:  # `test_search` examines these
        assert examine(make_story(story.seed, guard.policies)) is None


def test_guards_and_mutants_are_listed() -> None:
    """The table in tests/README.md lists each guard and mutant with its seed."""
    readme = (Path(__file__).parents[1] / "README.md").read_text()
    for guard in (*GUARDS, *MUTANTS):
        assert f"| {guard.name} | {guard.says} | {guard.seed} |" in readme
