"""Tests the command `reproduce`: the results of experiments, their claims, and the files for reviewers."""

from __future__ import annotations

import json
import os
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest
from typer.testing import CliRunner

from schedbed.deploy.cli import main
from schedbed.deploy.failures import RunFailed
from schedbed.deploy.papers.bench import Bench, paired
from schedbed.deploy.papers.catalogue import CatalogueEntry, chosen, entries
from schedbed.deploy.papers.experiment import Experiment, Measured
from schedbed.deploy.papers.paper_file import Criterion, Paper, Value, parse
from schedbed.deploy.papers.reproduce import reproduce
from schedbed.deploy.papers.terminal import with_unit
from schedbed.deploy.papers.verdict import CONTRADICTED, HOLDS, OPEN, Exact, judge
from schedbed.tasks.errors import BadInput

TINY: dict[str, Any] = {
    "cluster": {"nodes": 2},
    "blocks": {"replication": 1},
    "workload": {"jobs": [{"app": "synthetic", "maps": 6, "map": {"cpu": "10s", "variance": 0.5}}]},
    "policies": ["fifo", "fair"],
}
PAPER = Paper.model_validate(
    {
        "title": "On two nodes <b>",
        "authors": "A. Nobody",
        "published": "Nowhere 2000",
        "differs": {"nothing <is>": "all"},
        "experiments": {
            name: {
                "title": "Six maps",
                "where": "Figure 1",
                "setup": "As written.",
                "printed": {"nodes": 2, "jobs": 3},
                "values": {
                    "makespan": {
                        "what": "makespan, fifo",
                        "value": 30,
                        "unit": "s",
                        "read_off": True,
                        "holds": {"within": 0.25},
                        "kind": "outcome",
                        "chosen": "the <seed>",
                    },
                    "gain": {
                        "what": "fair over fifo",
                        "value": 0.5,
                        "holds": {"at_least": 0.5},
                        "kind": "ours",
                    },
                    "model": {
                        "what": "slots",
                        "value": [2, 1],
                        "holds": {"equal": True},
                        "kind": "consistency",
                        "no_task": True,
                    },
                },
            }
            for name in ("six", "breaks")
        },
    }
)


def measure(bench: Bench) -> Measured:
    finished = bench.run("six", TINY)
    assert bench.run("six", {}) is finished  # nothing is played twice
    fifo, fair = (finished.figures(policy, "makespan_s") for policy in finished.policies)
    assert [len(run.attempts) for run in finished.each("fair")] == [6] * bench.repeats
    found = {"makespan": fifo, "gain": paired(fair, fifo), "model": Exact(value=(2, 1))}
    return Measured(values=found, notes=["a note & more"])


def draw(figure: Any, said: Any, measured: Measured) -> None:
    figure.subplots().plot([1, 2], label=said["model"].what)


SIX = CatalogueEntry(
    "tiny", PAPER, Experiment(name="six", measure=measure, draw=draw, takes_s={"sim": 1}, sim_repeats=3)
)


def guess(bench: Bench) -> Measured:
    return Measured(values={"gain": [float(bench.seed)] * bench.repeats})


@pytest.mark.parametrize(("quick", "seeds", "time"), [(True, [3], "60 s"), (False, [3, 1003, 2003], "3 min")])
def test_quick_takes_one_seed_of_a_live_headline(
    tmp_path: Path, quick: bool, seeds: list[int], time: str
) -> None:
    told: list[str] = []
    live = replace(SIX.experiment, measure=guess, takes_s={"process": 60}, quick=True)
    entry = replace(SIX, experiment=live)
    reproduce(
        [entry], machines="process", repeats=2, seed=3, out=tmp_path / "o", say=told.append, quick=quick
    )
    (found,) = json.loads((tmp_path / "o" / "results.json").read_text())["experiments"]
    assert found["rows"][0]["samples"] == [[seed, seed] for seed in seeds] and found["seeds"] == seeds
    assert f"about {time}" in told[0]


