"""A policy file and the modules beside it can be imported from any working directory, without changes to
`sys.path`.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from schedbed.scheduler.registry.registry import build_policy
from schedbed.tasks.errors import BadInput
from tests.harness.world import World, job, node

MINE = '''
from dataclasses import dataclass

import helper
import tools.words as words
from schedbed.policy import Policy, Proposal, TaskKind
from tools import endings


@dataclass
class Mine(Policy):
    """Takes any map; what a reason says comes from the files beside this one."""

    sign: str = ""

    def decide(self, view, node, kind):
        import late

        for job in view.jobs.values():
            task = job.any_map() if kind is TaskKind.MAP else job.any_reduce()
            if task is not None:
                return Proposal(task, " ".join([helper.name(), words.WORD, endings.END, late.WHEN]))
        return None
'''


def write_policy(folder: Path, name: str) -> str:
    """Write a policy file with a module, a package and a module that is imported later beside it.

    Return the SPEC that selects the policy.
    """
    (folder / "tools").mkdir(parents=True)
    (folder / "mine.py").write_text(MINE)
    (folder / "helper.py").write_text(
        f"import json\nfrom inner import NAME\n\n\ndef name():\n    return {name!r} + NAME\n"
    )
    (folder / "inner.py").write_text("NAME = '!'\n")
    (folder / "late.py").write_text("WHEN = 'late'\n")
    (folder / "tools" / "__init__.py").write_text("")
    (folder / "tools" / "words.py").write_text("from .endings import END\n\nWORD = 'word' + END\n")
    (folder / "tools" / "endings.py").write_text("END = '.'\n")
    (folder / "json.py").write_text("raise ImportError('the standard library was meant')\n")
    return f"{folder / 'mine.py'}:Mine"


def reason_of(spec: str) -> str:
    """Return the reason that the policy gives for the first task."""
    world = World(build_policy(spec), [node("n1")])
    world.submit(job("job_0001", 1)).run()
    return world.tape.decisions[0].reason


def test_a_policy_imports_the_files_beside_it(tmp_path: Path) -> None:
    path, modules = list(sys.path), {name.partition(".")[0] for name in sys.modules}
    (tmp_path / "one").mkdir()
    spec = write_policy(tmp_path / "one", "first")
    (tmp_path / "one" / "json.py").unlink()
    assert reason_of(spec) == "first! word. . late"
    assert sys.path == path
    new = {name.partition(".")[0] for name in sys.modules} - modules
    assert not new & {"helper", "inner", "late", "tools", "mine"}


def test_two_policies_have_helpers_of_the_same_name(tmp_path: Path) -> None:
    specs = [write_policy(tmp_path / name, name) for name in ("one", "two")]
    for name in ("one", "two"):
        (tmp_path / name / "json.py").unlink()
    policies = [build_policy(spec) for spec in specs]
    reasons = []
    for policy in policies:  # both are loaded by now; each imports `late` only here
        world = World(policy, [node("n1")])
        world.submit(job("job_0001", 1)).run()
        reasons.append(world.tape.decisions[0].reason)
    assert reasons == ["one! word. . late", "two! word. . late"]


def test_the_file_beside_comes_first_and_is_named_when_it_fails(tmp_path: Path) -> None:
    spec = write_policy(tmp_path / "one", "first")
    with pytest.raises(BadInput, match="cannot be loaded: ImportError: the standard library was meant"):
        build_policy(spec)


def test_what_was_changed_beside_a_policy_counts(tmp_path: Path) -> None:
    spec = write_policy(tmp_path / "one", "first")
    (tmp_path / "one" / "json.py").unlink()
    assert reason_of(spec).startswith("first")
    (tmp_path / "one" / "inner.py").write_text("NAME = '?!'\n")
    assert reason_of(spec).startswith("first?!")
