"""The figures of each queue: hand-computed for two jobs that share eight slots."""

from __future__ import annotations

from typing import Any

import pytest

from schedbed.deploy.options import RunOptions
from schedbed.deploy.results.page.report_tables import queues
from schedbed.deploy.results.summary import load
from schedbed.deploy.results.table import plain
from schedbed.deploy.scenario.resolve import resolve
from schedbed.deploy.whole_run import run_scenario

SHARES = {"queues": {"prod": {"capacity": 70}, "dev": {"capacity": 30}}}
NODE = {"cores": 2, "core_speed": 1, "memory": "4GiB", "map_slots": 2, "reduce_slots": 1}
MAPS = {"app": "synthetic", "maps": 40, "map": {"cpu": "5s"}}
SCENARIO = {
    "name": "two-queues",
    "seed": 1,
    "cluster": {"nodes": 4, "node": NODE, "heartbeat": "200ms"},
    "workload": {"jobs": [{**MAPS, "queue": "prod"}, {**MAPS, "queue": "dev", "deadline": "45s"}]},
    "policies": ["fifo", {"capacity": SHARES}, {"yarn-capacity": SHARES}],
}


@pytest.fixture(scope="module")
def summary(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    out = tmp_path_factory.mktemp("queues") / "out"
    return load(
        run_scenario(resolve(SCENARIO), RunOptions(machines="sim", out=out, live=False, report=False))
    )


def mean(figures: dict[str, Any], queue: str, *path: str) -> float | None:
    leaf = figures["per_queue"][queue]
    for key in path:
        leaf = leaf[key]
    return leaf["mean"]


def test_under_fifo_one_queue_waits_for_the_other(summary: dict[str, Any]) -> None:
    """Five waves of 5 s each: prod holds all slots for 25 s, then dev does. dev's deadline is at 45 s."""
    fifo = summary["policies"]["fifo"]
    assert mean(fifo, "prod", "completion_s", "mean") == pytest.approx(25.0, abs=1.0)
    assert mean(fifo, "dev", "completion_s", "mean") == pytest.approx(50.0, abs=1.5)
    assert mean(fifo, "prod", "share_held") == pytest.approx(1.0, abs=0.02)
    assert mean(fifo, "dev", "share_held") == pytest.approx(0.5, abs=0.02)
    assert [mean(fifo, queue, "late") for queue in ("prod", "dev")] == [0.0, 1.0]
    assert "guarantee" not in fifo["per_queue"]["prod"]


@pytest.mark.parametrize("preset", ["capacity", "yarn-capacity"])
def test_what_a_scheduler_guarantees_stands_beside_what_was_held(
    summary: dict[str, Any], preset: str
) -> None:
    [figures] = [each for name, each in summary["policies"].items() if name.startswith(f"{preset}:")]
    assert [mean(figures, queue, "guarantee") for queue in ("prod", "dev")] == [0.7, 0.3]
    assert mean(figures, "prod", "share_held") == pytest.approx(0.7, abs=0.1)


def test_terminal_and_page_show_the_same_figures(summary: dict[str, Any]) -> None:
    lines = [line for line in plain(summary).splitlines() if line.startswith("  prod: ")]
    assert len(lines) == 1 and "guaranteed [%] - / 70.0 / 70.0" in lines[0]
    rows = queues(summary["policies"]).rows
    cells = [cell.text for row in rows for cell in row.cells]
    assert cells.count("70.0") == 2 and [row.head for row in rows] == ["dev", "prod"]
