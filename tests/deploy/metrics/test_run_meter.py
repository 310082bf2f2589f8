"""Tests that the metrics served to Prometheus equal the run's rows and status, and that reading needs the
token.
"""

from __future__ import annotations

import re
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from schedbed.deploy import options as module
from schedbed.deploy.options import RunOptions
from schedbed.deploy.watch.run_meter import RunMeter, serve_metrics
from schedbed.deploy.workspace import token_file
from schedbed.tasks.errors import BadInput
from tests.harness.tables import NODE, rows

ROOT = Path(__file__).parents[3]
STATUS: dict[str, Any] = {
    "now_s": 12.5,
    "jobs": [
        {"job": "job_0001", "queue": 'q"1', "state": "running", "maps": 9, "maps_done": 2, "maps_running": 3}
        | {"reduces": 2, "reduces_done": 0, "reduces_running": 1},
        {"job": "job_0002", "queue": 'q"1', "state": "failed", "maps": 9, "maps_done": 2, "maps_running": 0}
        | {"reduces": 2, "reduces_done": 0, "reduces_running": 0},
    ],
    "nodes": [
        {"node": "n1", "state": "alive", "cpu_util": 0.5, "disk_util": 0.25, "net_util": 0.0}
        | {"memory_bytes": 1000, "map_slots": 2, "reduce_slots": 1, "running": ["a", "b"]},
    ],
}


def metered() -> RunMeter:
    meter = RunMeter()
    meter.begin([NODE], policy="fair", repeat="0", machines="process")
    meter.take_rows("heartbeats", rows("heartbeats", {"service_s": 0.0002}, {"service_s": 7.0}))
    map_ = {"kind": "map", "state": "succeeded", "locality": "node"}
    meter.take_rows("attempts", rows("attempts", map_, map_, {**map_, "state": "lost", "locality": "rack"}))
    meter.take_rows("decisions", rows("decisions", {"kind": "map", "answer": "skip"}))
    ended = {"state": "succeeded", "queue": "q", "submit": 1.0, "start": 3.0}
    meter.take_rows("jobs", rows("jobs", ended, {**ended, "start": None, "state": "killed"}))
    meter.take_status(STATUS)
    return meter


def read(text: str) -> dict[tuple[str, ...], float]:
    """Parse metrics in the format of Prometheus.

    Return a dictionary from the sample's name and its label values, sorted by label name, to the value.
    """
    samples = [each for family in text_string_to_metric_families(text) for each in family.samples]
    return {
        (
            each.name.removeprefix("schedbed_"),
            *(each.labels[name] for name in sorted(each.labels)),
        ): each.value
        for each in samples
    }


def collected(meter: RunMeter) -> dict[tuple[str, ...], float]:
    registry = CollectorRegistry()
    registry.register(meter)  # pyright: ignore[reportArgumentType]
    return read(generate_latest(registry).decode())


def test_figures_are_those_of_rows_and_status() -> None:
    found = collected(metered())
    assert found["run_info", "process", "fair", "0"] == 1
    assert found["emulated_time_seconds",] == 12.5
    assert (found["nodes", "alive"], found["nodes", "lost"]) == (1, 0)
    assert (found["node_slots", "map", "n1"], found["node_slots", "reduce", "n1"]) == (2, 1)
    assert found["node_cpu_limit_cores", "n1"] == pytest.approx(0.2)
    assert found["node_cpu_used_ratio", "n1"] == 0.5
    assert found["queue_jobs", 'q"1'] == 1
    assert found["queue_tasks", "map", 'q"1', "waiting"] == 4
    assert found["queue_tasks", "map", 'q"1', "running"] == 3
    assert found["queue_tasks", "reduce", 'q"1', "waiting"] == 1
    assert found["attempts_ended_total", "map", "node", "succeeded"] == 2
    assert found["attempts_ended_total", "map", "rack", "lost"] == 1
    assert found["decisions_total", "skip", "map"] == 1
    assert (found["jobs_ended_total", "succeeded"], found["jobs_ended_total", "killed"]) == (1, 1)


def test_histograms_are_cumulative_and_hold_what_is_above_the_last_bound() -> None:
    found = collected(metered())
    service = "heartbeat_service_seconds"
    assert found[f"{service}_bucket", "0.0001"] == 0
    assert found[f"{service}_bucket", "0.00025"] == found[f"{service}_bucket", "0.5"] == 1
    assert found[f"{service}_bucket", "+Inf"] == found[f"{service}_count",] == 2
    assert found[f"{service}_sum",] == pytest.approx(7.0002)
    assert found["job_wait_seconds_count", "q"] == 1 and found["job_wait_seconds_sum", "q"] == 2.0


def test_the_dashboard_and_the_page_name_metrics_that_there_are() -> None:
    text = "".join(f"{name[0]}\n" for name in collected(metered()))
    for page in ("docs/grafana.json", "docs/metrics.md"):
        named = set(re.findall(r"schedbed_(\w+)", (ROOT / page).read_text(encoding="utf-8")))
        assert len(named) > 10
        assert [each for each in named if not re.search(rf"^{each}(_bucket)?$", text, re.MULTILINE)] == []


def test_the_next_run_begins_at_zero() -> None:
    meter = metered()
    meter.begin([NODE], policy="fifo", repeat="0", machines="process")
    found = collected(meter)
    assert found["heartbeat_service_seconds_count",] == 0
    assert not [name for name in found if name[0] == "attempts_ended_total"]


def test_only_the_token_opens_and_its_file_is_private(tmp_path: Path) -> None:
    with token_file(tmp_path / "token", "secret") as path, serve_metrics(metered(), "secret", 0) as server:
        assert path.stat().st_mode & 0o777 == 0o600
        request = urllib.request.Request(
            f"{server.url}/metrics", headers={"Authorization": f"Bearer {path.read_text()}"}
        )
        with urllib.request.urlopen(request, timeout=60) as answer:
            assert answer.headers["Content-Type"].startswith("text/plain")
            assert read(answer.read().decode())["nodes", "alive"] == 1
        with pytest.raises(urllib.error.HTTPError, match="401"):
            urllib.request.urlopen(f"{server.url}/metrics", timeout=60)
    assert not path.exists()


def test_what_cannot_serve_is_refused_in_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("metrics", "webhdfs"):
        with pytest.raises(BadInput, match=f"--{name}: a simulation serves nothing"):
            RunOptions(
                machines="sim",
                webhdfs=0 if name == "webhdfs" else None,
                metrics=0 if name == "metrics" else None,
            )
    monkeypatch.setattr(module.importlib.util, "find_spec", lambda _: None)
    with pytest.raises(BadInput, match=r"pip install 'schedbed\[metrics\]'"):
        RunOptions(metrics=0)
