"""Tests the report's page: its numbers agree with summary.json and the tables, its size is bounded."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from schedbed.deploy.results import html_report, plots, summary
from schedbed.deploy.results.comparison import seconds
from schedbed.deploy.results.measures.wait_causes import SPENT
from schedbed.deploy.results.metrics import RunTables
from schedbed.deploy.results.page import report_data, report_tables
from schedbed.deploy.results.page.bands import BANDS_MAX, Bands, use
from schedbed.deploy.results.recorded import Recorded
from schedbed.deploy.results.runfile import RunFile
from schedbed.scheduler.history import read_table
from tests.harness.browser import OVERLAPS, look
from tests.harness.fake_run import FakeRun

EVIL = "</script><b>&x\"'{{ 7 * 7 }}"
FOUR = ("fifo", "fair", "delay:node_wait=5s", "capacity")


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write a fake run of three policies and three repeats, with one node that dies and one slow node."""
    made = tmp_path_factory.mktemp("small")
    FakeRun(repeats=3, maps=60).write(made)
    html_report.rebuild(made)
    return made


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write a fake run of four policies on a thousand nodes in fifty racks."""
    made = tmp_path_factory.mktemp("large")
    fake = FakeRun(policies=FOUR, nodes=1000, racks=50, jobs=60, maps=4000, heartbeat_s=5.0, kill_at=None)
    fake.write(made)
    html_report.rebuild(made)
    return made


def data_of(folder: Path) -> dict[str, Any]:
    page = (folder / "report.html").read_text(encoding="utf-8")
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.S)
    assert found
    return json.loads(found[1])


def test_the_time_of_jobs_adds_up_to_their_completion(small: Path) -> None:
    for name, policy in summary.load(small)["policies"].items():
        spent = policy["time_s"]
        assert policy["completion_s"]["mean"]["mean"] == pytest.approx(
            sum(spent[part]["mean"] for part in SPENT)
        ), name
        for size, parts in spent["per_size"].items():
            whole = policy["completion_s"]["per_size"][size]["mean"]["mean"]
            assert whole == pytest.approx(sum(parts[part]["mean"] for part in SPENT))


def test_the_page_draws_the_numbers_of_the_summary(small: Path) -> None:
    figures = summary.load(small)["policies"]
    for policy in data_of(small)["policies"]:
        mine = figures[policy["name"]]
        assert policy["makespan"] == mine["makespan_s"]["mean"]
        assert plots.overview_title(policy) == f"{policy['name']}: {seconds(mine['makespan_s']['mean'])} s"
        assert policy["time"]["all"] == [round(mine["time_s"][part]["mean"], 4) for part in SPENT]
        assert set(policy["time"]) == {"all", *mine["completion_s"]["per_size"]}


def test_the_distributions_are_those_of_the_tables(small: Path) -> None:
    jobs = read_table(small, "jobs")
    alone = RunFile.load(small).isolated_s
    for policy in data_of(small)["policies"]:
        mine = jobs[jobs["policy"] == policy["name"]]
        completion = (mine["finish"] - mine["submit"]).to_numpy(float)
        assert policy["spread"]["completion"] == pytest.approx(np.sort(completion), abs=1e-3)
        assert policy["spread"]["wait"] == pytest.approx(np.sort(mine["start"] - mine["submit"]), abs=1e-3)
        slow = np.maximum(1.0, completion / mine["job"].map(alone).to_numpy(float))
        assert policy["spread"]["slowdown"] == pytest.approx(np.sort(slow), abs=1e-3)


def test_answers_are_summed_by_reason(small: Path) -> None:
    recorded, run = Recorded(small, RunFile.load(small)), RunFile.load(small)
    counted = {policy: report_data.sums(recorded.tables(policy, 0)) for policy in run.policies}
    decisions = read_table(small, "decisions")
    for policy, mine in counted.items():
        there = decisions[(decisions["policy"] == policy) & (decisions["repeat"] == 0)]
        assert sum(mine.values()) == len(there)
        assert mine["launch", "node-local"] == (there["reason"] == "node-local").sum()
    assert "skip" in {answer for answer, _ in counted["delay:node_wait=5s"]}
    few = report_tables.decisions(counted, limit=1)
    columns = zip(*([int(cell.text.replace(",", "")) for cell in row.cells] for row in few.rows), strict=True)
    assert all(shown + rest == whole for shown, rest, whole in columns)


def test_an_attempt_has_the_reason_that_launched_it_and_the_offers_before(small: Path) -> None:
    decisions = read_table(small, "decisions")
    for policy in data_of(small)["policies"]:
        found, drawn = policy["offers"], policy["attempts"]
        assert len(found["launched"]) == len(drawn["row"])
        places = ["node-local", "rack-local", "off-local"]
        for launched, place in zip(found["launched"], drawn["place"], strict=True):
            assert found["reasons"][launched] == (
                "first job with reduces to run" if place < 0 else places[place]
            )
        mine = decisions[(decisions["policy"] == policy["name"]) & (decisions["repeat"] == 0)]
        assert sum(found["passes"]["count"]) + found["left_out"] == (mine["answer"] == "skip").sum()


def test_offers_are_bounded(small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report_data, "PASSES_MAX", 2)
    mine = Recorded(small, RunFile.load(small)).tables("delay:node_wait=5s", 0)
    found = report_data.of_attempts(mine, mine.attempts, mine.jobs["job"].tolist())
    assert len(found["passes"]["job"]) == 2 and found["left_out"] > 0


def test_hostile_names_stay_text(tmp_path: Path) -> None:
    run = FakeRun(maps=10, policies=("fifo", EVIL)).write(tmp_path)
    rename(tmp_path, run, EVIL)
    html_report.rebuild(tmp_path)
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "<b>&x" not in page and page.count("</script>") == 2
    assert not re.search("('|&#39;|&#x27;|u0027)49", page)  # no template of the name was filled in
    assert data_of(tmp_path)["jobs"][0]["name"].startswith(EVIL)


def rename(folder: Path, run: RunFile, name: str) -> None:
    """Replace names in a run by a hostile one: the scenario's, and one job's name, user and queue.

    All tables are written again.
    """
    from schedbed.deploy.results.record_check import merge_parts
    from schedbed.scheduler.history import COLUMNS, History

    tables = {table: read_table(folder, table) for table in COLUMNS}
    for parquet in folder.glob("*.parquet"):
        parquet.unlink()
    jobs = tables["jobs"]
    for column in ("name", "user", "queue"):
        jobs[column] = jobs[column].where(jobs["job"] != "job_0001", name)
    tables["decisions"]["reason"] = name
    for policy in run.policies:
        history = History(folder, policy, 0)
        for table, data in tables.items():
            own = data[(data["policy"] == policy) & (data["repeat"] == 0)]
            history.append_frame(table, own[list(COLUMNS[table])].reset_index(drop=True))
        history.close()
    run.scenario["name"], run.tables = name, {}
    run.save(folder)
    merge_parts(folder, run)


def test_a_thousand_nodes_are_bands_in_a_small_file(large: Path) -> None:
    assert (large / "report.html").stat().st_size < 3_000_000
    data, attempts = data_of(large), read_table(large, "attempts")
    for policy in data["policies"]:
        bands = policy["bands"]
        assert "attempts" not in policy and len(bands["names"]) == BANDS_MAX and sum(bands["nodes"]) == 1000
        mine = attempts[attempts["policy"] == policy["name"]]
        busy = sum(
            slots * np.array(series).sum() / 100
            for slots, series in zip(bands["slots"], bands["job"]["series"], strict=True)
        )
        told = busy * data["end"] / bands["bins"]
        assert told == pytest.approx((mine["end"] - mine["start"]).sum(), rel=0.05)
        assert len(policy["use"]["cpu"]) == BANDS_MAX


def test_bands_begin_above_forty_nodes() -> None:
    nodes = [{"node": f"n{i}", "rack": "abc"[i % 3]} for i in range(41)]
    assert Bands.of(nodes[:40]) is None
    bands = Bands.of(nodes)
    assert bands is not None and bands.names == ["rack a", "rack b", "rack c"]
    assert sorted(np.concatenate(bands.members)) == list(range(41))


def test_an_idle_simulated_node_is_not_silent_but_a_dead_one_is(small: Path) -> None:
    run = RunFile.load(small)
    mine = Recorded(small, run).tables("fifo", 0)
    heartbeats = mine.heartbeats
    quiet = heartbeats[(heartbeats["node"] != "n1") | (heartbeats["t"] < 10)]
    tables = {**mine.tables, "heartbeats": quiet.reset_index(drop=True)}
    edges = np.linspace(0.0, mine.end_s, report_data.BINS + 1)
    found = {
        simulated: use(replace(mine, tables=tables), edges, None, simulated=simulated)
        for simulated in (True, False)
    }
    assert None in found[False]["cpu"][0] and None not in found[True]["cpu"][0]
    assert set(found[True]["cpu"][0][-50:]) == {0}
    assert None in found[True]["cpu"][2], "n3 was killed"


@pytest.mark.parametrize("width", [1280, 390])
def test_no_text_lies_upon_text(small: Path, large: Path, width: int) -> None:
    for folder in (small, large):
        wide, overlaps = look(
            folder / "report.html", width, ["document.documentElement.scrollWidth", OVERLAPS]
        )
        assert overlaps == [] and wide <= width


def test_a_thousand_nodes_under_four_policies_fit_on_six_thousand_pixels(large: Path) -> None:
    (height,) = look(large / "report.html", 1280, ["document.documentElement.scrollHeight"])
    assert height < 6000


CLICK = """
(() => {
  const canvas = document.querySelector("#lanes canvas"), box = canvas.getBoundingClientRect(), g = canvas.geometry;
  const a = R.data.policies[0].attempts, middle = (a.start[0] + a.lasts[0] / 2) / 100;
  const x = box.left + g.x(middle), y = box.top + g.tops[a.row[0]] + 1;
  canvas.dispatchEvent(new MouseEvent("click", { clientX: x, clientY: y, bubbles: true }));
  return document.querySelector(".offers").innerText;
})()
"""
BARS = """
[...document.querySelectorAll("#time .panel")].map((p) => [p.querySelector("h3").textContent,
  [...p.querySelectorAll("rect")].reduce((sum, r) => sum + Number(r.dataset.seconds), 0)])
