"""The README is short and begins with the two commands; `tests/pages` runs its blocks."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
BLOCKS = re.findall(r"```(\w*)\n(.*?)```", README, re.DOTALL)


def test_the_readme_stays_short() -> None:
    assert len(README.splitlines()) <= 85  # one screen and a half
    policy = next(text for _, text in BLOCKS if "class ShortestFirst" in text)
    assert len([line for line in policy.splitlines() if line]) <= 12


def test_the_readme_begins_with_the_two_commands() -> None:
    first_screen = README[:1500]
    for command in ("./deploy/quickstart", "./tests/run"):
        assert command in first_screen
        assert (ROOT / command).stat().st_mode & 0o111
