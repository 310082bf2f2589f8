"""The reference pages agree with the source from which they are generated."""

from __future__ import annotations

import pytest

from schedbed.scheduler.registry.registry import WITHHELD
from tests.pages import table_page, tour
from tests.pages.write import OF_SOURCE, ROOT, rendered


@pytest.mark.skipif(bool(WITHHELD), reason=f"not installed for all policies: {WITHHELD}")
@pytest.mark.parametrize("name", OF_SOURCE)
def test_a_page_is_what_the_source_says(name: str) -> None:
    committed = (ROOT / name).read_text(encoding="utf-8")
    assert committed == rendered(name), "edit the source, then: python -m tests.pages.write"


def test_a_column_without_a_comment_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(table_page.COLUMNS, "faults", {"cost": "int64"})
    with pytest.raises(ValueError, match=r"faults\.cost has no comment"):
        table_page.page()


def test_pages_hold_what_a_reader_looks_up() -> None:
    wanted = {
        "docs/reference/cli.md": "| `--policy SPEC` | Policy to use instead of those in the scenario",
        "docs/reference/names.md": "| `node_wait` |",
        "docs/reference/scenario.md": "| `heartbeat` | duration | `500ms` |",
        "docs/reference/tables.md": "| `deadline` | number | when the job should have ended",
        "docs/reference/python.md": "### schedbed.run\n\n```text\nrun(\n    scenario:",
    }
    for name, text in wanted.items():
        assert text in rendered(name), name


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("{{code scheduler/core/core.py:Core.gone}}", "is no function"),
        ("{{test tests/pages/test_generated.py:test_gone}}", "has no test_gone"),
        ("{{figure 3}}", "neither code nor a test"),
    ],
)
def test_what_the_tour_shows_must_be_there(text: str, fault: str) -> None:
    with pytest.raises(ValueError, match=fault):
        tour.rendered(f"{text}\n")


def test_the_tour_shows_code_without_its_docstring() -> None:
    shown = tour.rendered("{{code scheduler/models/dtss.py:best_share}}\n")
    assert "def best_share(local_s: float" in shown and "both parts end at once" not in shown
