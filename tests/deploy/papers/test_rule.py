"""The one rule for claims: every kept word follows from the kept repeats, the criteria and the set-ups."""

from __future__ import annotations

import importlib
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pytest
from scipy.stats import t as student

from schedbed.deploy.papers import paper_file
from schedbed.deploy.papers.catalogue import PAPERS
from schedbed.deploy.papers.chapter3 import job_choice
from schedbed.deploy.papers.experiment import SIM_REPEATS
from schedbed.deploy.papers.lakshmi2019 import csla_figures, two_jobs
from schedbed.deploy.papers.liu2015 import eight_tests
from schedbed.deploy.papers.paper_file import About, Paper, Value
from schedbed.deploy.papers.polo2011 import nine_jobs, ras_figures
from schedbed.deploy.papers.verdict import CONTRADICTED, HOLDS, OPEN, SEEDS, Exact, Row, judge
from schedbed.deploy.papers.verma2011 import arrivals, job_phases, slo_slots
from schedbed.deploy.papers.xu2015 import twenty_jobs
from tests.bench.pages import RESULTS
from tests.pages import claims

KEPT = {machines: claims.load(RESULTS / "reproduce" / machines) for machines in ("sim", "process")}
Kept = Mapping[str, Any]


def experiments(machines: str) -> Iterator[tuple[str, About, Kept]]:
    for paper, content in KEPT[machines].items():
        for each in content["experiments"]:
            yield paper, paper_file.load(paper).experiments[each["experiment"]], each


def interval(repeats: Sequence[float | None]) -> tuple[float, float] | None:
    """Return the 95% interval of the mean, computed without the product's code."""
    known = [each for each in repeats if each is not None]
    if len(known) < max(3, len(repeats)):
        return None
    mean = math.fsum(known) / len(known)
    spread = math.sqrt(math.fsum((each - mean) ** 2 for each in known) / (len(known) - 1))
    half = float(student.ppf(0.975, len(known) - 1)) * spread / math.sqrt(len(known))
    return mean - half, mean + half


def word(paper: str, each: Kept, row: Kept) -> str:
    """Return the word for a kept row, by the text of the rule."""
    whole, name = paper_file.load(paper), each["experiment"]
    about = whole.experiments[name]
    said = about.values[row["key"]]
    if said.holds is None:
        return ""
    if "samples" not in row and "ci95" not in row:
        mine = row["mean"]
        return HOLDS if (mine == said.value if said.holds.equal else within(said, mine, mine)) else OPEN
    found = [tuple(row["ci95"])] if "ci95" in row else [interval(one) for one in row["samples"]]
    if len(found) == 3 and all(one is not None and within(said, *one) for one in found):
        return HOLDS
    low, high = said.bounds()
    out = all(one is not None and (one[1] < low or one[0] > high) for one in found)
    concerned = [names for names in whole.differs.values() if names == "all" or name in names]
    as_printed = not concerned and all(
        each["size"][name] == [number, number]
        for name, number in about.printed.model_dump().items()
        if number is not None
    )
    return CONTRADICTED if len(found) == 3 and out and as_printed else OPEN


def within(said: Value, low: float, high: float) -> bool:
    least, most = said.bounds()
    return least <= low and high <= most


@pytest.mark.parametrize("machines", KEPT)
def test_every_kept_word_follows_from_the_kept_repeats(machines: str) -> None:
    seen = 0
    for paper, _, each in experiments(machines):
        for kept, row in zip(each["rows"], claims.judged(paper, each), strict=True):
            assert row.verdict == word(paper, each, kept), f"{paper}/{each['experiment']}/{row.key}"
            seen += 1
    assert seen > 10


def test_simulated_outcomes_have_three_seeds_with_different_draws() -> None:
    for paper, _, each in experiments("sim"):
        if each["repeats"] == 1:
            continue
        where = f"{paper}/{each['experiment']}"
        assert len(set(each["seeds"])) == SEEDS and each["repeats"] <= SIM_REPEATS, where
        assert min(b - a for a, b in zip(each["seeds"], each["seeds"][1:], strict=False)) >= SIM_REPEATS, (
            where
        )
        for row in each["rows"]:
            assert [len(one) for one in row.get("samples", [])] in ([], [each["repeats"]] * SEEDS), where


