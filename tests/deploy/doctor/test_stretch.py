"""Tests emulated seconds that last longer than real ones: the clock, the rates, and the value that `auto`
selects.
"""

from __future__ import annotations

import json
import time
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schedbed.cluster.clock import RunClock
from schedbed.cluster.machines.process import ProcessMachine
from schedbed.cluster.run_config import RunConfig
from schedbed.cluster.spec import ClusterSpec
from schedbed.deploy.doctor import doctor as stretches
from schedbed.deploy.doctor.doctor import CPU_SHARE, least_stretch, on_this_host, settled
from schedbed.deploy.results.runfile import RunFile
from schedbed.deploy.scenario.resolve import resolve
from schedbed.deploy.scenario.resolved import ResolvedScenario
from schedbed.scheduler.history import read_tables
from schedbed.tasks.attempt_status import StatusFile
from schedbed.tasks.errors import BadInput
from tests.harness.agents import node_spec


def scenario(**given: object) -> ResolvedScenario:
    job = {"app": "synthetic", "maps": 1, "map": {"cpu": "1s"}}
    return resolve({"name": "s", "workload": {"jobs": [job]}, **given})


def test_a_clock_counts_emulated_seconds() -> None:
    begun_s = time.time() - 100
    plain, slow = RunClock(begun_s), RunClock(begun_s, 4.0)
    assert plain.now_s() == pytest.approx(100, abs=1)
    assert slow.now_s() == pytest.approx(plain.now_s() / 4, abs=0.25)
    assert slow.real_s(2.0) == 8.0
    assert slow.time_of_day_s(2.0) == begun_s + 8.0
    slow.begin(begun_s + 40)
    assert slow.now_s() == pytest.approx(15, abs=0.25)


def test_an_attempt_tells_emulated_times(tmp_path: Path) -> None:
    status = StatusFile(tmp_path / "status", 1000.0, lambda: 1030.0, 3.0)
    status.report("map", 0.5)
    assert status.now_s() == 10.0
    assert json.loads((tmp_path / "status").read_text())["started_s"] == 10.0


def test_an_agent_is_told_rates_in_real_seconds(tmp_path: Path) -> None:
    from schedbed.cluster.machines.make import make_machine

    node = node_spec(cores=2, core_speed=0.8, disk_bps=4e7, network_bps=1e7)
    config = RunConfig(
        run_id="r",
        policy="fifo",
        given="fifo",
        scale=1.0,
        seed=0,
        epoch_s=0.0,
        token="t",
        work=tmp_path,
        cluster=ClusterSpec(nodes=(node,), heartbeat_s=0.5, uplink_bps=2e7, stretch=4.0),
    )
    machine = make_machine(config, node, 0.0)
    assert isinstance(machine, ProcessMachine)
    assert machine.node == replace(node, core_speed=0.2, disk_bps=1e7, network_bps=2.5e6)
    assert node.stretched(1.0) is node
    config.save(tmp_path)
    again = RunConfig.load(tmp_path)
    assert again is not None and again.clock().stretch == 4.0


def test_a_scenario_says_a_number_or_auto() -> None:
    assert scenario().cluster.stretch == 1.0 and not scenario().auto_stretch
    assert scenario(stretch=4).cluster.stretch == 4.0
    assert scenario(stretch="auto").auto_stretch
    kept = scenario(stretch=2.5)
    assert ResolvedScenario.from_json(json.loads(json.dumps(kept.to_json()))).cluster.stretch == 2.5


@pytest.mark.parametrize("value", [0, 0.5, -1, 1001, True, "fast", None, float("nan"), [2]])
def test_other_values_are_bad_input(value: object) -> None:
    with pytest.raises(BadInput, match="stretch"):
        scenario(stretch=value)


def test_a_stretch_that_follows_the_load_of_the_host_is_refused() -> None:
    with pytest.raises(BadInput, match="stretch: 'adaptive' is not auto or a number from 1 to 1000"):
        scenario(stretch="adaptive")


@given(
    nodes=st.integers(1, 300),
    cores=st.integers(1, 64),
    speed=st.floats(0.01, 1.0),
    host=st.floats(0.5, 128),
    disk=st.none() | st.floats(1e6, 1e10),
)
def test_auto_is_the_least_at_which_the_host_gives_what_is_declared(
    nodes: int, cores: int, speed: float, host: float, disk: float | None
) -> None:
    node = node_spec(cores=cores, core_speed=speed, disk_bps=1e8)
    cluster = ClusterSpec(nodes=(node,) * nodes)

    def fits(stretch: float) -> bool:
        held = node.stretched(stretch)
        return nodes * held.cpu_rate <= CPU_SHARE * host * (1 + 1e-6) and (
            disk is None or nodes * held.disk_bps <= disk * (1 + 1e-6)
        )

    least = least_stretch(cluster, host, disk)
    assert fits(least)
    assert least == 1.0 or not fits(least * (1 - 1e-5) - 0.11)  # fits is off by a millionth
    assert least_stretch(replace(cluster, limits="off"), host, disk) == 1.0


def test_auto_becomes_a_number_on_this_host_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stretches, "least_stretch", lambda *_: 3.7)
    asked = scenario(stretch="auto")
    made = settled(asked)
    assert made.cluster.stretch == 3.7 and not made.auto_stretch
    assert settled(made) is made
    with pytest.raises(BadInput, match=r"auto.*--address x:1"):
        settled(asked, "x:1")


def test_doctor_judges_what_the_host_must_hold() -> None:
    held = on_this_host(scenario(stretch=4)).cluster
    plain = scenario().cluster
    assert held.stretch == 1.0 and held.heartbeat_s == 4 * plain.heartbeat_s
    assert [node.core_speed for node in held.nodes] == [node.core_speed / 4 for node in plain.nodes]


@pytest.mark.long  # seconds
def test_a_simulated_run_is_not_stretched(tmp_path: Path) -> None:
    from schedbed.deploy.options import RunOptions
    from schedbed.deploy.whole_run import run_scenario

    tables = []
    for stretch in (1, 8, "auto"):
        out = tmp_path / str(stretch)
        run_scenario(scenario(stretch=stretch, policies=["fifo"]), RunOptions(out=out, machines="sim"))
        assert RunFile.load(out).stretch == 1.0
        tables.append(read_tables(out)["attempts"])
    assert tables[0].equals(tables[1]) and tables[0].equals(tables[2])
