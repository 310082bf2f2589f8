"""Fixtures of all tests of the fourth room."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest


@pytest.fixture(scope="module", autouse=True)
def draw() -> Iterator[Callable[..., Any]]:
    """Leave the plots out of all runs, and return what draws them: plots take two thirds of a small run's time."""
    from schedbed.deploy.results import plots

    write = plots.write
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plots, "write", lambda *_: [])
        yield write