def wait(bench: Bench) -> Measured:
    time.sleep(3600)  # far beyond the time limit of a test: somebody has to end this
    raise AssertionError("nobody has ended this")


def breaks(bench: Bench) -> Measured:
    raise ZeroDivisionError("on purpose")


BREAKS = replace(SIX, experiment=replace(SIX.experiment, name="breaks", measure=breaks))


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """Run one experiment that raises an error and one that succeeds; return the folder and the printed
    lines.
    """
    folder, told = tmp_path_factory.mktemp("reproduce") / "out", []
    with pytest.raises(RunFailed, match="broken: tiny/breaks"):
        reproduce([BREAKS, SIX], machines="sim", repeats=3, seed=3, out=folder, say=told.append)
    return folder, "\n".join(told)


def test_results_hold_every_value_with_its_interval(done: tuple[Path, str]) -> None:
    content = json.loads((done[0] / "results.json").read_text())
    broken, six = content["experiments"]
    assert (broken["state"], broken["note"]) == ("broken", "ZeroDivisionError: on purpose")
    rows = {row["key"]: row for row in six["rows"]}
    assert list(rows) == ["makespan", "gain", "model"]
    makespan = rows["makespan"]
    low, high = makespan["ci95"]
    assert low <= makespan["mean"] <= high and [len(one) for one in makespan["samples"]] == [3, 3, 3]
    assert len({number for one in makespan["samples"] for number in one}) == 9  # each draws its own tasks
    assert [row["verdict"] for row in rows.values()] == [OPEN, OPEN, HOLDS]
    assert [row["kind"] for row in rows.values()] == ["outcome", "ours", "consistency"]
    assert (makespan["chosen"], makespan["no_task"], rows["model"]["no_task"]) == ("the <seed>", False, True)
    assert six["size"] == {"nodes": [2, 2], "jobs": [1, 1], "tasks": [6, 6]}
    assert (six["seeds"], six["repeats"]) == ([3, 1003, 2003], 3)
    assert (done[0] / "runs/tiny/seed-1003/six/3/run.json").is_file() and (done[0] / six["figure"]).is_file()


def test_the_page_stands_alone(done: tuple[Path, str]) -> None:
    page = (done[0] / "index.html").read_text()
    assert "On two nodes &lt;b&gt;" in page and "a note &amp; more" in page
    assert "data:image/svg+xml;base64," in page and "ZeroDivisionError: on purpose" in page
    for outside in ('src="http', "<link", "<script", "@import"):
        assert outside not in page
    row = page.split("makespan, fifo")[1].split("</tr>")[0]
    assert "≈" in row and "outcome" in row and "[a]" in row  # read off a figure, and marked so
    assert "<li>[a] Chosen with results in view: the &lt;seed&gt;.</li>" in page
    assert (
        "2 nodes (printed: 2), 1 jobs (printed: 3), 6 tasks (not printed). Not as printed: nothing &lt;is&gt;."
        in page
    )
    by_kind = page.split("<tbody>")[1].split("</tbody>")[0]
    assert [row.split("</th>")[0] for row in by_kind.split("<tr><th>")[1:]] == [
        "outcome",
        "consistency",
        "ours",
    ]


def test_the_terminal_shows_the_same(done: tuple[Path, str]) -> None:
    assert "[2/2] tiny/six: Six maps (Figure 1), about 1 s" in done[1]
    assert "~30 s" in done[1] and "not reproduced (within 25%; " in done[1] and "broken after" in done[1]
    assert (
        "consistency, runs no task" in done[1] and "[a] Chosen with results in view: the <seed>." in done[1]
    )
    told = done[1][done[1].index("Claims") :].splitlines()
    assert told[:4] == [
        "Claims, simulated:",
        "  outcome: 0 holds, 1 not reproduced, 0 contradicted",
        "  consistency: 1 holds, 0 not reproduced, 0 contradicted (1 run no task)",
        "  ours: 0 holds, 1 not reproduced, 0 contradicted",
    ]


