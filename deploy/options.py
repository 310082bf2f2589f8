"""The common part of all kinds of runs: options, order of runs, and deferred Ctrl-C."""

from __future__ import annotations

import importlib.util
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from schedbed.cluster.machines.make import KINDS
from schedbed.cluster.wire.certificates import check_certificates
from schedbed.cluster.wire.port_range import PortRange
from schedbed.tasks.errors import BadInput

MACHINES = (*KINDS, "sim")
"""What `--machines` takes: the kinds of machine of a live run, and virtual time."""

IN_CLEAR = "note: --address: data and tokens cross the network between hosts in clear, without --tls"
"""What a run over many hosts says of its network when it has no TLS."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """The options of a run, as opposed to its scenario."""

    out: Path | None = None
    machines: str = "process"
    address: str | None = None  # address of a running Ray cluster; the nodes are dealt over its hosts
    keep_outputs: bool = False
    live: bool = True
    check: bool = True  # that outputs are right, for applications that can be checked
    plots: bool = False  # the pictures beside the report, which take longer than a small run
    report: bool = True  # the page and its plots
    jobs: int = 1  # simulations at a time
    slowdowns: bool = True  # whether each job is simulated alone, which slowdowns are relative to
    tls: bool = False  # whether what crosses the network between hosts is TLS
    ports: PortRange | None = None  # where all that listens on TCP does, None for anywhere
    webhdfs: int | None = None  # a port of the loopback interface to serve the block store on, 0 for any
    metrics: int | None = None  # a port of the loopback interface for Prometheus, 0 for any
    web: int | None = None  # a port of the loopback interface for the live page, 0 for any
    read_only: bool = False  # whether the live page changes nothing
    private: bool = False  # whether only this user may read the results

    def __post_init__(self) -> None:
        if self.address is not None and self.machines == "sim":
            raise BadInput(
                f"--address: a simulation needs no hosts, expected --machines {' or '.join(KINDS)} beside it"
            )
        if self.ports is not None and self.machines == "sim":
            raise BadInput(
                f"--ports: a simulation listens nowhere, expected --machines {' or '.join(KINDS)} beside it"
            )
        for name, port in (("webhdfs", self.webhdfs), ("metrics", self.metrics), ("web", self.web)):
            if port is not None and self.machines == "sim":
                raise BadInput(
                    f"--{name}: a simulation serves nothing, expected --machines {' or '.join(KINDS)} beside it"
                )
        if self.metrics is not None and importlib.util.find_spec("prometheus_client") is None:
            raise BadInput(
                "--metrics: needs the package prometheus-client, expected pip install 'schedbed[metrics]'"
            )
        check_read_only(self.web, self.read_only)
        check_tls(self.tls, self.address)

    @property
    def is_in_clear(self) -> bool:
        """Return whether data crosses a network in clear text."""
        return self.address is not None and not self.tls


def check_read_only(web: int | None, read_only: bool) -> None:
    """Raise BadInput if `--read-only` is given without a page."""
    if read_only and web is None:
        raise BadInput("--read-only: says what the live page may do, expected --web PORT beside it")


def check_tls(tls: bool, address: str | None) -> None:
    """Raise BadInput if TLS is requested but impossible or useless."""
    if tls and address is None:
        raise BadInput("--tls: nothing crosses a network without --address, expected --address beside it")
    if tls:
        check_certificates()


def check_machines_name(machines: str) -> None:
    """Raise BadInput if there is no such kind of machine."""
    if machines not in MACHINES:
        expected = f"{', '.join(MACHINES[:-1])} or {MACHINES[-1]}"
        raise BadInput(f"--machines {machines}: unknown kind of machine, expected {expected}")


def order_of_play(policies: int, repeats: int) -> list[tuple[int, int]]:
    """Return (repeat, policy) pairs: each repeat runs all policies, every other one backwards, so that drift
    cancels."""
    forwards = list(range(policies))
    return [(r, p) for r in range(repeats) for p in (forwards if r % 2 == 0 else reversed(forwards))]


@contextmanager
def interrupts_later() -> Iterator[None]:
    """Raise a Ctrl-C of the block at its end, for work that would leave something behind if cut short."""
    came: list[int] = []
    with _on_interrupt(lambda number, _: came.append(number)):
        yield
    if came:
        raise KeyboardInterrupt


@contextmanager
def no_interrupts() -> Iterator[None]:
    """Ignore Ctrl-C during the block, so that an impatient second one does not cut cleaning up short."""
    with _on_interrupt(signal.SIG_IGN):
        yield


@contextmanager
def _on_interrupt(handler: Any) -> Iterator[None]:
    """Send Ctrl-C to `handler` (as for `signal.signal`) during the block."""
    try:
        before = signal.signal(signal.SIGINT, handler)
    except ValueError:  # not in the main thread: signals do not come here
        yield
        return
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
