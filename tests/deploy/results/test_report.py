"""Tests that a run's folder is turned into a summary, tables, a timeline, a page and plots."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from html.parser import HTMLParser
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from schedbed.deploy.results import html_report, summary, table, timeline
from schedbed.deploy.results import recorded as recorded_module
from schedbed.deploy.results.html_report import make_parts
from schedbed.deploy.results.measures import waits
from schedbed.deploy.results.page import report_tables
from schedbed.deploy.results.recorded import Recorded, assign_lanes
from schedbed.deploy.results.runfile import RunFile
from schedbed.scheduler.history import read_table, read_tables
from schedbed.tasks.errors import BadInput
from tests.harness import tables as by_hand
from tests.harness.fake_run import FakeRun

POLICIES = ("fifo", "fair", "delay:node_wait=5s")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, draw: Callable[..., Any]) -> Path:
    made = tmp_path_factory.mktemp("run")
    FakeRun(repeats=3, maps=60).write(made)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(html_report.plots, "write", draw)  # plots are drawn once, here
        assert html_report.rebuild(made).left_out == []
    return made


def data_of(folder: Path) -> dict[str, Any]:
    page = (folder / "report.html").read_text(encoding="utf-8")
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.S)
    assert found
    return json.loads(found[1])


def leaves(tree: Any) -> list[dict[str, Any]]:
    if not isinstance(tree, dict):
        return []
    own = [tree] if "repeats" in tree else []
    return own + [leaf for value in tree.values() for leaf in leaves(value)]


def test_the_summary_has_every_figure_of_every_policy_as_leaves(folder: Path) -> None:
    made = summary.load(folder)
    assert list(made) == ["policies", "scenario", "machines", "fidelity", "comparison"]
    assert tuple(made["policies"]) == POLICIES
    for policy in made["policies"].values():
        keys = {"makespan_s", "completion_s", "locality", "fair_share_ratio", "deadlines", "utilisation"}
        keys |= {"concurrency", "waste_cpu_s", "heartbeat_service_s", "fidelity", "paired"}
        assert keys <= set(policy)
        assert set(policy["makespan_s"]["per_user"]) == {"ana", "bo", "cyd"}
        for leaf in leaves({key: value for key, value in policy.items() if key != "paired"}):
            low, high = leaf["ci95"]
            assert len(leaf["repeats"]) == 3 and low <= leaf["mean"] <= high
    delay, fifo = made["policies"]["delay:node_wait=5s"], made["policies"]["fifo"]
    paired = delay["paired"]["makespan_s"]["repeats"]
    both = zip(delay["makespan_s"]["repeats"], fifo["makespan_s"]["repeats"], strict=True)
    assert paired == pytest.approx([a - b for a, b in both]) and fifo["paired"] == {}
    assert 0 < delay["paired"]["makespan_s"]["p"] <= delay["paired"]["makespan_s"]["p_holm"] <= 1


def test_the_summary_agrees_with_the_tables(folder: Path) -> None:
    jobs = read_table(folder, "jobs")
    mine = jobs[(jobs["policy"] == "fair") & (jobs["repeat"] == 1)]
    made = summary.load(folder)["policies"]["fair"]
    assert made["makespan_s"]["repeats"][1] == pytest.approx(mine["finish"].max() - mine["submit"].min())
    assert made["completion_s"]["mean"]["repeats"][1] == pytest.approx(
        (mine["finish"] - mine["submit"]).mean()
    )


def test_a_run_that_was_cut_short_still_makes_everything(tmp_path: Path) -> None:
    run = FakeRun(maps=30).write(tmp_path)
    run.runs = run.runs[:1]
    run.runs[0].state, run.runs[0].note, run.runs[0].host_samples = "interrupted", "KeyboardInterrupt", []
    run.save(tmp_path)
    html_report.rebuild(tmp_path)
    made = summary.load(tmp_path)
    assert made["policies"]["fair"]["fidelity"]["why"] == ["no run was measured"]
    assert "was interrupted" in made["policies"]["fifo"]["fidelity"]["why"][0]
    assert "interrupted: KeyboardInterrupt" in (tmp_path / "report.html").read_text(encoding="utf-8")
    assert [policy["name"] for policy in data_of(tmp_path)["policies"]] == ["fifo"]


@pytest.mark.long  # seconds
def test_a_run_without_a_single_row_still_makes_everything(
    tmp_path: Path, draw: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(html_report.plots, "write", draw)
    run = FakeRun(maps=10, policies=("fifo",)).write(tmp_path)
    for parquet in tmp_path.glob("*.parquet"):
        parquet.unlink()
    (tmp_path / "parts").mkdir()
    run.tables = {}
    run.save(tmp_path)
    html_report.rebuild(tmp_path)
    assert summary.load(tmp_path)["policies"]["fifo"]["makespan_s"]["mean"] is None
    run = RunFile.load(tmp_path)
    run.runs = []
    run.save(tmp_path)
    html_report.rebuild(tmp_path)
    assert not summary.load(tmp_path)["fidelity"]["trusted"]


def test_a_folder_without_a_run_is_bad_input(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"run\.json: not found"):
        html_report.rebuild(tmp_path)


class Tags(HTMLParser):
    """A parser that records the files that a page loads, its ids, and whether all elements are closed
    correctly.
    """

    VOID = {"meta", "br", "wbr", "link", "img"}

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.loads: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.loads += [value or "" for name, value in attrs if name in ("src", "href")]
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_the_page_is_one_well_formed_file_that_loads_nothing(folder: Path) -> None:
    page = (folder / "report.html").read_text(encoding="utf-8")
    tags = Tags()
    tags.feed(page)
    assert tags.open == [] and tags.loads == []
    assert (
        "@import" not in page
        and "url(http" not in page
        and "$" not in re.sub(r"<script>.*?</script>", "", page, flags=re.S)
    )


def test_every_attempt_is_in_the_page_in_a_slot_of_its_own(folder: Path) -> None:
    attempts = read_table(folder, "attempts")
    for policy in data_of(folder)["policies"]:
        drawn = policy["attempts"]
        mine = attempts[(attempts["policy"] == policy["name"]) & (attempts["repeat"] == 0)]
        assert len(drawn["row"]) == len(mine)
        assert max(drawn["row"]) < len(policy["rows"])
        ends: dict[int, int] = {}
        for row, start, lasts in sorted(zip(drawn["row"], drawn["start"], drawn["lasts"], strict=True)):
            assert start >= ends.get(row, 0) - 2
            ends[row] = start + lasts


def test_running_tasks_in_the_page_add_up_to_the_attempts_time(folder: Path) -> None:
    data, attempts = data_of(folder), read_table(folder, "attempts")
    for policy in data["policies"]:
        mine = attempts[(attempts["policy"] == policy["name"]) & (attempts["repeat"] == 0)]
        for group in policy["areas"].values():
            total = sum(map(sum, group["series"])) * data["end"] / data["bins"]
            assert total == pytest.approx((mine["end"] - mine["start"]).sum(), rel=0.01)


def test_names_from_the_run_cannot_become_markup(tmp_path: Path) -> None:
    evil = "</script><b>&x"
    run = FakeRun(maps=10, policies=(evil,)).write(tmp_path)
    run.scenario["name"] = evil
    run.save(tmp_path)
    html_report.rebuild(tmp_path)
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert evil not in page and "&lt;/script&gt;" in page
    assert data_of(tmp_path)["policies"][0]["name"] == evil


def test_plots_are_written_beside_the_page(folder: Path) -> None:
    names = {path.name for path in (folder / "plots").iterdir()}
    assert {"overview.png", "completion.svg", "slots.svg"} <= names
    assert (folder / "plots" / "overview.png").read_bytes().startswith(b"\x89PNG")


def test_the_timeline_has_a_slice_an_attempt_and_threads_do_not_overlap(folder: Path) -> None:
    events = json.loads((folder / timeline.NAME).read_text())["traceEvents"]
    slices = [e for e in events if e["ph"] == "X" and "_" in e["name"]]
    assert len(slices) == len(read_table(folder, "attempts"))
    ends: dict[tuple[int, int], int] = {}
    for event in sorted(slices, key=lambda e: e["ts"]):
        thread = (event["pid"], event["tid"])
        assert event["ts"] >= ends.get(thread, 0) - 3_000
        ends[thread] = event["ts"] + event["dur"]
    processes = {e["args"]["name"] for e in events if e["name"] == "process_name"}
    assert "1 fifo, repeat 1: n1 (rack a)" in processes and len(processes) == 3 * 3 * (6 + 1)
    decisions = [e for e in events if e["ph"] == "i" and e.get("s") == "t"]
    assert len(decisions) == len(read_table(folder, "decisions"))
    assert {e["name"] for e in events if e["ph"] == "i"} - {e["name"] for e in decisions} == {
        "kill n3",
        "slow n4",
    }
    assert any(e["name"] == "utilisation" and e["args"]["cpu %"] > 0 for e in events)


def test_the_timeline_of_a_large_run_has_the_decisions_of_the_drawn_nodes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recorded_module, "NODES_DRAWN", 2)
    FakeRun(policies=("fifo",), maps=20).write(tmp_path)
    html_report.rebuild(tmp_path, with_plots=False)
    events = json.loads((tmp_path / timeline.NAME).read_text(encoding="utf-8"))["traceEvents"]
    drawn = [e["args"]["node"] for e in events if e["ph"] == "i" and e.get("s") == "t"]
    everywhere = read_table(tmp_path, "decisions")["node"].tolist()
    assert sorted(drawn) == sorted(node for node in everywhere if node in ("n1", "n4"))
    assert 0 < len(drawn) < len(everywhere)
    assert "decisions of 2 nodes" in {e["args"].get("name") for e in events if e["ph"] == "M"}


def test_the_timeline_has_policies_in_order_and_names_that_a_person_reads(folder: Path) -> None:
    text = (folder / timeline.NAME).read_text(encoding="utf-8")
    assert "\\u" not in text
    events = json.loads(text)["traceEvents"]
    names = {e["pid"]: e["args"]["name"] for e in events if e["name"] == "process_name"}
    places = {e["pid"]: e["args"]["sort_index"] for e in events if e["name"] == "process_sort_index"}
    ordered = [names[pid] for pid in sorted(names, key=lambda pid: places[pid])]
    numbers = [int(name.split()[0]) for name in ordered]
    assert numbers == sorted(numbers)
    assert [name for name in ordered if name.endswith("cluster")][::3] == [
        f"{number} {policy}, repeat 1: cluster" for number, policy in enumerate(POLICIES, 1)
    ]


def test_the_timeline_counts_the_tasks_that_wait_and_how_long(folder: Path) -> None:
    events = json.loads((folder / timeline.NAME).read_text(encoding="utf-8"))["traceEvents"]
    run = RunFile.load(folder)
    mine = Recorded(folder, run).tables("fifo", 0)
    pid = next(e["pid"] for e in events if e["args"].get("name") == "1 fifo, repeat 1: cluster")
    queue = [e for e in events if e["pid"] == pid and e["name"] == "tasks waiting"]
    first = waits.first_assignments(mine.jobs, mine.attempts)
    for event in queue[:: max(1, len(queue) // 20)]:
        t = event["ts"] / 1e6
        there = (first["runnable"] <= t + 1e-6) & (first["assigned"] > t + 1e-6)
        counts = first[there]["kind"].value_counts()
        assert event["args"] == {"maps": counts.get("map", 0), "reduces": counts.get("reduce", 0)}
    waited = [e["args"]["seconds"] for e in events if e["pid"] == pid and e["name"] == "mean wait so far [s]"]
    assert 0 < max(waited) <= float((first["assigned"] - first["runnable"]).max()) + 1e-3


def test_an_attempt_takes_the_lowest_slot_that_is_free() -> None:
    rows = [
        {"start": 0.0, "end": 4.0},
        {"start": 1.0, "end": 2.0},
        {"start": 2.0, "end": 5.0},
        {"assigned": 3.0},
    ]
    lanes = assign_lanes(by_hand.table("attempts", rows), 9.0)
    assert lanes["lane"].tolist() == [0, 1, 1, 2] and lanes["to_s"].tolist() == [4.0, 2.0, 5.0, 9.0]


def test_the_table_is_plain_text_outside_a_terminal_and_marks_the_best_on_one(folder: Path) -> None:
    made = summary.load(folder)
    plain, colored, marked = StringIO(), StringIO(), StringIO()
    table.show(made, Console(file=plain))
    lines = plain.getvalue().splitlines()
    assert (
        lines[0].split() == list(POLICIES)
        and lines[1].startswith("makespan [s]")
        and "\x1b" not in plain.getvalue()
    )
    assert "Cannot tell with 3 repeats which policy is best" in plain.getvalue()
    for row in made["comparison"]["rows"]:
        row["best"] = None
    table.show(made, Console(file=colored, force_terminal=True, width=120))
    assert "\x1b[1;32m" not in colored.getvalue()
    made["comparison"]["rows"][0]["best"] = "fair"
    table.show(made, Console(file=marked, force_terminal=True, width=120))
    assert "\x1b[1;32m" in marked.getvalue()
    assert 'class="best"' in report_tables.comparison_html(made)


@pytest.mark.parametrize("width", [60, 80, 120])
def test_no_figure_of_the_table_is_broken_on_a_narrow_terminal(folder: Path, width: int) -> None:
    made, out = summary.load(folder), StringIO()
    table.show(made, Console(file=out, force_terminal=True, color_system=None, width=width))
    text = out.getvalue()
    assert max(map(len, text.splitlines())) <= width
    for label, *cells in table.rows(made["policies"]):
        assert label in text and all(cell.strip() in text for cell in cells)


def test_doubts_follow_the_table(tmp_path: Path) -> None:
    run = FakeRun(maps=10, host_load=1.0).write(tmp_path)
    parts = make_parts(tmp_path, run, Recorded(tmp_path, run), with_report=False)
    text = table.plain(summary.write(tmp_path, run, parts.measures))
    assert "NO" in text and "not trusted: The host's CPU was saturated" in text


def test_damaged_parts_are_named(tmp_path: Path) -> None:
    run = FakeRun(maps=10).write(tmp_path)
    run.tables = {}
    run.save(tmp_path)
    torn = tmp_path / "parts" / "jobs" / "x-0-0.parquet"
    tables_before = read_tables(tmp_path)
    torn.parent.mkdir(parents=True)
    torn.write_bytes(b"PAR1")
    assert html_report.rebuild(tmp_path).left_out == ["jobs/x-0-0.parquet"]
    assert tables_before["jobs"].shape[0] == 36 and RunFile.load(tmp_path).policies == list(POLICIES)