@pytest.mark.parametrize("paper", PAPERS)
def test_no_outcome_is_there_twice(paper: str) -> None:
    """Two outcomes with the same repeats are one claim."""
    found: Counter[str] = Counter()
    for name, about, each in experiments("sim"):
        if name == paper:
            rows = [row for row in each["rows"] if about.values[row["key"]].kind == "outcome"]
            drawn = [row["samples"] for row in rows if "samples" in row]
            found.update(
                str(seeds) for seeds in drawn if len({number for one in seeds for number in one}) > 1
            )
    assert not [text[:80] for text, count in found.items() if count > 1]


@pytest.mark.parametrize(
    ("nodes", "differs", "meets"),
    [
        ([20, 20], {}, True),
        ([5, 5], {}, False),
        ([5, 20], {}, False),
        ([20, 20], {"the disk": ["fig3"]}, False),
        ([20, 20], {"the disk": "all"}, False),
        ([20, 20], {"the disk": ["fig6"]}, True),
    ],
)
def test_a_set_up_meets_what_is_printed_in_its_sizes_and_in_all_else(
    nodes: list[int], differs: dict[str, Any], *, meets: bool
) -> None:
    paper = paper_file.load("polo2011").model_copy(update={"differs": differs})
    assert paper.meets("fig3", {"nodes": nodes, "jobs": [9, 9], "tasks": [100, 900]}) is meets


@pytest.mark.parametrize(
    ("differs", "as_printed", "wrong"),
    [
        ({"the disk": ["fig3", "fig33"]}, [], "fig33"),  # no experiment
        ({"the disk": ["fig3"]}, [], "fig4"),  # in no list
        ({"the disk": "all"}, ["fig4"], "fig4"),  # in both
    ],
)
def test_each_experiment_is_as_printed_or_differs(
    differs: dict[str, Any], as_printed: list[str], wrong: str
) -> None:
    about = {"title": "t", "where": "Figure 1", "setup": "s", "values": {"x": {"what": "x"}}}
    said = {"title": "t", "authors": "a", "published": "p", "experiments": {"fig3": about, "fig4": about}}
    with pytest.raises(ValueError, match=rf"expected each .* not so (fig4, )?{wrong}\b"):
        Paper.model_validate({**said, "differs": differs, "as_printed": as_printed})


WIDE, NARROW, OUT = [9.0, 10.0, 12.0], [10.0, 10.1, 10.2], [20.0, 20.1, 20.2]


@pytest.mark.parametrize(
    ("seeds", "meets", "verdict", "why"),
    [
        ([NARROW] * 3, False, HOLDS, ""),
        ([NARROW] * 2, False, OPEN, "inside, 2 of 3 seeds"),
        ([NARROW, NARROW, WIDE], False, OPEN, "seeds disagree"),
        ([WIDE] * 3, True, OPEN, "interval undecided"),
        ([OUT] * 3, False, OPEN, "outside"),
        ([OUT] * 3, True, CONTRADICTED, "outside, with the printed set-up"),
        ([OUT] * 2, True, OPEN, "outside, 2 of 3 seeds"),
        ([OUT, OUT, NARROW], True, OPEN, "seeds disagree"),
        ([[10.0, 10.1]] * 3, True, OPEN, "interval undecided"),
        ([[10.0, 10.1, 10.2, None]] * 3, True, OPEN, "interval undecided"),
    ],
)
def test_the_rule(seeds: list[list[float | None]], *, meets: bool, verdict: str, why: str) -> None:
    said = Value.model_validate({"what": "x", "value": 10, "holds": {"within": 0.1}, "kind": "outcome"})
    row = judge("x", said, "Figure 1", seeds, meets=meets)
    assert (row.verdict, row.why) == (verdict, why)


