"""Parts of the agent that can be tested without a process: configuration, folder, map outputs and usage."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schedbed.cluster.agent.attempts import UsageMeter, process_cpu_s, process_rss_bytes
from schedbed.cluster.agent.config import AgentConfig
from schedbed.cluster.agent.folder import AgentDir, BadRequest, RootInUse, checked_id
from schedbed.cluster.agent.http_server import OutputBoard
from schedbed.cluster.machines.host_abilities import probe_host, usable_cores
from schedbed.tasks.context import FULL_DISK
from schedbed.tasks.pacing import Budget
from tests.harness.agents import node_spec


def config(**changes: object) -> AgentConfig:
    plain = {"node": node_spec(), "root": Path("/r"), "token": "t", "epoch_s": 1.5, "heartbeat_s": 0.5}
    return AgentConfig(**{**plain, "limits": "auto", "run_id": "r1", **changes})  # type: ignore[arg-type]


def test_a_configuration_survives_its_line() -> None:
    assert AgentConfig.from_line(config().to_lines()) == config()


@pytest.mark.parametrize("line", ["", "{}", "[]", "nonsense", json.dumps({"node": {}})])
def test_a_line_that_is_no_configuration_is_refused(line: str) -> None:
    with pytest.raises((ValueError, TypeError, KeyError)):
        AgentConfig.from_line(line)


def test_limits_and_heartbeat_are_checked() -> None:
    with pytest.raises(ValueError, match="limits: 'some', expected one of auto, cgroup, software, off"):
        config(limits="some")
    with pytest.raises(ValueError, match="heartbeat: 0"):
        config(heartbeat_s=0)


@given(st.text())
def test_an_id_never_leads_anywhere(text: str) -> None:
    try:
        checked_id(text, "block")
    except BadRequest as error:
        assert len(str(error).splitlines()) == 1
    else:
        path = Path("/root/blocks") / text
        assert path.parent == Path("/root/blocks") and os.path.normpath(path) == str(path)
        assert "." not in text and "\n" not in text


def test_a_folder_has_one_owner(tmp_path: Path) -> None:
    descriptor = AgentDir(tmp_path).lock()
    with pytest.raises(RootInUse, match="in use by another agent"):
        AgentDir(tmp_path).lock(patience_s=0)
    os.close(descriptor)
    os.close(AgentDir(tmp_path).lock(patience_s=0))


def test_an_earlier_life_leaves_only_whole_blocks(tmp_path: Path) -> None:
    where = AgentDir(tmp_path)
    where.prepare()
    for name in ("blk_1", "blk_1.crc", "blk_2.9-1.tmp", "blk_3.crc", "blk_4"):
        (where.blocks / name).write_bytes(b"1234")
    (where.attempts / "a").mkdir()
    (where.mapout / "a").mkdir()
    where.fill_disk(True)
    where.prepare()
    assert not (where.root / FULL_DISK).exists()
    assert where.stored_blocks() == {"blk_1": 4}
    assert not list(where.attempts.iterdir()) and not list(where.mapout.iterdir())


def test_forgetting_a_job_spares_the_others(tmp_path: Path) -> None:
    where = AgentDir(tmp_path)
    where.prepare()
    for attempt in ("job_1_m_0_0", "job_11_m_0_0"):
        where.map_output(attempt).mkdir()
    where.forget_job("job_1")
    assert [path.name for path in where.mapout.iterdir()] == ["job_11_m_0_0"]
    with pytest.raises(BadRequest):
        where.forget_job("")


def test_map_outputs_end_the_wait_and_may_be_withdrawn() -> None:
    async def story() -> None:
        board = OutputBoard()
        nothing = {"cursor": 0, "outputs": [], "all_done": False}
        assert await board.read("job_1", 0, 0) == nothing
        board.add("job_1", [{"index": 0}], True)
        assert await board.read("job_1", 0, 60) == {"cursor": 1, "outputs": [{"index": 0}], "all_done": True}
        assert await board.read("job_1", 1, 60) == {"cursor": 1, "outputs": [], "all_done": True}
        board.add("job_1", [], False)
        assert (await board.read("job_1", 1, 0))["all_done"] is False
        waiting = asyncio.create_task(board.read("job_1", 1, 60))
        await asyncio.sleep(0)
        board.forget("job_1")
        assert (await waiting)["outputs"] == []
        assert await board.read("job_1", 0, 0) == nothing

    asyncio.run(story())


def test_usage_is_a_share_of_the_declared_rates(tmp_path: Path) -> None:
    rates = {"disk": 100.0, "tx": 100.0, "rx": 100.0}
    Budget.create(tmp_path / "budget", rates).close()
    now_s = 1000.0
    budget = Budget(tmp_path / "budget", lambda: now_s)
    node = node_spec(cores=2, core_speed=0.5, disk_bps=100.0, network_bps=100.0)
    meter = UsageMeter(node, budget)
    first = meter.read(10.0, 5.0, [])
    assert (first.cpu_util, first.disk_util, first.net_util, first.memory_bytes) == (0.0, 0.0, 0.0, 0)
    budget.reserve("disk", 50)
    budget.reserve("tx", 10)
    budget.reserve("rx", 80)
    now_s += 0.3
    assert meter.read(11.0, 5.25, []).disk_util == pytest.approx(0.3)  # what is not paid yet is still to come
    now_s += 0.7
    usage = meter.read(12.0, 5.5, [os.getpid()])
    assert (usage.cpu_util, usage.disk_util, usage.net_util) == pytest.approx((0.25, 0.2, 0.5))
    assert usage.memory_bytes > 2**20
    assert meter.read(13.0, 7.5, []).cpu_util == 2.0  # a limit that did not hold is told
    assert meter.read(14.0, 0.0, []).cpu_util == 0.0
    budget.close()


def test_proc_tells_of_this_process_and_of_none() -> None:
    assert process_cpu_s(os.getpid()) > 0
    assert process_cpu_s(2**22 + 1) == 0 and process_rss_bytes(2**22 + 1) == 0


def test_the_host_is_probed(tmp_path: Path) -> None:
    probe = probe_host(tmp_path, measure_disk=False)
    assert 0 < probe.cores <= (os.cpu_count() or 1)
    assert 0 < probe.memory_free_bytes < probe.memory_bytes
    assert probe.disk_free_bytes > 0 and probe.disk_write_bps is None
    assert (probe.cgroup_version is None) == bool(probe.cgroup_why)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(("text", "cores"), [("50000 100000", 0.5), ("max 100000", None)])
def test_a_quota_of_our_own_group_counts_as_fewer_cores(
    tmp_path: Path, text: str, cores: float | None
) -> None:
    (tmp_path / "cgroup").write_text("0::/ours\n")
    (tmp_path / "mountinfo").write_text(f"30 23 0:26 / {tmp_path}/top rw - cgroup2 cgroup2 rw\n")
    ours = tmp_path / "top" / "ours"
    ours.mkdir(parents=True)
    (ours / "cgroup.subtree_control").write_text("cpu memory")
    (ours / "cgroup.procs").write_text("")
    (ours / "cpu.max").write_text(text)
    assert usable_cores(tmp_path) == (cores or float(len(os.sched_getaffinity(0))))