def test_each_of_three_seeds_has_repeats_of_its_own_and_quick_live_runs_one_seed() -> None:
    experiment = replace(SIX.experiment, repeats=5, sim_repeats=20)
    seeds = experiment.seeds_on("sim", 7)
    assert experiment.repeats_on("sim") == 20 and len({seed + n for seed in seeds for n in range(20)}) == 60
    assert experiment.repeats_on("process") == 5 and experiment.seeds_on("docker", 7) == seeds
    headline = replace(experiment, quick=True, takes_s={"sim": 10.0, "process": 60.0})
    for quick, live, live_s in ((False, seeds, 180.0), (True, [7], 60.0)):
        assert headline.seeds_on("docker", 7, quick=quick) == live
        assert headline.seeds_on("sim", 7, quick=quick) == seeds
        assert (
            headline.about_s("docker", quick=quick) == live_s and headline.about_s("sim", quick=quick) == 10.0
        )
    assert replace(experiment, sim_repeats=1).seeds_on("sim", 7) == [7]  # nothing is random


@pytest.mark.parametrize(
    ("found", "told"),
    [
        ({"makespan": [20.0, 21.0, 22.0]}, "outcomes of an experiment that ran no task: makespan"),
        ({"makespan": Exact(value=20.0)}, "makespan: an outcome needs a number a repeat"),
    ],
)
def test_an_outcome_that_no_run_gave_breaks_its_experiment(tmp_path: Path, found: Any, told: str) -> None:
    made_up = replace(SIX.experiment, measure=lambda _: Measured(values=found))
    with pytest.raises(RunFailed, match="broken"):
        reproduce(
            [replace(SIX, experiment=made_up)],
            machines="sim",
            repeats=3,
            seed=3,
            out=tmp_path / "o",
            say=print,
        )
    (six,) = json.loads((tmp_path / "o" / "results.json").read_text())["experiments"]
    assert told in six["note"]


def test_a_folder_with_results_is_not_overwritten(done: tuple[Path, str]) -> None:
    with pytest.raises(BadInput, match="holds a reproduction already"):
        reproduce([SIX], machines="sim", repeats=None, seed=3, out=done[0], say=lambda _: None)


@pytest.mark.parametrize(("asked", "full", "repeats"), [(None, False, 12), (None, True, 5), (3, True, 3)])
def test_a_full_size_has_the_papers_number_of_runs(
    tmp_path: Path, asked: int | None, full: bool, repeats: int
) -> None:
    def measure(bench: Bench) -> Measured:
        assert (bench.repeats, bench.full) == (repeats, full)
        return Measured(values={})

    six = Experiment(
        name="six", measure=measure, draw=draw, takes_s={"sim": 1}, sim_repeats=12, full_repeats=5
    )
    entry, out = CatalogueEntry("tiny", PAPER, six), tmp_path / "out"
    reproduce([entry], machines="sim", repeats=asked, seed=3, out=out, say=lambda _: None, full=full)


def test_a_run_that_is_not_to_be_trusted_is_told(tmp_path: Path) -> None:
    def saturated(bench: Bench) -> Measured:
        measured = measure(bench)
        path = bench.used[0] / "summary.json"
        summary = json.loads(path.read_text())
        summary["fidelity"] |= {"trusted": False, "why": ["The host was busy."]}
        path.write_text(json.dumps(summary))
        return measured

    entry = replace(SIX, experiment=replace(SIX.experiment, measure=saturated))
    out = reproduce([entry], machines="sim", repeats=1, seed=3, out=tmp_path / "o", say=lambda _: None)
    (six,) = json.loads((out / "results.json").read_text())["experiments"]
    assert six["notes"][-1] == "Not to be trusted, the run six: The host was busy."
    assert "The host was busy." in (out / "index.html").read_text()


