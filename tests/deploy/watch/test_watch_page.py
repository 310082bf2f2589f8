"""Tests the live page in a real browser: its contents, its buttons, and its text at two window widths."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from schedbed.deploy.watch.page_server import LivePage
from tests.deploy.watch.test_page_server import Buttons
from tests.harness.browser import OVERLAPS, Gesture, look
from tests.harness.busy_run import BusyRun, fed

SHOWN = """
new Promise((done) => {
  const shown = () => document.querySelectorAll("#decisions tr").length > 20;
  const look = () => (shown() ? setTimeout(done, 300) : setTimeout(look, 100));
  look();
})
"""
TABLES = """
Object.fromEntries(["queues", "jobs", "nodes", "decisions"].map(
  (id) => [id, document.querySelectorAll(`#${id} tbody tr`).length]))
"""
COLORED = """
(() => {
  const canvas = document.getElementById("lanes"), { width, height } = canvas;
  const data = canvas.getContext("2d").getImageData(0, 0, width, height).data;
  let colored = 0;
  for (let i = 0; i < data.length; i += 4) {
    const parts = [data[i], data[i + 1], data[i + 2]];
    if (data[i + 3] && Math.max(...parts) - Math.min(...parts) > 60) colored++;
  }
  return colored;
})()
"""
CUT = """
[...document.querySelectorAll("h1, h2, p, label, button")]
  .filter((e) => e.offsetParent && !e.closest(".scroll") && e.getBoundingClientRect().right > innerWidth + 1)
  .map((e) => e.textContent)
"""
GAUGES = """
[...document.querySelectorAll("#nodes .gauge")].slice(0, 2).map(
  (e) => [e.textContent, e.style.getPropertyValue("--share")])
