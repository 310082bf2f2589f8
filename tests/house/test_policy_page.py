"""The page about user policies agrees with the code, and lists every hook, view and example."""

from __future__ import annotations

import pytest

from schedbed import policy
from schedbed.scheduler.registry.registry import WITHHELD
from tests.house.policy_page import PAGE, ROOT, rendered, tables


@pytest.mark.skipif(bool(WITHHELD), reason=f"not installed for all policies: {WITHHELD}")
def test_the_tables_of_the_page_are_those_of_the_code() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert rendered(page) == page, "run python -m tests.house.policy_page"


def test_each_field_has_its_row() -> None:
    made = tables()
    assert "| `now_s` | `float` | Seconds since the run's start" in made["View"]
    assert "| `any_reduce()` | `TaskView \\| None` | Return any unstarted reduce" in made["JobView"]
    assert "| `preempt(view)` | Return the attempts to stop now" in made["Hooks"]
    assert "| `aria` |  | yes | yes |" in made["sizes"]


def test_a_page_without_a_place_is_refused() -> None:
    with pytest.raises(ValueError, match="no place for View"):
        rendered("nothing")


def test_the_page_names_all_that_a_policy_imports_and_all_examples() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert [name for name in policy.__all__ if f"`{name}" not in page] == []
    examples = (ROOT / "examples" / "policies").glob("*.py")
    assert [path.name for path in examples if f"examples/policies/{path.name}" not in page] == []
