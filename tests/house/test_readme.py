"""What the README shows works."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from schedbed.scheduler.registry.registry import build_policy
from tests.harness.world import World, job, node

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
BLOCKS = re.findall(r"```(\w*)\n(.*?)```", README, re.DOTALL)


def test_the_policy_of_the_readme_runs(tmp_path: Path) -> None:
    code = next(text for language, text in BLOCKS if language == "python" and "class ShortestFirst" in text)
    (tmp_path / "my_policy.py").write_text(code)
    world = World(build_policy(f"{tmp_path}/my_policy.py:ShortestFirst"), nodes=[node("n1"), node("n2")])
    world.submit(job("job_0001", maps=6, reduces=1))
    world.submit(job("job_0002", maps=2))
    world.run()
    assert world.core.all_ended()
    assert world.launched.index("job_0002_m_000001_0") < world.launched.index("job_0001_m_000002_0")


@pytest.mark.parametrize("link", re.findall(r"\]\(((?:deploy|docs)/[^)]+)\)", README))
def test_what_the_readme_links_to_is_there(link: str) -> None:
    assert (ROOT / link).is_file()


def test_the_readme_begins_with_the_two_commands() -> None:
    first_screen = README[:1500]
    for command in ("./deploy/quickstart", "./tests/run"):
        assert command in first_screen
        assert (ROOT / command).stat().st_mode & 0o111