"""


def test_a_click_shows_the_offers_and_bars_have_the_summarys_seconds(small: Path) -> None:
    shown, bars = look(small / "report.html", 1280, [CLICK, BARS])
    assert re.search(r"job_\d+_[mr]_\d+_\d", shown) and "launched as: " in shown
    figures = summary.load(small)["policies"].values()
    for title, total in bars:
        size = title.removesuffix(" jobs")
        wanted = sum(
            (p["completion_s"] if size == "all" else p["completion_s"]["per_size"][size])["mean"]["mean"]
            for p in figures
        )
        assert total == pytest.approx(wanted, rel=1e-3)


def test_a_hostile_name_makes_no_element_and_no_request_in_a_browser(tmp_path: Path) -> None:
    run = FakeRun(maps=10, policies=("fifo",)).write(tmp_path)
    rename(tmp_path, run, EVIL)
    html_report.rebuild(tmp_path)
    bold, title, legend = look(
        tmp_path / "report.html",
        1280,
        [
            "document.querySelectorAll('b').length",
            "document.querySelector('h1').textContent",
            "[...document.querySelectorAll('#lanekeys span')].map((s) => s.textContent)",
        ],
    )
    assert bold == 2 and title == EVIL and EVIL in [text.replace(" (job_0001)", "") for text in legend]


def test_the_tables_of_jobs_show_the_first_ones_under_each_policy() -> None:
    """Jobs of all policies are in order of submission. A job that a policy lacks has an empty cell."""

    def of_policy(policy: str, submits: dict[str, float], deadlines: dict[str, float]) -> RunTables:
        ids = list(submits)
        columns: dict[str, Any] = {"job": ids, "name": [f"{policy} {job}" for job in ids], "user": "u"}
        columns |= {"app": "pi", "maps": 1, "reduces": 0, "submit": list(submits.values()), "finish": 9.0}
        columns |= {"state": "succeeded", "deadline": [deadlines.get(job, np.nan) for job in ids]}
        return RunTables(policy, 0, {"jobs": pd.DataFrame(columns, ids)}, ())

    shown = [
        of_policy("fifo", {"job_10": 5.0, "job_9": 5.0, "job_2": 0.0, "job_1": 5.0}, {"job_2": 6.0}),
        of_policy("fair", {"job_11": 3.0, "job_1": 5.0, "job_2": 0.0}, {"job_1": 10.0, "job_2": 7.0}),
    ]
    table = report_tables.jobs(shown)
    order = ["fifo job_2", "fair job_11", "fifo job_1", "fifo job_9", "fifo job_10"]
    assert [row.head.partition(" (")[0] for row in table.rows] == order and not table.notes
    assert [[cell.text for cell in row.cells[-2:]] for row in table.rows[1:3]] == [
        ["–", "6.00"],
        ["4.00"] * 2,
    ]
    few = report_tables.jobs(shown, limit=3)
    assert few.rows == table.rows[:3] and few.notes == ("The first 3 of 5 jobs.",)
    due = report_tables.deadlines(shown)
    assert [row.head for row in due.rows] == ["fifo job_2 (job_2)", "fair job_1 (job_1)"]
    assert [row.cells[1].text for row in due.rows] == ["6.00", "10.0"]
    assert report_tables.jobs([]).rows == report_tables.deadlines(shown[:0]).rows == []
