"""Write every page that is generated from the source or from result files: `python -m tests.pages.write`.

From result files: the pages of `tests.bench.pages` (performance, claims, limits). From the source:
docs/reference, docs/tour.md, and the tables of docs/your-policy.md and docs/faults.md.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from tests.bench import pages
from tests.house import fault_table, policy_page
from tests.pages import command_page, names_page, python_page, scenario_page, table_page, tour

ROOT = Path(__file__).parents[2]
DO_NOT_EDIT = "<!-- Written by `python -m tests.pages.write` from the source: a test compares. -->\n"
OF_SOURCE: Mapping[str, Callable[[], str]] = {
    "docs/reference/cli.md": command_page.page,
    "docs/reference/names.md": names_page.page,
    "docs/reference/python.md": python_page.page,
    "docs/reference/scenario.md": scenario_page.page,
    "docs/reference/tables.md": table_page.page,
    "docs/tour.md": tour.page,
}


def rendered(name: str) -> str:
    """Return the text of a page that is generated from the source."""
    return DO_NOT_EDIT + OF_SOURCE[name]()


def main() -> None:
    """Write all generated pages and tables."""
    pages.write()
    for name in OF_SOURCE:
        (ROOT / name).parent.mkdir(exist_ok=True)
        (ROOT / name).write_text(rendered(name), encoding="utf-8")
    policy_page.PAGE.write_text(policy_page.rendered(policy_page.PAGE.read_text()), encoding="utf-8")
    fault_table.write()


if __name__ == "__main__":
    main()
