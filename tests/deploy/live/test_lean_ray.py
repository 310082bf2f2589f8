"""Tests signals that arrive while Ray starts, and calls while Ray ends."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pytest
from ray._private import utils as ray_utils

from schedbed.deploy.failures import RunFailed
from schedbed.deploy.live import idle_agent, lean_ray
from schedbed.deploy.live.lean_ray import AGENTS, lean, results_while_ray_runs, sigterm_stays
from tests.harness.command import eventually


@pytest.fixture
def came() -> Iterator[list[int]]:
    """Yield the list of signal numbers that the test's handler of SIGTERM has received."""
    told: list[int] = []
    before = signal.signal(signal.SIGTERM, lambda number, _: told.append(number))
    yield told
    signal.signal(signal.SIGTERM, before)


def test_a_sigterm_in_the_middle_of_rays_start_is_ours(came: list[int]) -> None:
    with sigterm_stays(ray_utils):
        ray_utils.set_sigterm_handler(lambda *_: sys.exit(3))
        os.kill(os.getpid(), signal.SIGTERM)
    assert came == [signal.SIGTERM]
    ours = signal.getsignal(signal.SIGTERM)
    ray_utils.set_sigterm_handler(ours)  # Ray's own function is back
    assert signal.getsignal(signal.SIGTERM) is ours


def test_a_handler_that_is_set_in_another_way_is_replaced_at_the_end(came: list[int]) -> None:
    with sigterm_stays(SimpleNamespace(set_sigterm_handler=None)):
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
    os.kill(os.getpid(), signal.SIGTERM)
    assert came == [signal.SIGTERM]


class GetTimeoutError(TimeoutError):
    """A fake of Ray's exception of the same name."""


def workers_of(*gone: str) -> Any:
    """Return a fake of Ray's module `worker`, in which the processes `gone` have ended."""
    node = SimpleNamespace(dead_processes=lambda: [(name, None) for name in gone])
    return SimpleNamespace(global_worker=SimpleNamespace(node=node))


def ray_that_raises(*errors: Exception) -> Any:
    """Return a fake `ray` whose first calls of `get` raise `errors`, one each; later calls succeed."""
    left = list(errors)

    def get(calls: list[Any], timeout: float) -> list[Any]:
        if left:
            raise left.pop(0)
        return calls

    return SimpleNamespace(get=get, exceptions=SimpleNamespace(GetTimeoutError=GetTimeoutError))


def test_calls_are_waited_for_while_ray_runs() -> None:
    ray = ray_that_raises(GetTimeoutError(), GetTimeoutError())
    assert results_while_ray_runs(ray, workers_of(), ["heard"], 100.0) == ["heard"]


def test_calls_are_given_up_when_ray_is_gone() -> None:
    ray = ray_that_raises(GetTimeoutError())
    with pytest.raises(RunFailed, match="Ray's process gcs_server has ended in mid-run"):
        results_while_ray_runs(ray, workers_of("gcs_server"), ["heard"], 100.0)


def test_a_timeout_of_the_call_itself_is_no_reason_to_wait() -> None:
    with pytest.raises(TimeoutError, match="of the task"):
        results_while_ray_runs(ray_that_raises(TimeoutError("of the task")), workers_of(), ["heard"], 100.0)


def test_patience_ends() -> None:
    with pytest.raises(GetTimeoutError):
        results_while_ray_runs(ray_that_raises(GetTimeoutError()), workers_of(), ["heard"], 0.5)


@pytest.mark.parametrize(
    ("file", "agent"),
    [("/ray/dashboard/agent.py", "dashboard"), ("/dashboard/ray/runtime_env/agent/main.py", "runtime_env")],
)
def test_an_idle_agent_tells_that_no_port_is_open_and_ends_with_ray(
    tmp_path: Path, file: str, agent: str
) -> None:
    command = [sys.executable, "-I", "-S", idle_agent.__file__, file]
    command += ["--node-id=n1", f"--session-dir={tmp_path}", "--minimal"]
    parent = f"import subprocess, time; subprocess.Popen({command!r}); time.sleep(600)"
    with subprocess.Popen([sys.executable, "-c", parent]) as ray:
        ports = [tmp_path / f"{name}_n1" for name in idle_agent.PORTS[agent]]
        eventually(lambda: set(tmp_path.iterdir()) == set(ports), "not all ports are told")
        assert {path.read_text() for path in ports} == {idle_agent.NO_PORT}
        [process] = psutil.Process(ray.pid).children()
        assert process.is_running()
        ray.kill()
    eventually(
        lambda: not process.is_running() or process.status() == psutil.STATUS_ZOMBIE, "the agent runs on"
    )


@pytest.mark.parametrize(
    ("raylet", "environment", "is_idle"),
    [({"persist_port": None}, {}, True), ({"persist_port": None}, {"pip": ["x"]}, False), ({}, {}, False)],
)
def test_a_ray_that_reads_ports_from_files_and_needs_no_environment_gets_idle_agents(
    raylet: dict[str, None], environment: dict[str, Any], *, is_idle: bool
) -> None:
    started: list[list[str]] = []
    services = SimpleNamespace(start_ray_process=lambda command, kind: started.append(command))
    command = ["raylet", "--head", f"{AGENTS[0]}python -u /ray/dashboard/agent.py --session-dir=/s --minimal"]
    job_config = SimpleNamespace(runtime_env={})
    modules = SimpleNamespace(Node=object), services, SimpleNamespace(), SimpleNamespace(**raylet)
    with lean(*modules, job_config):
        job_config.runtime_env = environment  # by Ray, before it starts its processes
        services.start_ray_process(command, "raylet")
    services.start_ray_process(command, "raylet")
    idle = f"{AGENTS[0]}{sys.executable} -I -S {idle_agent.__file__} /ray/dashboard/agent.py --session-dir=/s --minimal"
    assert started == [[*command[:2], idle] if is_idle else command, command]


@pytest.mark.parametrize(
    ("largest", "ports", "told"),
    [
        (resource.RLIM_INFINITY, "32768\t60999\n", None),
        (1 << 30, "32768\t60999\n", None),
        (20 << 20, "32768\t60999\n", "ulimit -f: files have at most 20480 KiB, but Ray's shared memory"),
        (resource.RLIM_INFINITY, "40000 40008", "9 local ports, but 4 nodes and Ray need about 28"),
    ],
)
def test_limits_with_which_ray_hangs_are_told_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, largest: int, ports: str, told: str | None
) -> None:
    monkeypatch.setattr(lean_ray.resource, "getrlimit", lambda _: (largest, largest))
    monkeypatch.setattr(lean_ray, "PORT_RANGE", tmp_path / "range")
    (tmp_path / "range").write_text(ports)
    if told is None:
        lean_ray.check_limits(4, 80 << 20)
        return
    with pytest.raises(RunFailed, match=told):
        lean_ray.check_limits(4, 80 << 20)
