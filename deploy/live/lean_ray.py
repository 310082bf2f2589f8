"""A faster start of Ray for one run: on the loopback address, without autoscaler, dashboard and log monitor.

Ray's modules are passed as arguments, since only two files of the package import Ray.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

from schedbed.deploy.failures import RunFailed

LOOK_S = 1.0
"""Seconds between two checks that Ray runs."""


def _print_raylets_words(data: Mapping[str, Any], *_: object, **__: object) -> None:
    """Write the lines that Ray would print on standard output to standard error, together with
    its C++ messages.
    """
    os.write(2, "".join(f"[{data['pid']}] {line}\n" for line in data["lines"]).encode(errors="replace"))


@contextmanager
def lean(nodes: Any, services: Any, workers: Any) -> Iterator[None]:
    """Change Ray's modules during the block so that Ray starts only the processes that a run needs.

    Ray's start waits for the dashboard even if told to exclude it. On one host there is nothing to scale, and
    workers' logs are not sent to the driver. Each of the three processes left out takes more than a second of
    CPU time.
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
        yield
    finally:
        nodes.Node = full


@contextmanager
def sigterm_stays(utils: Any) -> Iterator[None]:
    """Keep this process's handler of SIGTERM during the block, in which Ray starts.

    Ray's own handler, set by its module `utils`, would exit in the middle of the start. If another version of
    Ray sets the handler elsewhere, the old handler is restored at the end.
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
    """Raise RunFailed if a process of the Ray cluster that this process started has ended. `workers` is Ray's
    module.

    Without this check, Ray waits a minute for its GCS and then ends this process.
    """
    node = workers.global_worker.node
    gone = [name for name, _ in node.dead_processes()] if node is not None else []
    if gone:
        raise RunFailed(f"Ray's process {gone[0]} has ended in mid-run")


def results_while_ray_runs(ray: Any, workers: Any, calls: list[Any], timeout_s: float) -> list[Any]:
    """Return the results of Ray calls, like `ray.get`.

    Raises RunFailed as soon as a process of Ray has ended.
    """
    until_s = time.monotonic() + timeout_s
    while True:
        left_s = until_s - time.monotonic()
        try:
            return ray.get(calls, timeout=max(0.0, min(LOOK_S, left_s)))
        except ray.exceptions.GetTimeoutError:
            check_ray_runs(workers)
            if left_s <= LOOK_S:
                raise
