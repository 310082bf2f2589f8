"""Runs test scenarios from seeds, and scenarios that once found a bug.

Tests the parts of the fault finder.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from dataclasses import replace
from itertools import combinations
from pathlib import Path

import pytest

from schedbed.scheduler.registry.registry import AXES
from schedbed.tasks.chance import chance
from tests.search import run
from tests.search.alone.parts import PARTS, run_alone
from tests.search.generate import NEWER, make_story
from tests.search.guards import GUARDS
from tests.search.policies import draw_policy, policy_names
from tests.search.search import examine, search
from tests.search.seeds import AT_ONCE, FIRST
from tests.search.shares import pour
from tests.search.shrink import shrink, simpler, without_node
from tests.search.story import Story, StoryFault, StoryJob, StoryNode, from_yaml, read_story, to_yaml

FOUND = sorted((Path(__file__).parent / "found").glob("*.yaml"))
# During development the first stories of two kinds are enough, and for a change every other ten of each kind.
LONG = {first: pytest.mark.long for first in FIRST if first not in (0, NEWER)}
LONG |= {first: pytest.mark.slow for first in FIRST if first // AT_ONCE % 2}


@pytest.mark.parametrize("first", [pytest.param(first, marks=LONG.get(first, ())) for first in FIRST])
def test_stories_from_seeds(first: int) -> None:
    nothing_is_found(range(first, first + AT_ONCE))


def nothing_is_found(seeds: Iterable[int]) -> None:
    found = search(seeds)
    assert found is None, (
        f"seed {found[0].seed}: {found[1]}; python tests/search/run.py --seed {found[0].seed}"
    )


@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("first", [0, pytest.param(10, marks=pytest.mark.slow)])
def test_stories_of_one_part(part: str, first: int) -> None:
    for seed in range(first, first + 10):
        run_alone(part, seed, Story().steps)


@pytest.mark.parametrize("path", FOUND, ids=lambda path: path.stem)
def test_what_was_found_once_holds_now(path: Path) -> None:
    assert examine(read_story(path)) is None


def few_policies() -> set[str]:
    """Return all registered policy names and some composed policies.

    Each order is combined with each admission, with localities in turn.
    """
    few = {name for name in policy_names() if "+" not in name}
    localities = list(AXES["locality"])
    for first, order in enumerate(AXES["order"]):
        for second, admission in enumerate(AXES["admission"]):  # There are more of them than localities.
            few.add(f"{order}+{localities[(first + second) % len(localities)]}+{admission}")
    return few


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=() if name in few_policies() else pytest.mark.slow) for name in policy_names()],
)
def test_every_policy_runs_a_story(name: str) -> None:
    # The story of seed 19 is small, with many faults.
    story = replace(make_story(19), policy=draw_policy(chance(19, name), [name]))
    assert examine(story) is None


def test_any_two_parts_of_a_policy_are_tried_together_while_working() -> None:
    parts = [set(name.split("+")) for name in few_policies() if "+" in name]
    for (_, some), (_, others) in combinations(AXES.items(), 2):
        assert all(any({one, other} <= each for each in parts) for one in some for other in others)


def test_a_story_is_made_of_its_seed_and_survives_yaml() -> None:
    for seed in (*range(50), *range(NEWER, NEWER + 20)):
        story = make_story(seed)
        assert story == make_story(seed) == from_yaml(to_yaml(story))
    assert len({to_yaml(make_story(seed)) for seed in range(50)}) == 50


def test_a_story_shrinks_to_what_makes_it_fail() -> None:
    """A failing test scenario is simplified to the parts that make it fail.

    Here it fails if the node with three map slots is killed and a job has reduces.
    """

    def fails(story: Story) -> bool:
        killed = {name for fault in story.faults if fault.kind == "kill" for name in fault.nodes}
        named = zip(story.node_names(), story.nodes, strict=True)
        return any(job.reduces for job in story.jobs) and any(
            name in killed and node.map_slots == 3 for name, node in named
        )

    nodes = (StoryNode(), StoryNode(rack=1), StoryNode(map_slots=3, cores=4), StoryNode())
    kill = StoryFault(at_s=3.21, kind="kill", nodes=("n1", "n2"), until_s=9.87)
    jobs = (StoryJob(maps=8), StoryJob(maps=8, reduces=4, user="bo", deadline_s=10.0), StoryJob())
    story = Story(
        seed=5,
        policy={"order": {"fair": {"inside": "fifo"}}, "locality": "delay"},
        failing=0.3,
        nodes=nodes,
        jobs=jobs,
        faults=(StoryFault(at_s=1.0, kind="slow", nodes=("n3",), until_s=2.0), kill),
    )
    assert fails(story)
    assert shrink(story, fails) == Story(
        seed=5,
        policy="fifo",
        replication=1,
        nodes=(StoryNode(), StoryNode(map_slots=3)),
        jobs=(StoryJob(reduces=1),),
        faults=(StoryFault(at_s=3.0, kind="kill", nodes=("n1",), until_s=10.0),),
    )


def test_simplifications_come_to_an_end() -> None:
    """Repeated simplification ends, even if the last simplification is chosen each time."""
    story, steps = make_story(12), 0
    while candidates := list(simpler(story)):
        story, steps = candidates[-1], steps + 1
        assert steps < 2000
    assert not story.faults


def test_a_node_that_is_taken_out_leaves_its_name_to_the_next() -> None:
    fault = StoryFault(at_s=1.0, kind="freeze", nodes=("n1", "n2"))
    story = Story(nodes=(StoryNode(), StoryNode(rack=1), StoryNode(rack=2)), faults=(fault,))
    assert without_node(story, 1).faults[0].nodes == ("n1",)
    assert [node.rack for node in without_node(story, 1).nodes] == [0, 2]


def test_shares_by_bisection() -> None:
    """A pool with twice the weight gets twice the slots, unless its demand is less or a min share applies."""
    assert pour(9, [(100, 2.0, 0), (100, 1.0, 0)]) == pytest.approx([6.0, 3.0])
    assert pour(9, [(2, 2.0, 0), (100, 1.0, 0)]) == pytest.approx([2.0, 7.0])
    assert pour(9, [(100, 2.0, 0), (100, 1.0, 5)]) == pytest.approx([4.0, 5.0])
    assert pour(9, [(1, 1.0, 0), (2, 1.0, 0)]) == pytest.approx([1.0, 2.0])
    assert pour(4, [(100, 1.0, 6), (100, 1.0, 2)]) == pytest.approx([6.0, 2.0])


@pytest.mark.long  # seconds
def test_the_command_tells_the_seed_first_and_again_and_writes_what_fails(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a guard disabled, the written test scenario fails; with the guard it passes."""
    guard = next(guard for guard in GUARDS if guard.name == "registration")
    monkeypatch.setattr(
        sys, "argv", ["run.py", "--seed", str(guard.seed), "--policy", "fair", "--out", str(tmp_path)]
    )
    with guard.without():
        assert run.main() == 1
    said = capsys.readouterr().out.splitlines()
    assert said[0] == f"seed {guard.seed}"
    (path,) = tmp_path.glob("story_*.yaml")
    seed = path.stem.removeprefix("story_")
    assert any(line.startswith(f"seed {seed} fails: {guard.checks[0]}") for line in said)
    small = read_story(path)
    assert len(small.jobs) == 1 and not small.faults and small.repeats
    monkeypatch.setattr(sys, "argv", ["run.py", "--story", str(path)])
    with guard.without():
        assert run.main() == 1
    assert run.main() == 0
    monkeypatch.setattr(sys, "argv", ["run.py", "--seed", "5", "--seconds", "0.01"])
    assert run.main() == 0
    assert "all checks held" in capsys.readouterr().out
