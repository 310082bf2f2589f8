"""Tests of mutation testing: mutants are generated, activated in a process, and judged."""

from __future__ import annotations

import ast
import os
import time
from dataclasses import replace

import pytest

from schedbed.scheduler.core.core import Core
from tests.search.generate import LATER, make_story
from tests.search.mutation.edits import edited, edits
from tests.search.mutation.equivalent import EQUIVALENT
from tests.search.mutation.forks import Forks
from tests.search.mutation.mutant import Mutant, all_mutants, labeled
from tests.search.mutation.places import functions_of, nodes_of, tree_of
from tests.search.mutation.reach import Hits
from tests.search.mutation.targets import LEFT_OUT, MODULES
from tests.search.mutation.trial import Verdict
from tests.search.mutation.verdicts import print_verdicts
from tests.search.search import examine
from tests.search.simulated_story import simulate

CODE = '''
def f(a, b):
    """Text with 1."""
    if a < 1 and not b:
        a.x = 2
        raise ValueError("3")
    b += 1
    if a.end_s < b:
        return 5
    c = 3 if a in b else a.left_s < 4
    return a
'''

FOREIGN = (
    (
        "JobTables.end_job",
        "without `node.outbox.append(ForgetJob",
        LATER,
        "map outputs of ended jobs are forgotten",
    ),
    ("Fair.__init__", "`pool_by == 'user'` is", LATER + 14, "Fair asks the jobs in its order"),
    ("BlockMap.expect", "without `self.field.charge(node, length)`", LATER, "the NameNode's books balance"),
    (
        "CoreTables.kill",
        "without `attempt.node.outbox.append(KillAttempt",
        LATER + 1,
        "a node is told what it needs",
    ),
    ("Ledger.launch", "`node.rack in task.racks` is", LATER + 2, "rows tell what was"),
    ("_Choice.next_hdfs", "`len(set(racks)) == 1`", LATER + 4, "replicas go where HDFS puts them"),
    ("Job.release", "without `stage.tasks = []`", LATER, "an ended job is small"),
)
"""Mutants that only stories from seed LATER on detect, with the first seed that does, and the failing check."""


def test_edits_leave_texts_and_errors_alone() -> None:
    function = ast.parse(CODE).body[0]
    assert isinstance(function, ast.FunctionDef)
    changes = {edit.change: edited(function, edit) for edit in edits(function)}
    assert set(changes) == {
        "`a in b` turned round",
        "`a.end_s < b` turned round",
        "`a.left_s < 4` is `a.left_s >= 4`",
        "`b += 1` is `b -= 1`",
        "`1` is `2`",
        "`2` is `3`",
        "`3` is `4`",
        "`4` is `5`",
        "`5` is `6`",
        "`a < 1 and (not b)` is `a < 1 or not b`",
        "`a < 1 and (not b)` turned round",
        "`a < 1` is `a <= 1`",
        "`not b` is `b`",
        "`return a` is `return None`",
        "without `a.x = 2`",
        "without `b += 1`",
    }
    assert all(ast.unparse(other) != ast.unparse(function) for other in changes.values())


def test_there_are_mutants_of_each_module_and_what_is_left_out_is_there() -> None:
    mutants = all_mutants()
    assert {mutant.module for mutant in mutants} == set(MODULES) and len(mutants) > 2000
    for name in (*LEFT_OUT, *EQUIVALENT):
        module, _, function = name.partition(":")
        assert module not in MODULES or function in functions_of(module), name


def test_what_is_called_equivalent_is_still_made() -> None:
    """Each mutant listed in EQUIVALENT is still generated, and has a reason."""
    for name, changes in EQUIVALENT.items():
        module, _, function = name.partition(":")
        made = {label for label, _ in labeled(edits(nodes_of(tree_of(module))[function]))}
        assert changes.keys() <= made, f"{name}: {changes.keys() - made}"
        assert all(len(why) > 20 for why in changes.values())


def found(function: str, change: str) -> Mutant:
    return next(each for each in all_mutants() if each.function == function and change in each.change)


def _answer_of(mutant: Mutant) -> object:
    mutant.apply()
    return Core.all_ended(None)  # type: ignore[arg-type]


def test_a_mutant_is_in_force_in_its_own_process_only() -> None:
    mutant = found("Core.all_ended", "is `return None`")
    ((_, answer),) = Forks(_answer_of, jobs=1, patience_s=60.0).results([mutant])
    assert answer is None
    with pytest.raises(AttributeError):
        Core.all_ended(None)  # type: ignore[arg-type]


def _work(what: str) -> str:
    if what == "dies":
        os._exit(3)
    if what == "hangs":
        time.sleep(600.0)
    if what == "fails":
        raise ValueError(what)
    return what


@pytest.mark.long  # seconds
def test_what_dies_or_hangs_has_no_result_and_an_error_is_passed_on() -> None:
    results = dict(Forks(_work, jobs=4, patience_s=3.0).results(["well", "dies", "hangs"]))
    assert results == {"well": "well", "dies": None, "hangs": None}
    with pytest.raises(RuntimeError, match="ValueError: fails"):
        list(Forks(_work, jobs=1, patience_s=60.0).results(["fails"]))


def _hits_of(seed: int) -> dict[tuple[str, int], int]:
    hits = Hits(["schedbed.scheduler.core.core"])
    simulate(make_story(seed), audit=False)
    return hits.take()


def test_hits_are_counted_by_line() -> None:
    ((_, hits),) = Forks(_hits_of, jobs=1, patience_s=120.0).results([1])
    assert hits is not None and len(hits) > 50 and max(hits.values()) > 100


def test_the_share_counts_what_is_unreached(capsys: pytest.CaptureFixture[str]) -> None:
    mutant = found("Core.tick", "without")
    killed, unreached = Verdict(hits=3, killed_by="every job ends"), Verdict(hits=0)
    assert print_verdicts([(mutant, killed)] * 10) == 0
    assert print_verdicts([(mutant, killed)] * 10 + [(mutant, unreached)]) == 1
    assert "90.9%" in capsys.readouterr().out


def _first_kill(item: tuple[Mutant, int]) -> str:
    """Return the check that fails in the first story that detects the mutant, from the given seed on.

    Stories of smaller seeds come last: a change of decisions may move a failure to another seed.
    """
    mutant, first = item
    mutant.apply()
    for seed in (*range(first, LATER + 60), *range(LATER, first)):
        violation = examine(make_story(seed))
        if violation is not None:
            return violation.check
    return "nothing"


@pytest.mark.slow  # it tests the finder, not the product
@pytest.mark.parametrize(("function", "change", "first", "check"), FOREIGN)
def test_a_mistake_that_was_not_seen_before_is_seen(
    function: str, change: str, first: int, check: str
) -> None:
    item = found(function, change), first
    ((_, killed_by),) = Forks(_first_kill, jobs=1, patience_s=250.0).results([item])
    assert killed_by == check


def test_a_later_story_may_have_no_losses() -> None:
    """A test scenario passes all checks with repeated reports of ended attempts, but without repeated
    messages.

    One check compares the rows with those of a second run, which has neither.
    """
    stories = (make_story(seed) for seed in range(LATER, LATER + 100))
    story = next(story for story in stories if story.strays)
    assert examine(replace(story, repeats=0.0)) is None
