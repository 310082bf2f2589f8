"""Tests that each row states how it was tested, and that only rows that fail are counted as failures.

Rows that only inform are not counted.
"""

from __future__ import annotations

import asyncio
import io
from collections.abc import Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest
from rich.console import Console

from schedbed.cluster.spec import NodeSpec
from schedbed.deploy.doctor.achieved import PAUSE_S, REPEATS, SIZES, START_S, short_rows
from schedbed.deploy.doctor.loads import LoadedNode, Loads, Work
from schedbed.deploy.doctor.verdicts import HOST_BUSY, Achieved, show
from schedbed.deploy.failures import RunFailed
from tests.harness.agents import node_spec

NODES = tuple(node_spec(name, disk_bps=40e6, network_bps=12.5e6) for name in ("n1", "n2"))


def shown(found: list[Achieved], nodes: Sequence[NodeSpec] = NODES) -> str:
    out = io.StringIO()
    show(found, nodes, Console(file=out, width=160))
    return out.getvalue()


def a_row(ratio: float, tolerance: float | None = 0.1, node: str = "n1") -> Achieved:
    return Achieved(node, "disk", ratio, "software", "read of 1 MB", tolerance)


def test_a_row_says_what_was_tested_and_by_what_it_is_held() -> None:
    text = shown([a_row(0.95)])
    assert all(word in text for word in ("read of 1 MB", "software", "-5.0%", "holds"))


def test_the_worst_of_the_rows_that_do_not_hold_is_named() -> None:
    with pytest.raises(
        RunFailed, match=r"2 of 3 limits do not hold, the worst is disk of n2 under read of 1 MB \(\+50.0%"
    ):
        shown([a_row(0.8), a_row(1.0), a_row(1.5, node="n2")])


def test_a_row_that_only_informs_is_not_judged() -> None:
    assert "not judged" in shown([a_row(0.2, tolerance=None)])


def test_what_a_busy_host_did_not_give_is_no_fault_of_the_limit() -> None:
    busy, wide = replace(a_row(0.8), busy="idle for 2%"), replace(a_row(1.12), resolution=0.03)
    assert (busy.verdict, wide.verdict) == (HOST_BUSY, "holds")
    assert "The host was busy: idle for 2%." in shown([busy, wide])
    for bad in (replace(busy, ratio=1.2), replace(busy, busy=""), replace(wide, ratio=1.14)):
        assert bad.verdict == "does not hold"
    assert replace(busy, tolerance=None).verdict == "not judged"


class FakeLoads:
    """Fake nodes whose transfers take `slowness` times the expected time, and `cpu_s` seconds of CPU time."""

    def __init__(self, slowness: float, cpu_s: float) -> None:
        limits = {"cpu": "cgroup v1", "disk": "software", "network": "software"}
        self.nodes = [SimpleNamespace(spec=spec, hello=SimpleNamespace(limits=limits)) for spec in NODES]
        self.seconds = 8.0
        self.ran: list[Work] = []
        self._slowness = slowness
        self._cpu_s = cpu_s

    def next_of(self) -> dict[str, Any]:
        return {"n1": self.nodes[1], "n2": self.nodes[0]}

    async def run(self, work: list[Work]) -> list[dict[str, Any]]:
        self.ran += work
        return [self._report(*each) for each in work]

    def _report(self, node: LoadedNode, cost: Any, source: LoadedNode | None) -> dict[str, Any]:
        away = source is not None and source is not node
        rate = node.spec.network_bps if away else node.spec.disk_bps
        moving_s = (cost.read_bytes + cost.write_bytes) / rate
        took_s = START_S + moving_s * self._slowness if moving_s else cost.cpu_s
        return {"start_s": 10.0, "end_s": 10.0 + took_s, "counters": {"cpu_s": self._cpu_s}}


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("schedbed.deploy.doctor.achieved.PAUSE_S", PAUSE_S / 1000)


async def rows_of(loads: FakeLoads) -> dict[str, Achieved]:
    found = await short_rows(cast(Loads, loads))
    return {f"{row.resource} {row.load}": row for row in found}


def test_each_kind_and_size_is_tried_some_times_on_all_nodes() -> None:
    loads = FakeLoads(1.0, 0.0)
    rows = asyncio.run(rows_of(loads))
    assert len(rows) == 1 + 3 * len(SIZES) and len(loads.ran) == len(rows) * len(NODES) * REPEATS
    assert all(row.holds and row.ratio == pytest.approx(1.0) for row in rows.values())


def test_a_free_or_slow_transfer_does_not_hold_and_one_that_computes_is_not_judged() -> None:
    for slowness in (0.5, 1.3):
        rows = asyncio.run(rows_of(FakeLoads(slowness, 0.0)))
        assert not any(row.holds for name, row in rows.items() if "task" not in name)
    rows = asyncio.run(rows_of(FakeLoads(3.0, 1.0)))
    assert all(
        row.tolerance is None and "ms of CPU" in row.load for name, row in rows.items() if "task" not in name
    )
