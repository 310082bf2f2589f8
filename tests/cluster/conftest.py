"""Fixtures of the agents' tests."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.harness.agents import Rig, Story


@pytest.fixture
def live(tmp_path: Path) -> Callable[[Story], None]:
    """Return a function that runs a test's coroutine with a rig of agents, and then stops all machines."""

    def tell(story: Story) -> None:
        async def whole() -> None:
            rig = Rig(tmp_path)
            try:
                await story(rig)
            finally:
                await rig.close()

        asyncio.run(whole())

    return tell