@pytest.mark.long  # simulates whole experiments
def test_papers_are_simulated_side_by_side(tmp_path: Path) -> None:
    """Parallel experiments have the same results as sequential ones, in the order of the list."""
    known = entries()
    labels = ["polo2011/fig2", "verma2011/fig4", "verma2011/table2"]
    mine = [
        replace(known[label], experiment=replace(known[label].experiment, sim_repeats=1)) for label in labels
    ]
    told: list[str] = []
    out = reproduce(mine, machines="sim", repeats=None, seed=3, out=tmp_path / "all", say=told.append, jobs=2)
    both = json.loads((out / "results.json").read_text())["experiments"]
    assert [f"{each['paper']}/{each['experiment']}" for each in both] == labels
    assert sum("[3/3] verma2011/table2" in line for line in told) == 1
    alone = reproduce(mine[1:], machines="sim", repeats=None, seed=3, out=tmp_path / "one", say=told.append)
    assert [each["rows"] for each in both[1:]] == [
        each["rows"] for each in json.loads((alone / "results.json").read_text())["experiments"]
    ]


def die(bench: Bench) -> Measured:
    os._exit(3)


@pytest.mark.long  # seconds
def test_a_process_that_dies_is_told_and_no_other_goes_on(tmp_path: Path) -> None:
    dies = replace(SIX, experiment=replace(SIX.experiment, name="dies", measure=die))
    slow = replace(SIX, paper="other", experiment=replace(SIX.experiment, name="slow", measure=wait))
    before = {child.pid for child in psutil.Process().children()}  # Of other tests.
    with pytest.raises(RunFailed, match="the process of tiny/dies died: its process ended with exit code 3"):
        reproduce(
            [dies, slow], machines="sim", repeats=1, seed=3, out=tmp_path / "o", say=lambda _: None, jobs=2
        )
    assert {child.pid for child in psutil.Process().children()} <= before


def test_what_is_done_is_kept_after_ctrl_c(tmp_path: Path) -> None:
    def stop(bench: Bench) -> Measured:
        raise KeyboardInterrupt

    stopped = replace(BREAKS, experiment=replace(BREAKS.experiment, measure=stop))
    with pytest.raises(KeyboardInterrupt):
        reproduce([SIX, stopped], machines="sim", repeats=1, seed=3, out=tmp_path / "o", say=lambda _: None)
    (kept,) = json.loads((tmp_path / "o" / "results.json").read_text())["experiments"]
    assert kept["experiment"] == "six"
    assert {row["key"]: row["verdict"] for row in kept["rows"]} == {
        "makespan": OPEN,  # no interval with one repeat
        "gain": OPEN,
        "model": "holds",
    }


@pytest.mark.parametrize(
    ("holds", "ours", "verdict"),
    [
        ({"at_most": 10}, [5.0, 5.5, 6.0], HOLDS),
        ({"at_most": 10}, [8.0, 9.0, 10.0], OPEN),  # Student's t reaches from 6.5 to 11.5
        ({"at_most": 10}, [11.0, 11.1, 11.3], CONTRADICTED),
        ({"at_most": 10}, [5.0, 5.1], OPEN),  # no interval with two repeats
        ({"at_most": 10}, [float("nan"), float("nan"), float("nan")], OPEN),
        ({"within": 0.1}, [9.7, 10.2, 10.0], HOLDS),
        ({"within": 0.25, "at_most": 10}, [9.0, 9.1, 9.2], HOLDS),
        ({"within": 0.25, "at_most": 10}, [11.0, 11.1, 11.2], CONTRADICTED),
        (None, [1.0, 2.0], ""),
    ],
)
def test_only_the_interval_decides(holds: Any, ours: list[float], verdict: str) -> None:
    said = Value(what="x", value=10, holds=Criterion(**holds) if holds else None, kind="ours")
    assert judge("x", said, "Figure 1", [ours] * 3, meets=True).verdict == verdict


