"""Tests the report's sentences: which policy did best, why, and which jobs pay for it.

Only differences that a statistical test confirms may be stated.
"""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from schedbed.deploy.results import comparison, html_report, stats, summary
from schedbed.deploy.results.measures.wait_causes import SPENT
from schedbed.deploy.results.page import why
from schedbed.deploy.results.page.compared_pairs import FIGURE_OF, ComparedPair
from schedbed.deploy.results.page.run_facts import RunFacts, common_names
from schedbed.deploy.results.page.why import Runs
from schedbed.deploy.results.recorded import Recorded
from schedbed.deploy.results.runfile import RunFile
from tests.harness.fake_run import FakeRun


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write a fake run of three policies and three repeats, with one node that dies and one slow node."""
    made = tmp_path_factory.mktemp("small")
    FakeRun(repeats=3, maps=60).write(made)
    html_report.rebuild(made, with_plots=False)
    return made


def outcome(
    numbers: dict[str, list[float]],
    wait: dict[str, list[float]],
    large: dict[str, list[float]] | None = None,
    *,
    trusted: bool = True,
) -> dict[str, Any]:
    """Return a summary with mean completion times (`numbers`): a dictionary from policy to one value per
    repeat.

    `wait` has the times in the same form that small jobs waited for a slot, `large` the completion times of
    large jobs.
    """

    def measured_of(name: str, repeat: int) -> dict[str, Any]:
        total, waited = numbers[name][repeat], wait[name][repeat]
        sizes = {} if large is None else {"large": {"mean": large[name][repeat]}}
        parts = dict.fromkeys(SPENT, 0.0) | {"slot": waited, "run": total - waited}
        return {"completion_s": {"mean": total, "per_size": sizes}, "time_s": {"per_size": {"small": parts}}}

    measured = {name: [measured_of(name, repeat) for repeat in range(len(numbers[name]))] for name in numbers}
    first = next(iter(measured.values()))
    policies = {
        name: stats.tree(repeats)
        | {
            "paired": {} if repeats is first else stats.differences(repeats, first),
            "fidelity": {"trusted": trusted},
        }
        for name, repeats in measured.items()
    }
    found = comparison.compare(policies, {name: range(len(r)) for name, r in measured.items()})
    return {"policies": policies, "comparison": found}


FIFO, FAIR = [10.0, 10.4, 9.8, 10.2, 10.1], [7.0, 7.2, 6.9, 7.1, 7.0]
WAITS = {"fifo": [5.9, 6.2, 5.8, 6.0, 5.9], "fair": [1.2, 1.3, 1.1, 1.2, 1.2]}


@pytest.fixture
def runs(small: Path) -> Runs:
    """Return the facts about each policy's first repeat.

    Under `fifo`, which did worse, the only small job waits behind the large job `crunch`.
    """
    recorded = Recorded(small, RunFile.load(small))
    made = {name: recorded.tables(name, 0) for name in ("fifo", "fair")}
    jobs = pd.DataFrame(
        {
            "job": ["job_1", "job_2"],
            "name": ["crunch", "look"],
            "user": ["ana", "bo"],
            "submit": [0.0, 1.0],
            "start": [0.0, 6.0],
            "finish": [6.0, 8.0],
            "maps": [500, 3],
            "reduces": [0, 0],
        }
    )
    attempts = pd.DataFrame(
        {
            "job": "job_1",
            "kind": "map",
            "state": "succeeded",
            "assigned": 0.0,
            "start": 0.0,
            "end": [6.0, 5.0],
        }
    )
    tables = {**made["fifo"].tables, "jobs": jobs, "attempts": attempts}
    made["fifo"] = replace(made["fifo"], tables=tables)
    return {name: RunFacts.of(run) for name, run in made.items()}


def jobs_of(completions: dict[str, list[float]], repeats: int = 5) -> dict[str, dict[int, pd.DataFrame]]:
    """Return tables of jobs by policy and repeat, the same in each repeat.

    `completions` has the jobs' completion times by policy. The first job is large, the others are small.
    """
    made: dict[str, dict[int, pd.DataFrame]] = {}
    for name, times in completions.items():
        sizes = [500] + [3] * (len(times) - 1)
        jobs = pd.DataFrame(
            {
                "job": [f"job_{i}" for i in range(len(times))],
                "name": ["crunch", *(f"look-{i}" for i in range(1, len(times)))],
                "state": "succeeded",
                "submit": 1.0,
                "finish": 1.0 + np.array(times),
                "maps": sizes,
                "reduces": 0,
            }
        )
        made[name] = dict.fromkeys(range(repeats), jobs)
    return made


JOBS = jobs_of({"fifo": [20.0, 8.0, 9.0, 5.0], "fair": [25.0, 2.0, 3.0, 5.0]})


def said(found: dict[str, Any], runs: Runs) -> list[str]:
    return [each.text for each in why.explanation(found, runs, JOBS).sentences]


def test_a_sentence_says_who_beats_whom_by_how_much_and_why(runs: Runs) -> None:
    told = why.explanation(outcome({"fifo": FIFO, "fair": FAIR}, WAITS), runs, JOBS)
    assert told.title == "Why fair did best"
    gains = 100 * (np.array(FIFO) - FAIR) / FIFO
    found = re.fullmatch(
        r"fair beats fifo on mean completion by (\d+)% \[(\d+), (\d+)\]: (.*)\.", told.sentences[0].text
    )
    assert found and int(found[1]) == round(gains.mean()) and int(found[2]) <= gains.mean() <= int(found[3])
    assert found[4] == "small jobs wait 1.20 s instead of 5.96 s for a slot, behind crunch"
    evidence = told.sentences[0].evidence
    assert "adjusted p" in evidence and "while they waited for their first one: crunch 100%" in evidence


def test_a_sentence_counts_the_jobs_that_gain_and_names_who_pays(runs: Runs) -> None:
    one = outcome({"fifo": FIFO[:1], "fair": FAIR[:1]}, {k: v[:1] for k, v in WAITS.items()})
    told = why.explanation(
        one, runs, jobs_of({"fifo": [20.0, 8.0, 9.0, 5.0], "fair": [25.0, 2.0, 3.0, 5.0]}, 1)
    )
    assert told.sentences[1].text == (
        "2 of 4 jobs end sooner under fair, 1 later; crunch pays most: 25.0 s instead of 20.0 s."
    )
    assert "small (3 jobs) 3.33 s instead of 7.33 s" in told.sentences[1].evidence


def test_a_class_of_jobs_pays_only_if_a_test_confirms_it(runs: Runs) -> None:
    def with_large(fair: list[float]) -> dict[str, Any]:
        large = {"fifo": [20.0, 21.0, 20.5, 20.2, 20.1], "fair": fair}
        return outcome({"fifo": FIFO, "fair": FAIR}, WAITS, large)

    assert (
        "large jobs pay: 25.0 s instead of 20.4 s."
        in said(with_large([25.0, 25.5, 25.1, 24.9, 24.7]), runs)[1]
    )
    told = said(with_large([15.0, 35.5, 15.1, 14.9, 34.7]), runs)[1]
    assert (
        told.startswith("10 of 20 jobs of 5 repeats end sooner under fair, 5 later")
        and "large jobs" not in told
    )


def test_a_job_of_every_repeat_pays_most_if_a_test_confirms_it(runs: Runs) -> None:
    def told(crunch: list[float]) -> str:
        jobs = jobs_of({"fifo": [20.0, 8.0], "fair": [25.0, 2.0]})
        for repeat, took in enumerate(crunch):
            jobs["fair"][repeat] = jobs["fair"][repeat].assign(finish=[1.0 + took, 3.0 + 0.01 * repeat])
        found = why.explanation(outcome({"fifo": FIFO, "fair": FAIR}, WAITS), runs, jobs)
        return found.sentences[1].text

    assert told([25.0, 25.1, 24.9, 25.2, 24.8]) == (
        "5 of 10 jobs of 5 repeats end sooner under fair, 5 later; crunch pays most: 25.0 s instead of 20.0 s."
    )
    assert "pays most" not in told([45.0, 10.0, 50.0, 5.0, 24.8])


def test_without_a_confirmed_difference_nobody_did_best(runs: Runs) -> None:
    close = [10.1, 10.2, 10.0, 10.1, 10.3]
    told = why.explanation(outcome({"fifo": FIFO, "fair": close}, WAITS), runs, JOBS)
    assert told.title == "No policy did best"
    assert re.fullmatch(
        r"fifo has the least mean completion, but no test confirms it: (about \d+|1000) repeats .* settle it\.",
        told.sentences[0].text,
    )
    doubted = why.explanation(outcome({"fifo": FIFO, "fair": FAIR}, WAITS, trusted=False), runs, JOBS)
    assert doubted.title == "No policy did best" and "not trusted" in doubted.sentences[0].text
    assert told.is_open
    same = why.explanation(outcome({"fifo": FIFO, "fair": FIFO}, WAITS), runs, JOBS)
    assert same.sentences[0].text == "Nothing separates the policies in this run."


def test_a_reason_that_no_test_carries_is_left_out(runs: Runs) -> None:
    wild = {"fifo": [5.9, 1.0, 9.0, 2.0, 8.0], "fair": [1.2, 6.0, 1.1, 6.1, 0.2]}
    told = said(outcome({"fifo": FIFO, "fair": FAIR}, wild), runs)
    assert told[0].startswith("fair beats fifo") and "instead of" not in told[0]


def test_one_repeat_is_told_without_the_word_beats(runs: Runs) -> None:
    one = outcome({"fifo": FIFO[:1], "fair": FAIR[:1]}, {k: v[:1] for k, v in WAITS.items()})
    told = why.explanation(one, runs, JOBS)
    assert told.sentences[0].text.startswith(
        "Mean completion is 30% less under fair than under fifo: small jobs wait"
    )
    assert "adjusted p" not in told.sentences[0].evidence


def test_one_repeat_that_is_not_trusted_names_no_certain_winner(runs: Runs) -> None:
    waits = {k: v[:1] for k, v in WAITS.items()}
    one = outcome({"fifo": FIFO[:1], "fair": FAIR[:1]}, waits, trusted=False)
    assert (
        why.explanation(one, runs, JOBS).title == "Why fair may have done best: the figures are not trusted"
    )


def test_the_makespan_is_shorter_by_fuller_slots_or_by_less_work() -> None:
    def cause(busy: dict[str, list[float]], tested: bool = False) -> str:
        policies = {name: {"slots_busy": stats.leaf(values)} for name, values in busy.items()}
        pair = ComparedPair(
            figure=FIGURE_OF["makespan"],
            winner="fair",
            loser="fifo",
            mine=np.array([50.0, 51.0, 52.0][: len(busy["fair"])]),
            others=np.array([100.0, 101.0, 103.0][: len(busy["fair"])]),
            tested=tested,
        )
        return why.of_makespan(policies, pair).text

    assert (
        cause({"fair": [0.8], "fifo": [0.4]})
        == ": its slots are in use for 80.0% of the time instead of 40.0%"
    )
    assert cause({"fair": [0.4], "fifo": [0.4]}) == ": its attempts take 50% less of the slots' time"
    noisy = {"fair": [0.8, 0.2, 0.8], "fifo": [0.4, 0.8, 0.3]}
    assert cause(noisy, tested=True) == ""


def test_every_policy_has_its_sentences_with_their_numbers(small: Path) -> None:
    figures, run = summary.load(small), RunFile.load(small)
    recorded = Recorded(small, run)
    runs = {name: RunFacts.of(recorded.tables(name, 0)) for name in run.policies}
    jobs = {name: {r: recorded.jobs(name, r).counted.jobs for r in range(3)} for name in run.policies}
    told = why.explanation(figures, runs, jobs)
    for sentences in (told.sentences, *told.rest.values()):
        assert 1 <= len(sentences) <= 3 and all(each.evidence for each in sentences)
    assert set(told.rest) < {"fifo", "fair", "delay"}


def test_where_completions_do_not_differ_the_slowdown_names_the_winner_and_its_cause(
    runs: Runs,
) -> None:
    found = outcome({"fifo": FIFO[:1], "fair": FIFO[:1]}, {k: v[:1] for k, v in WAITS.items()})
    for name, value in (("fifo", 4.0), ("fair", 2.0)):
        found["policies"][name]["slowdown"] = stats.tree(
            [{"mean": value, "per_size": {"small": {"mean": value}}}]
        )
    told = why.explanation(found, runs, JOBS)
    assert told.title == "Why fair did best" and told.sentences[0].text == (
        "Mean slowdown is 50% less under fair than under fifo: "
        "small jobs wait 1.20 s instead of 5.90 s for a slot, behind crunch."
    )
    assert "small jobs 2.00 x instead of 4.00 x" in told.sentences[0].evidence


def test_a_row_in_which_the_other_policy_is_better_begins_with_but(runs: Runs) -> None:
    found = outcome({"fifo": FIFO[:1], "fair": FAIR[:1]}, {k: v[:1] for k, v in WAITS.items()})
    for name, value in (("fifo", 50.0), ("fair", 60.0)):
        found["policies"][name]["makespan_s"] = stats.leaf([value])
        found["policies"][name]["slots_busy"] = stats.leaf([30 / value])
    assert said(found, runs)[2] == (
        "But makespan is 17% less under fifo than under fair: "
        "its slots are in use for 60.0% of the time instead of 50.0%."
    )


def test_policies_are_named_without_parameters_unless_two_share_a_name() -> None:
    assert why.short_names(["fifo", "delay:node_wait=5s"]) == {"fifo": "fifo", "delay:node_wait=5s": "delay"}
    both = ["delay:node_wait=5s", "delay:node_wait=9s"]
    assert why.short_names(both) == dict(zip(both, both, strict=True))


def test_jobs_with_a_common_name_count_as_one_unless_most_jobs_have_it() -> None:
    def names(*given: str) -> list[str]:
        jobs = pd.DataFrame({"job": [str(i) for i in range(len(given))], "name": given})
        return list(common_names(jobs).values())

    assert names("look-1", "look-2", "crunch", "7") == ["look", "look", "crunch", "7"]
    assert names("drawn_01", "drawn_02", "scan") == ["drawn_01", "drawn_02", "scan"]
