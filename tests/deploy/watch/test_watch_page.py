"""Tests the live page in a real browser: its contents, its buttons, and its text at two window widths."""

from __future__ import annotations

from typing import Any

import pytest

from schedbed.deploy.watch.page_server import LivePage
from tests.deploy.watch.test_page_server import Buttons
from tests.harness.browser import OVERLAPS, look
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
PRESS = """
(async () => {
  document.getElementById("node").value = "n2";
  document.getElementById("inject").click();
  document.getElementById("submit").click();
  document.querySelector("#jobs button").dispatchEvent(new PointerEvent("pointerdown", { bubbles: true }));
  await new Promise((done) => setTimeout(done, 1500));
  return document.getElementById("said").textContent;
})()
"""


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


def test_the_buttons_of_the_page_change_the_run() -> None:
    watch, buttons = LivePage(submits=True), Buttons()
    watch.controls = buttons
    with fed(BusyRun(6, 4), watch=watch) as url:
        _, told = look(url, 1280, [SHOWN, PRESS])
    done: list[Any] = sorted(map(str, buttons.done))
    assert {"kill": "n2", "for": "30s"} in buttons.done or any("n2" in each for each in done), done
    assert [{"app": "pi", "maps": 4}] in buttons.done and told


def test_a_page_that_only_looks_has_no_buttons() -> None:
    with fed(BusyRun(6, 4), watch=LivePage(submits=True, read_only=True)) as url:
        _, buttons = look(
            url,
            1280,
            [SHOWN, "[...document.querySelectorAll('button')].filter((b) => b.offsetParent).length"],
        )
    assert buttons == 0
