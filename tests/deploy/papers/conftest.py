"""Fixtures of all tests of papers: experiments run without the page of each run, which takes a third of the
time.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest


@pytest.fixture(scope="module", autouse=True)
def no_reports() -> Iterator[None]:
    """Leave out the page of each run, which no test here reads."""
    from schedbed.deploy.results import html_report

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(html_report, "_write_report", lambda *_, **__: None)
        yield
