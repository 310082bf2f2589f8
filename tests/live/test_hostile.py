"""`doctor --measure --hostile` on real nodes: each row states the measured rate, its limit and a verdict."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from schedbed.deploy.doctor.measured_limits import LimitsFile, measure_limits
from schedbed.deploy.doctor.trials import (
    BREAKS,
    HOLDS,
    TRIALS,
    TRUSTING,
    UNLIMITED,
    UNTRIED,
    LimitRow,
    claims_any_code,
)
from schedbed.deploy.failures import RunFailed
from schedbed.deploy.scenario.resolve import resolve
from tests.harness.command import write_scenario
from tests.harness.engine import engine_or_skip

pytestmark = [pytest.mark.live, pytest.mark.slow]  # minutes; `doctor --hostile` for a release

SOME = ("unwaited_children", "shared", "buffered", "receive")


def measured(folder: Path, machines: str) -> list[LimitRow]:
    """Return the rows of a short measurement on nodes of the kind `machines`.

    Checks that the printed table agrees with the rows, and fails exactly if a row does.
    """
    scenario = resolve(write_scenario(folder))
    nodes = tuple(replace(node, rack="r1") for node in scenario.cluster.nodes[:2])
    scenario = replace(scenario, cluster=replace(scenario.cluster, nodes=nodes))
    console = Console(record=True, width=160)
    failed = ""
    try:
        measure_limits(
            scenario,
            console,
            machines=machines,
            hostile=True,
            save=folder / "limits.json",
            seconds=1.5,
            hostile_s=1.5,
            trials=[trial for trial in TRIALS if trial.program in SOME],
        )
    except RunFailed as error:
        failed = str(error)
    text = console.export_text()
    rows = list(LimitsFile.load(folder / "limits.json").rows)
    for row in rows:
        assert not row.hostile or (row.code in text and f"{row.resource}, by {row.by}" in text)
    assert any(row.fails for row in rows if row.hostile) is ("hostile attempts" in failed)
    return rows


def check(rows: list[LimitRow]) -> dict[str, LimitRow]:
    """Return the rows of hostile programs, a dictionary from resource to row.

    Checks that each row's verdict agrees with the claim of its limit.
    """
    assert {row.resource for row in rows if not row.hostile} == {"cpu", "memory", "disk", "network"}
    found = {row.resource: row for row in rows if row.hostile}
    assert set(found) == {"cpu", "memory", "disk", "network"}
    for row in found.values():
        assert row.achieved is not None and row.achieved > 0, f"{row.code}: {row.note}"
        assert row.witness != "none"
        if claims_any_code(row.by):
            assert row.verdict in (HOLDS, BREAKS, UNTRIED)
        else:
            assert row.verdict in (TRUSTING, UNLIMITED) and not row.fails
    return found


def test_processes(tmp_path: Path) -> None:
    found = check(measured(tmp_path, "process"))
    if claims_any_code(found["cpu"].by):
        assert found["cpu"].verdict != BREAKS, found["cpu"]
        assert found["memory"].verdict == HOLDS, found["memory"]


def test_containers(tmp_path: Path) -> None:
    engine_or_skip()
    found = check(measured(tmp_path, "docker"))
    if claims_any_code(found["network"].by):
        assert found["network"].verdict != BREAKS, found["network"]
