"""The seeds whose stories every whole test run examines."""

from __future__ import annotations

from tests.search.generate import LATER, NEWER, PAIRED, PAIRS, SHARED

SEEDS, AT_ONCE = 200, 10
FIRST = [
    *range(0, SEEDS, AT_ONCE),
    *range(NEWER, NEWER + 60, AT_ONCE),
    *range(LATER, LATER + 40, AT_ONCE),
    *range(SHARED, SHARED + 30, AT_ONCE),
    *range(PAIRS, PAIRS + len(PAIRED) ** 2, AT_ONCE),
]
"""The first seed of each test, which examines `AT_ONCE` stories."""
EXAMINED = frozenset(seed for first in FIRST for seed in range(first, first + AT_ONCE))
