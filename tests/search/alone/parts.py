"""The components that can be tested alone, each with the class of its generated tests (stories)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tests.search.alone.block_story import BlockStory
from tests.search.alone.core_story import CoreStory
from tests.search.alone.driver_story import DriverStory
from tests.search.alone.policy_story import PolicyStory
from tests.search.alone.sums_story import SumsStory
from tests.search.alone.tracker_story import TrackerStory
from tests.search.violation import Violation

PARTS: Mapping[str, Callable[[int, int], Any]] = {
    "blocks": BlockStory,
    "core": CoreStory,
    "driver": DriverStory,
    "policies": PolicyStory,
    "sums": SumsStory,
    "tracker": TrackerStory,
}
"""The component's test class by name, called with a seed and a number of steps; `run` raises Violation."""


def run_alone(part: str, seed: int, steps: int) -> None:
    """Run the generated test of one component. Raises Violation if a check fails or the component raises."""
    try:
        PARTS[part](seed, steps).run()
    except Violation:
        raise
    except Exception as error:
        raise Violation(f"no {type(error).__name__}", str(error)) from error
