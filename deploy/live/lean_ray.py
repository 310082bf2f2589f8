"""A faster start of Ray for a run on one host, on loopback, without autoscaler, dashboard or log monitor.

Ray's modules are arguments, because only two files of the package import Ray.
"""

from __future__ import annotations

import os
import resource
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from schedbed.deploy.failures import RunFailed
from schedbed.deploy.live import idle_agent

AGENTS = ("--dashboard_agent_command=", "--runtime_env_agent_command=")
"""The options with which Ray's process raylet receives the commands of its agents."""
LOOK_S = 1.0
"""Seconds between two checks that Ray runs."""


def _print_raylets_words(data: Mapping[str, Any], *_: object, **__: object) -> None:
    """Write log lines of Ray, given as `data["lines"]`, to standard error. Ray itself would use standard output."""
    os.write(2, "".join(f"[{data['pid']}] {line}\n" for line in data["lines"]).encode(errors="replace"))


@contextmanager
def lean(nodes: Any, services: Any, workers: Any, raylet: Any, job_config: Any) -> Iterator[None]:
    """Change Ray's modules so that it starts only the processes that a run needs.

    Autoscaler, dashboard, log monitor and agents would take a second of CPU each; one host does not scale,
    and the driver reads no logs. Ray's option to exclude the dashboard would still wait for it. Agents are
    started if `job_config` has a runtime environment, which Ray adds to a submitted job or one started by `uv
    run`.
    """
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")  # Avoids a warning of Ray 2.52.
    # Ray resolves 127.0.0.1 to the host's outer address and would then listen on every interface.
    workers.print_to_stdstream = _print_raylets_words
    services.resolve_ip_for_localhost = lambda address: address
    full = nodes.Node

    class LeanNode(full):
        def start_monitor(self) -> None: ...

        def start_log_monitor(self) -> None: ...

        def start_api_server(self, **_: Any) -> None:
            self._webui_url = ""  # Ray's value without a dashboard.

    nodes.Node = LeanNode
    try:
        with _idle_agents(services, raylet, job_config):
            yield
    finally:
        nodes.Node = full


@contextmanager
def _idle_agents(services: Any, raylet: Any, job_config: Any) -> Iterator[None]:
    """Let Ray start `idle_agent` instead of its agents.

    Older Rays, whose agents do not tell ports by files, and workers with a runtime environment start their
    own.
    """
    full = services.start_ray_process

    def start(command: list[str], *options: Any, **more: Any) -> Any:
        are_idle = hasattr(raylet, "persist_port") and not job_config.runtime_env
        return full([_with_idle_agent(word) if are_idle else word for word in command], *options, **more)

    services.start_ray_process = start
    try:
        yield
    finally:
        services.start_ray_process = full


def _with_idle_agent(word: str) -> str:
    """Return the word of Ray's command, with `idle_agent` in front of an agent's file if it is an agent's command."""
    option = next((option for option in AGENTS if word.startswith(option)), None)
    if option is None:
        return word
    words = shlex.split(word.removeprefix(option))
    file = next(place for place, each in enumerate(words) if each.endswith(".py"))
    return option + subprocess.list2cmdline([sys.executable, "-I", "-S", idle_agent.__file__, *words[file:]])


@contextmanager
def sigterm_stays(utils: Any) -> Iterator[None]:
    """Keep this process's SIGTERM handler while Ray starts: Ray's would exit in the middle.

    It is also restored afterwards, in case another version of Ray sets its own elsewhere.
    """
    before, set_by_ray = signal.getsignal(signal.SIGTERM), utils.set_sigterm_handler
    utils.set_sigterm_handler = lambda _: None
    try:
        yield
    finally:
        utils.set_sigterm_handler = set_by_ray
        with suppress(ValueError):  # Other threads than the main one cannot set it.
            signal.signal(signal.SIGTERM, before)


def check_ray_runs(workers: Any) -> None:
    """Raise RunFailed if a Ray process has ended: Ray would wait a minute and end this one."""
    node = workers.global_worker.node
    gone = [name for name, _ in node.dead_processes()] if node is not None else []
    if gone:
        raise RunFailed(f"Ray's process {gone[0]} has ended in mid-run")


def results_while_ray_runs(ray: Any, workers: Any, calls: list[Any], timeout_s: float) -> list[Any]:
    """Return results as `ray.get`. Raises RunFailed once a Ray process has ended, or GetTimeoutError."""
    until_s = time.monotonic() + timeout_s
    while True:
        left_s = until_s - time.monotonic()
        try:
            return ray.get(calls, timeout=max(0.0, min(LOOK_S, left_s)))
        except ray.exceptions.GetTimeoutError:
            check_ray_runs(workers)
            if left_s <= LOOK_S:
                raise


# Limits of this process and host with which Ray hangs for a minute, or dies without a reason.

PORT_RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")
PORTS, NODE_PORTS = 20, 2
"""The local ports that Ray and the masters need, and each node."""


def check_limits(nodes: int, store_bytes: int) -> None:
    """Raise RunFailed if files may not be as large as Ray's shared memory, or local ports are too few."""
    largest, _ = resource.getrlimit(resource.RLIMIT_FSIZE)
    if largest != resource.RLIM_INFINITY and largest < 1.5 * store_bytes:
        raise RunFailed(
            f"ulimit -f: files have at most {largest >> 10} KiB, but Ray's shared memory is a file of "
            f"{store_bytes >> 10}; expected: ulimit -f unlimited"
        )
    try:
        first, last = map(int, PORT_RANGE.read_text().split())
    except (OSError, ValueError):
        return
    needed = PORTS + NODE_PORTS * nodes
    if last - first < needed:
        raise RunFailed(
            f"{PORT_RANGE}: {last - first + 1} local ports, but {nodes} nodes and Ray need about {needed}; "
            "expected: sysctl net.ipv4.ip_local_port_range with more"
        )
