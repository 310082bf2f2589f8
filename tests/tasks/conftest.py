"""Fixtures of all tests of the subpackage `tasks`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from http.client import HTTPConnection
from typing import Any

import pytest

from schedbed.tasks.node_client.http_requests import AgentLink
from schedbed.tasks.pacing import Budget


@pytest.fixture(autouse=True)
def end_of_the_attempt(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Close the connections and budgets after a test, which an attempt keeps open until its process ends."""
    made, opened = Budget.__init__, AgentLink.open
    with ExitStack() as kept:

        def make(self: Budget, *given: Any) -> None:
            made(self, *given)
            kept.callback(self.close)

        def open_link(self: AgentLink, url: str) -> HTTPConnection:
            connection = opened(self, url)
            kept.callback(connection.close)
            return connection

        monkeypatch.setattr(Budget, "__init__", make)
        monkeypatch.setattr(AgentLink, "open", open_link)
        yield
