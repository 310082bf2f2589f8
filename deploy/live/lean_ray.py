"""How Ray starts for one run: on its own address, without autoscaler, dashboard and log monitor, our signals ours."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any


@contextmanager
def lean(nodes: Any, services: Any) -> Iterator[None]:
    """Let Ray's modules `nodes` and `services` start only what a run needs.

    Ray's start waits for the dashboard even if it is told to include none. On one host there is nothing to scale, and
    the logs of workers are not sent to the driver. Each of the three processes takes more than a second of CPU time.
    """
    # Ray resolves 127.0.0.1 to the host's outer address and would then listen on every interface.
    services.resolve_ip_for_localhost = lambda address: address
    full = nodes.Node

    class LeanNode(full):
        def start_monitor(self) -> None: ...

        def start_log_monitor(self) -> None: ...

        def start_api_server(self, **_: Any) -> None:
            self._webui_url = ""  # as Ray says it when it includes no dashboard

    nodes.Node = LeanNode
    try:
        yield
    finally:
        nodes.Node = full


@contextmanager
def sigterm_stays(utils: Any) -> Iterator[None]:
    """Keep the handler of SIGTERM: Ray's, which Ray's module `utils` sets as it starts, would exit in mid-start.

    Should another version of Ray set it elsewhere, it is put back at the end.
    """
    before, set_by_ray = signal.getsignal(signal.SIGTERM), utils.set_sigterm_handler
    utils.set_sigterm_handler = lambda _: None
    try:
        yield
    finally:
        utils.set_sigterm_handler = set_by_ray
        with suppress(ValueError):  # outside of the main thread, where Ray leaves the handler alone
            signal.signal(signal.SIGTERM, before)
