"""Properties of any run: all requested work is done, no capacity is exceeded, and runs are reproducible."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from schedbed.cluster.messages import AttemptReport
from schedbed.cluster.spec import LinkRates
from schedbed.cluster.virtual.fluid.fluid import FluidEmulation
from schedbed.cluster.virtual.latencies import Latencies
from schedbed.tasks.chance import chance
from tests.harness.simulation import MB, Blocks, map_plan, node, outputs, reduce_plan

NODES = [f"n{number}" for number in range(6)]
LINKS = LinkRates(up_bps=60.0 * MB, down_bps=50.0 * MB, core_bps=90.0 * MB)
ROOT = Path(__file__).parents[3]


def simulate(seed: int) -> tuple[dict[str, AttemptReport], dict[str, int], str]:
    """Simulate a job of 30 maps and 4 reduces on six nodes, some of which are slow for a while.

    Returns the reports and the requested output bytes as text.
    """
    luck = chance(seed, "fluid")
    store = Blocks({f"b{index}": luck.sample(NODES, 2) for index in range(30)}, others=luck.sample(NODES, 2))
    emulation = FluidEmulation(store, Latencies(), links=LINKS, keeps_consumed=True)
    for number, name in enumerate(NODES):
        emulation.node_up(0.0, node(name, rack=f"r{number % 2}"))
    asked: dict[str, int] = {}
    where: dict[str, str] = {}
    for index in range(34):
        name, amount = luck.choice(NODES), luck.randint(1, 60) * MB
        more = {
            "maps": 30,
            "reduces": 4,
            "start_s": luck.random(),
            "cpu_s": luck.random() * 3,
            "output_bytes": amount,
        }
        if index < 30:
            plan = map_plan(index, [(f"b{index}", luck.randint(1, 60) * MB)], sort_cpu_s=index % 2, **more)
        else:
            plan = reduce_plan(index - 30, output=f"/o{index}", replication=2, block_bytes=20 * MB, **more)
        asked[plan.attempt], where[plan.attempt] = amount, name
        emulation.launch(luck.random() * 0 + index * 0.1, name, plan)
    reports: dict[str, AttemptReport] = {}
    told: list[str] = []
    while (at_s := emulation.next_s()) < 1e9:
        for happening in emulation.advance(at_s):
            report = happening[1]
            assert isinstance(report, AttemptReport)
            told.append(f"{at_s!r} {happening!r}")
            reports[report.attempt] = report
            if "_m_" in report.attempt:
                made = sum("_m_" in name for name in reports)
                news = outputs((int(report.attempt.split("_")[3]), where[report.attempt]), done=made == 30)
                for name in NODES:
                    emulation.map_outputs(at_s, name, news)
            else:
                told.append(repr(emulation.pop_consumed(report.attempt)))
        slow = luck.choice(NODES)
        emulation.set_rates(at_s, slow, *(luck.choice((0.5, 1.0)) for _ in range(3)))
        told.append(repr((emulation.statuses(at_s, slow), emulation.usage(at_s, slow))))
        check_capacities(emulation)
    return reports, asked, "\n".join(told)


def check_capacities(emulation: FluidEmulation) -> None:
    emulation.next_s()  # rates are settled
    for host in emulation._world.hosts.values():
        for resource in (host.cpu, host.disk, host.tx, host.rx, *host.links):
            assert resource is not None
            used = sum(flow.rate for flow in resource.flows)
            assert used <= resource.capacity * (1 + 1e-6)
            assert resource.demand == pytest.approx(sum(flow.cap for flow in resource.flows), abs=1e-3)


@pytest.mark.parametrize("seed", range(4))
def test_work_done_is_work_asked(seed: int) -> None:
    reports, asked, _ = simulate(seed)
    assert len(reports) == len(asked)
    shuffled = sum(report.counters.shuffle_bytes for report in reports.values())
    spread = sum(sum(report.partitions) for report in reports.values())
    assert shuffled == spread == sum(amount for name, amount in asked.items() if "_m_" in name)
    for name, report in reports.items():
        assert report.state == "succeeded"
        assert report.counters.output_bytes == asked[name]
        assert report.end_s > report.start_s


@pytest.mark.long  # seconds
def test_the_same_calls_give_the_same_answers_in_any_process() -> None:
    code = "from tests.cluster.virtual.test_fluid_properties import simulate; print(simulate(5)[2])"
    texts = [
        subprocess.run(
            [sys.executable, "-c", code],
            cwd=ROOT,
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    ]
    assert texts[0] == texts[1]
    assert len(texts[0]) > 1000