@pytest.mark.parametrize(
    ("value", "holds", "allowed"),
    [
        (100, {"at_least": 0}, False),
        (100, {"at_least": 60, "at_most": 140}, False),
        (100, {"within": 0.3}, False),
        (100, {"within": 0.25}, True),
        (100, {"at_least": 100}, True),
        (10, {"at_most": 10}, True),
        (10, {"at_most": 11}, False),
        (0, {"at_most": 0}, True),
        (0, {"at_most": 1}, False),
        ("2 to 11", {"at_least": 0}, False),
        ("2 to 11", {"at_least": 2, "at_most": 11}, True),
        ("within 7% of the SLO", {"at_least": -7, "at_most": 7}, True),
        ("DTSS is fairer", {"at_least": 0}, True),
    ],
)
def test_a_criterion_asks_for_what_is_printed(value: Any, holds: dict[str, float], *, allowed: bool) -> None:
    said = {"what": "x", "value": value, "holds": holds, "kind": "ours"}
    if allowed:
        Value.model_validate(said)
        return
    with pytest.raises(ValueError, match="which the criterion does not ask for"):
        Value.model_validate(said)


@pytest.mark.parametrize("paper", PAPERS)
def test_fitted_constants_are_those_of_the_code(paper: str) -> None:
    for fit in paper_file.load(paper).fitted:
        for name, value in fit.constants.items():
            module, _, constant = name.partition(".")
            code = importlib.import_module(f"schedbed.deploy.papers.{paper}.{module}")
            assert getattr(code, constant) == value, name


def test_a_fitted_value_of_another_kind_is_refused() -> None:
    said = paper_file.load("verma2011").model_dump()
    said["experiments"]["table1"]["values"]["typical_shuffle_oct_256"]["kind"] = "outcome"
    with pytest.raises(ValueError, match="differ in table1/typical_shuffle_oct_256"):
        Paper.model_validate(said)


def set_ups() -> Iterator[Any]:
    """Yield the scenarios of the papers that read values of a paper.yaml."""
    yield nine_jobs.experiment1(nine_jobs.QUARTER)
    yield nine_jobs.experiment2(nine_jobs.QUARTER)
    yield ras_figures.jobs_apart(nine_jobs.QUARTER, nine_jobs.JOBS)
    yield twenty_jobs.jobs(1)
    yield [eight_tests.jobs_of(mix, live=False) for mix in eight_tests.MIXES]
    yield two_jobs.GroupRun(name="x").scenario(live=False)
    yield csla_figures.stressed(("cpu",), live=False)
    yield job_phases.scenario("64", live=False)
    yield slo_slots.job(live=False)
    yield [arrivals.workload(name, 3, 0.95, 1) for name in arrivals.WORKLOADS]
    yield job_choice.coshh_jobs(1)


def test_no_set_up_reads_an_outcome(monkeypatch: pytest.MonkeyPatch) -> None:
    """No value from which a set-up is built is an outcome."""
    read: list[Value] = []

    def noted(name: str) -> property:
        plain = getattr(Value, name).fget
        return property(lambda value: (read.append(value), plain(value))[1])

    for name in ("number", "numbers"):
        monkeypatch.setattr(Value, name, noted(name))
    assert len(list(set_ups())) > 5 and len(read) > 20
    assert {value.what for value in read if value.kind == "outcome"} == set()


def test_durations_of_the_nine_jobs_count_from_their_submissions() -> None:
    """Table 1 prints when a job ends after the first submission, with relaxed and with tight goals."""
    said = paper_file.load("polo2011").experiments
    submits_s = said["table1"].values["submits"].numbers
    for name, ends_s in (
        ("fig3", [3113, 648, 1252, 608, 623, 3406, 4536, 3670, 4100]),
        ("fig6", [3018, 896, 802, 550, 560, 2589, 4614, 3365, 4141]),
    ):
        took_s = [said[name].values[job].number for job in nine_jobs.JOBS]
        assert took_s == [end - submit for end, submit in zip(ends_s, submits_s, strict=True)]


def test_a_value_without_chance_has_no_interval() -> None:
    said = Value.model_validate({"what": "x", "value": [1, 2], "holds": {"equal": True}, "kind": "input"})
    rows: list[Row] = [judge("x", said, "Table 1", Exact(value=value)) for value in ((1, 2), (1, 3))]
    assert [row.verdict for row in rows] == [HOLDS, OPEN] and rows[0].ci95 is None
