"""The pages of figures and claims agree with the result files, and no result is left out."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from schedbed.deploy.doctor.measured_limits import LimitsFile
from schedbed.deploy.doctor.trials import BREAKS, HOLDS, LimitRow
from schedbed.deploy.papers import paper_file
from schedbed.deploy.papers.catalogue import PAPERS, entries
from schedbed.deploy.papers.verdict import OPEN
from tests.bench import pages
from tests.bench.figures import ROOT, Figure, ResultFile
from tests.pages import claims, limit_tables

KEPT = pages.RESULTS / "reproduce"

SIMULATED = claims.load(KEPT / "sim")


def test_pages_are_what_the_result_files_give() -> None:
    rendered = pages.rendered()
    docs = ROOT / "docs"
    stale = [name for name, text in rendered.items() if (docs / name).read_text(encoding="utf-8") != text]
    assert stale == [], "edit docs/results, then: python -m tests.bench.pages"
    detailed = {str(path.relative_to(docs)) for path in pages.RESULTS.rglob("*.md")}
    assert {name for name in detailed if not name.endswith(".template.md")} <= set(rendered)


def test_a_table_shows_each_figure_with_its_verdict_and_source() -> None:
    figures = [
        Figure(name="gap", values=[41.0, 39.0, 50.0], unit="ms", high=40, note="busy"),
        Figure(name="rate", values=[85_000], unit="tasks/s", low=60_000, median_of=3),
    ]
    kept = ResultFile(title="Overhead", date="2026-01-02", host="2 cores", command="run it", figures=figures)
    assert pages.table(kept).splitlines()[2:] == [
        "Measured on 2026-01-02. Host: 2 cores. Command: `run it`.",
        "",
        "| figure | target | median (min..max) | repeats | |",
        "|---|---|---|---|---|",
        "| gap (busy) | <= 40 ms | 41 ms (39..50) | 3 | missed |",
        "| rate | >= 60,000 tasks/s | 85,000 tasks/s | 3 | met |",
    ]


def a_row(resource: str, achieved: float, verdict: str, *, hostile: bool, note: str = "") -> LimitRow:
    return LimitRow(
        node="n1",
        resource=resource,
        code="two shells" if hostile else "cooperates",
        hostile=hostile,
        declared=0.1,
        achieved=achieved,
        by="cgroup v1",
        witness="control group",
        verdict=verdict,
        note=note,
    )


def test_each_benchmark_has_a_headline() -> None:
    figures = [Figure(name="a | b", values=[2.0], high=3), Figure(name="c", values=[4.0], high=3)]
    kept = ResultFile(title="Overhead", date="2026-01-02", host="2 cores", command="run it", figures=figures)
    line = "| [Overhead](results/benchmarks/overhead.md) | 1 of 2 | a, b | <= 3 | 2 |"
    assert pages.headlines({"overhead": kept}, {"overhead": {"headline": "a | b"}}).splitlines()[-1] == line
    with pytest.raises(ValueError, match="there are results of overhead"):
        pages.headlines({"overhead": kept}, {})


def test_limits_are_shown_row_by_row_and_by_their_worst() -> None:
    rows = [
        a_row("cpu", 0.101, HOLDS, hostile=True),
        a_row("cpu", 0.5, BREAKS, hostile=True, note="it left"),
        a_row("cpu", 0.102, HOLDS, hostile=False),
    ]
    kept = LimitsFile(
        machines="docker", date="2026-01-02", host="2 cores", command="schedbed doctor", rows=rows
    )
    assert limit_tables.table(kept).splitlines()[4:] == [
        "| cpu | **cooperates** | 0.100 cores | 0.102 cores | cgroup v1 | control group | holds |",
        "| cpu | two shells | 0.100 cores | 0.101 cores | cgroup v1 | control group | holds |",
        "| cpu | two shells | 0.100 cores | 0.500 cores | cgroup v1 | control group | does not hold: it left |",
    ]
    short = limit_tables.short_table({"docker": kept})
    assert "| cpu | 102%, cgroup v1 | 500%: does not hold |" in short
    assert "| disk | not measured | not measured |" in short


@pytest.mark.parametrize("template", ["{{old}}\n", "{{new}}\n{{old}}\n", "no place\n", "{{new}}\n{{new}}\n"])
def test_a_result_without_its_place_is_refused(template: str) -> None:
    assert pages.fill("a\n{{new}}\nb\n", {"new": "table\n"}).endswith("a\ntable\nb\n")
    with pytest.raises(ValueError, match="places"):
        pages.fill(template, {"new": "table\n"})


@pytest.mark.parametrize("paper", SIMULATED)
def test_kept_values_are_those_of_the_paper_file(paper: str) -> None:
    """All claimed values of simulated experiments are kept, since others would be missing on the page."""
    kept = {each["experiment"]: claims.judged(paper, each) for each in SIMULATED[paper]["experiments"]}
    simulated = [e.experiment.name for e in entries((paper,)).values() if e.experiment.runs_on("sim")]
    assert sorted(kept) == sorted(simulated)
    for experiment, rows in kept.items():
        said = paper_file.load(paper).experiments[experiment].values
        claimed = {key for key, value in said.items() if value.holds}
        assert claimed <= {row.key for row in rows}, experiment


@pytest.mark.parametrize("paper", PAPERS)
def test_an_outcome_has_something_of_the_paper_to_hold_against(paper: str) -> None:
    """A value for which the paper says nothing has a criterion of this project's own."""
    for name, about in paper_file.load(paper).experiments.items():
        for key, value in about.values.items():
            assert value.kind in (None, "ours", "fitted") or value.value is not None or value.no_task, (
                f"{paper}/{name}/{key}"
            )


