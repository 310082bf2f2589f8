"""Fixtures of all tests of deployment."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest


@pytest.fixture(scope="module", autouse=True)
def draw() -> Iterator[Callable[..., Any]]:
    """Leave out the plots of all rebuilt reports, since they take seconds. Yield the function that draws them."""
    from schedbed.deploy.results import plots

    write = plots.write
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plots, "write", lambda *_: [])
        yield write