@pytest.mark.parametrize(
    ("holds", "ours", "verdict"),
    [({"at_most": 10}, 10.0, HOLDS), ({"equal": True}, 10, HOLDS), ({"equal": True}, 9.99, OPEN)],
)
def test_a_value_without_chance_is_compared_itself(holds: Any, ours: float, verdict: str) -> None:
    said = Value(what="x", value=10, holds=Criterion(**holds), kind="ours")
    assert judge("x", said, "Figure 1", Exact(value=ours)).verdict == verdict


def test_paired_is_the_share_that_was_saved() -> None:
    assert paired([80.0, 50.0], [100.0, 50.0]) == pytest.approx([0.2, 0.0])


@pytest.mark.parametrize(
    ("target", "machines", "quick", "wrong"),
    [
        ("verma2012", "sim", False, "unknown paper, did you mean 'verma2011'"),
        ("tiny/sixx", "sim", False, "unknown experiment, did you mean 'tiny/six'"),
        ("tiny", "process", False, "nothing runs on --machines process, expected sim"),
        ("tiny", "sim", True, "tiny --quick: nothing runs on --machines sim"),
    ],
)
def test_what_cannot_be_run_is_told_in_a_line(target: str, machines: str, quick: bool, wrong: str) -> None:
    known = {SIX.label: SIX, "verma2011/x": replace(SIX, paper="verma2011")}
    with pytest.raises(BadInput) as error:
        chosen(known, target, machines, quick=quick)
    assert wrong in str(error.value) and "\n" not in str(error.value)


@pytest.mark.parametrize("holds", [{}, {"at_most": 1, "equal": True}, {"within": 0}, {"above": 1}])
def test_a_criterion_says_one_thing(holds: dict[str, Any]) -> None:
    with pytest.raises(ValueError):
        Value.model_validate({"what": "x", "value": 1, "holds": holds, "kind": "ours"})


@pytest.mark.parametrize(
    ("more", "wrong"),
    [
        (
            "",
            "a value with a criterion (holds) needs a kind: outcome, fitted, consistency, input, implied, ours",
        ),
        (", kind: guess", "Input should be 'outcome', 'fitted', 'consistency', 'input', 'implied' or 'ours'"),
        (", kind: outcome, no_task: true", "an outcome needs tasks that ran"),
        (", kind: ours, chosen: ''", "at least 1 character"),
    ],
)
def test_a_claim_without_its_kind_is_refused_in_a_line(more: str, wrong: str) -> None:
    text = f"""
title: t
authors: a
published: p
differs: {{}}
as_printed: [fig3]
experiments:
  fig3: {{title: t, where: Figure 3, setup: s, values:
    {{gain: {{what: x, value: 1, holds: {{at_most: 1}}{more}}}}}}}
"""
    with pytest.raises(ValueError, match=r"tiny/paper\.yaml") as error:
        parse(text, "tiny/paper.yaml")
    assert str(error.value).startswith("tiny/paper.yaml: experiments.fig3.values.gain") and wrong in str(
        error.value
    )
    assert "\n" not in str(error.value)


def call(*arguments: str | Path) -> Any:
    return CliRunner().invoke(main.app, ["reproduce", *map(str, arguments)])


def test_the_command_lists_what_there_is() -> None:
    result = call()
    assert result.exit_code == 0, result.output
    for entry in entries().values():
        assert entry.experiment.name in result.output


def test_the_command_refuses_bad_input() -> None:
    for arguments in (["verma2011", "--all"], ["nobody2000"], ["--all", "--machines", "cloud"]):
        result = call(*arguments)
        assert result.exit_code == 2 and len(result.stderr.strip().splitlines()) == 1


@pytest.mark.parametrize(
    ("said", "unit", "shown"),
    [
        (5, "%", "5 %"),
        ("12 to 23", "%", "12 to 23 %"),
        ("hardly", "%", "hardly"),
        ([1, 2], "s", "(1, 2) s"),
        (3, "", "3"),
    ],
)
def test_words_have_no_unit(said: Any, unit: str, shown: str) -> None:
    assert with_unit(said, unit) == shown
