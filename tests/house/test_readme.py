"""The policy and the Python code of the README work, and the README is short; `tests/pages` runs its
commands.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

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


def test_the_python_of_the_readme_runs(tmp_path: Path) -> None:
    codes = [text for language, text in BLOCKS if language == "python"]
    policy, face = (next(code for code in codes if part in code) for part in ("class ", "schedbed.run("))
    (tmp_path / "my_policy.py").write_text(policy)
    ran = subprocess.run(
        [sys.executable, "-c", face], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stderr
    assert "ShortestFirst" in ran.stdout and "True" in ran.stdout


def test_the_readme_stays_short() -> None:
    assert len(README.splitlines()) <= 85  # one screen and a half
    policy = next(text for _, text in BLOCKS if "class ShortestFirst" in text)
    assert len([line for line in policy.splitlines() if line]) <= 12


def test_the_readme_begins_with_the_two_commands() -> None:
    first_screen = README[:1500]
    for command in ("./deploy/quickstart", "./tests/run"):
        assert command in first_screen
        assert (ROOT / command).stat().st_mode & 0o111