"""
SAID = """
(async () => {
  const said = document.getElementById("said"), pause = () => new Promise((done) => setTimeout(done, 50));
  for (let i = 0; i < 200 && ["", "..."].includes(said.textContent); i++) await pause();
  const told = said.textContent;
  said.textContent = "";
  return told;
})()
"""
A_WHILE = "new Promise((done) => setTimeout(done, 1600))"
"""Script that waits for several statuses of the run, each of which draws the tables."""
QUESTION = """
document.getElementById("sure").open ? document.getElementById("question").textContent : ""
"""
KILL = "#jobs tr:nth-child(2) button"
FOCUS = f"document.querySelector('{KILL}').focus()"
HAS_FOCUS = f"document.activeElement === document.querySelector('{KILL}')"


@pytest.mark.parametrize("width", [1280, 390])
def test_the_page_shows_lanes_queues_jobs_nodes_and_decisions(width: int) -> None:
    with fed(BusyRun(6, 4)) as url:
        _, wide, overlaps, cut, tables, filled, gauges = look(
            url,
            width,
            [SHOWN, "document.documentElement.scrollWidth", OVERLAPS, CUT, TABLES, COLORED, GAUGES],
        )
    assert wide <= width and overlaps == [] and cut == []
    assert tables["nodes"] == 6 and tables["queues"] == 1 and min(tables.values()) > 0
    assert filled > 500
    assert gauges == [["80 % of 0.20 cores", "80%"], ["40 % of 38 MiB/s", "40%"]]


def done_by(scripts: Sequence[str | Gesture], *, width: int = 1280) -> tuple[list[Any], list[Any]]:
    """Run scripts and gestures on the page of a busy run. Return their values, and what the buttons did."""
    watch, buttons = LivePage(submits=True), Buttons()
    watch.controls = buttons
    with fed(BusyRun(6, 4), watch=watch) as url:
        made = look(url, width, [SHOWN, *scripts])
    return made[1:], buttons.done


@pytest.mark.parametrize(
    ("ask", "agree"),
    [
        ([Gesture("click", KILL)], [Gesture("click", "#yes")]),
        ([Gesture("tap", KILL)], [Gesture("tap", "#yes")]),
        ([FOCUS, Gesture("Enter")], [Gesture("Tab"), Gesture("Enter")]),
        ([FOCUS, Gesture("Space")], [Gesture("Tab"), Gesture("Space")]),
        ([f"document.querySelector('{KILL}').click()"], ["document.getElementById('yes').click()"]),
    ],
    ids=("mouse", "touch", "enter", "space", "screen reader"),
)
def test_a_job_is_killed_by_every_input_in_two_steps(
    ask: list[str | Gesture], agree: list[str | Gesture]
) -> None:
    values, done = done_by([*ask, A_WHILE, QUESTION, *agree, SAID], width=390)
    assert values[len(ask) + 1].startswith("Kill job_0001 (crunch-1 of ana)? Its 20 running attempts end")
    assert done == ["job_0001"] and values[-1] == "job_0001 is being killed"


@pytest.mark.parametrize(
    "gestures",
    [
        [Gesture("swipe", KILL), A_WHILE],
        [Gesture("click", KILL), Gesture("Escape"), A_WHILE],
        [Gesture("tap", KILL), Gesture("tap", "#no"), A_WHILE],
        [FOCUS, Gesture("Enter"), Gesture("Enter"), A_WHILE],
    ],
    ids=("swipe", "escape", "cancel", "enter twice"),
)
def test_nothing_is_killed_by_accident(gestures: list[str | Gesture]) -> None:
    values, done = done_by([*gestures, QUESTION], width=390)
    assert done == [] and values[-1] == ""


def test_a_button_keeps_the_focus_while_tables_change() -> None:
    assert done_by([FOCUS, A_WHILE, HAS_FOCUS])[0][-1] is True


def test_a_fault_says_what_it_hits_before_and_until_when_after_it() -> None:
    def choose(kind: str, lasts: str) -> str:
        return f"""
        document.getElementById("fault").value = "{kind}"; document.getElementById("node").value = "n2";
        document.getElementById("for").value = "{lasts}"
        """

    ask = [Gesture("click", "#inject"), QUESTION, Gesture("click", "#no")]
    values, done = done_by([choose("kill_host", ""), *ask, choose("kill", "30s"), *ask])
    assert values[2].startswith("kill_host on n1, n2, n3, n4, n5, n6: all TaskTrackers on the same host")
    assert values[6].startswith("kill for 30s on n2: the node fails.") and done == []
    agree = [Gesture("click", "#inject"), Gesture("click", "#yes"), SAID]
    values, done = done_by([choose("kill", "30s"), *agree, Gesture("click", "#submit"), SAID])
    assert done == [{"kill": "n2", "for": "30s"}, [{"app": "pi", "maps": 4}]]
    assert values[3] == "kill n1 from 1.0 s until 31.0 s" and values[-1] == "submitted job_0002"


STATES = """
[document.getElementById("down").textContent,
 ...[...document.querySelectorAll("#nodes tbody tr")].map((row) => `${row.cells[2].textContent}|${row.className}`)]
"""


def test_the_page_says_which_nodes_and_masters_are_down_and_until_when() -> None:
    watch = LivePage()
    with fed(BusyRun(3, 4), watch=watch) as url:
        watch.take_condition(7.0, {"n2": [("killed", 40.0)], "n3": [("frozen", None)]}, {"jobtracker": 12.5})
        _, _, states = look(url, 1280, [SHOWN, A_WHILE, STATES])
        watch.take_condition(8.0, {}, {})
        _, _, later = look(url, 1280, [SHOWN, A_WHILE, STATES])
    assert states == [
        "The JobTracker is down until 12.5 s.",
        "alive|",
        "killed until 40.0 s|lost",
        "frozen|lost",
    ]
    assert later == ["", "alive|", "alive|", "alive|"]


def test_a_page_that_only_looks_has_no_buttons() -> None:
    with fed(BusyRun(6, 4), watch=LivePage(submits=True, read_only=True)) as url:
        _, buttons = look(
            url,
            1280,
            [SHOWN, "[...document.querySelectorAll('button')].filter((b) => b.offsetParent).length"],
        )
    assert buttons == 0