def test_kept_values_are_judged_by_the_present_criteria(tmp_path: Path) -> None:
    """The verdict and the texts in results.json are ignored; only the measurements count."""
    row = {"key": "gain_least", "samples": [[-20.5, -20.512345678, -20.4]] * 3, "verdict": "holds"}
    experiment: dict[str, Any] = {
        "paper": "polo2011", "experiment": "fig3", "state": "done", "notes": ["A note."], "rows": [row],
        "seeds": [1, 1001, 2001], "repeats": 3, "size": {"nodes": [5, 5], "jobs": [9, 9], "tasks": [897, 897]},
    }  # fmt: skip
    content = {
        "machines": "sim", "wall_start": "2026-01-02T03:04:05+00:00", "versions": {"python": "3.11"},
        "host": {"cores": 2, "system": "Linux"}, "experiments": [experiment], "papers": {"polo2011": {}},
    }  # fmt: skip

    def keep() -> None:
        (tmp_path / "results.json").write_text(json.dumps(content))
        claims.keep(tmp_path, kept)

    kept = tmp_path / "kept"
    keep()
    notes = {
        "headlines": {"polo2011/fig3/gain_least": None},
        "sim": {"polo2011": {"fig3": "Disks do not seek."}},
    }
    (kept / claims.NOTES).write_text(yaml.safe_dump(notes))
    made, page = claims.tables(kept), claims.papers(kept)["polo2011"]
    assert "| **all** | 0 / 1 / 0 | - | - | - | - | - | - |" in made["counts"]
    said = paper_file.load("polo2011").experiments["fig3"].values["gain_least"]
    cells = f"{said.what} | outcome | 5 % | -20.5 [-20.5, -20.4] | -20.5, -20.5, -20.5 | within 25% | {OPEN} (outside)"
    assert f"| {cells} [a] |" in page and f"[a] Chosen with results in view: {said.chosen}" in page
    assert (
        "Set-up: 5 nodes (printed: 20), 9 jobs (printed: 9), 897 tasks (not printed). Not as printed: "
        in page
    )
    assert page.endswith("A note.\n\nDisks do not seek.\n")
    assert (
        f": {said.what} | 5 % | -20.5 [-20.5, -20.4] | - | **{OPEN}** | outside; a quarter"
        in made["headlines"]
    )
    assert "| **all** | 1 | 0 | 1 | 0 | 1 | 0 | 0 |" in made["words"]
    assert "**0 of 1 outcomes hold, 1 are not reproduced and so open, 0 are contradicted**" in made["summary"]
    assert made["fewer"] == "Experiments with fewer than 20 repeats for each seed: polo2011/fig3 3."
    row["key"] = "gone"
    keep()
    with pytest.raises(ValueError, match=r"polo2011/fig3: paper\.yaml has no gone"):
        claims.tables(kept)
    experiment["state"] = "broken"
    with pytest.raises(ValueError, match="fig3"):
        keep()
