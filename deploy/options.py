"""Functions shared by live and simulated runs: the options, the order of the runs, and the handling of Ctrl-C."""

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
"""The values of `--machines`: the kinds of machine of a live run, and `sim` for virtual time."""

IN_CLEAR = "note: --address: data and tokens cross the network between hosts in clear, without --tls"
"""Printed by a run over many hosts without TLS."""
IN_CLEAR_SIMULATED = IN_CLEAR.removesuffix(", without --tls")
"""Printed by simulations on many hosts, which `--tls` does not encrypt."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """The options of a run that come from the command line and not from the scenario."""

    out: Path | None = None
    machines: str = "process"
    address: str | None = None  # A running Ray cluster, whose hosts run the nodes or the simulations.
    keep_outputs: bool = False
    live: bool = True
    check: bool = True  # Whether to check outputs, if the application has a check.
    plots: bool = False  # Whether to draw plots next to the report, which takes seconds.
    report: bool = True  # Whether to write report.html, and the plots if asked for.
    jobs: int | None = None  # The number of simulations at a time; None for 1, or all cores at `address`.
    slowdowns: bool = True  # Whether to simulate each job alone, the base of slowdowns.
    tls: bool = False  # Whether to encrypt connections between hosts.
    ports: PortRange | None = None  # The ports for all TCP listeners; None for any port.
    webhdfs: int | None = None  # A loopback port for the block store; 0 for any.
    metrics: int | None = None  # A loopback port for Prometheus; 0 for any.
    web: int | None = None  # A loopback port for the live page; 0 for any.
    read_only: bool = False  # Whether the live page has no controls.
    private: bool = False  # Whether only this user may read the results.
    isolated: bool = False  # Whether policies of files run in confined processes, simulated only.

    def __post_init__(self) -> None:
        if self.tls and self.machines == "sim":
            raise BadInput(
                "--tls: a simulation sends nothing but Ray's own calls, expected Ray's RAY_USE_TLS instead"
            )
        if self.ports is not None and self.machines == "sim":
            raise BadInput(
                f"--ports: a simulation listens nowhere, expected --machines {' or '.join(KINDS)} beside it"
            )
        if self.isolated and (self.machines != "sim" or self.address is not None):
            raise BadInput(
                "--isolated: for simulations on this host, expected --machines sim without --address"
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
        """Return whether data crosses a network without encryption."""
        return self.address is not None and not self.tls


def check_read_only(web: int | None, read_only: bool) -> None:
    """Raise BadInput if `--read-only` has no `--web` beside it."""
    if read_only and web is None:
        raise BadInput("--read-only: says what the live page may do, expected --web PORT beside it")


def check_tls(tls: bool, address: str | None) -> None:
    """Raise BadInput if `tls` is requested without the `address` of a Ray cluster, or certificates cannot be made."""
    if tls and address is None:
        raise BadInput("--tls: nothing crosses a network without --address, expected --address beside it")
    if tls:
        check_certificates()


def check_machines_name(machines: str) -> None:
    """Raise BadInput if `machines` is not the name of a kind of machines, such as `process` or `sim`."""
    if machines not in MACHINES:
        expected = f"{', '.join(MACHINES[:-1])} or {MACHINES[-1]}"
        raise BadInput(f"--machines {machines}: unknown kind of machine, expected {expected}")


def run_order(policies: int, repeats: int) -> list[tuple[int, int]]:
    """Return (repeat, policy) in order. Every second repeat is reversed, so that slow changes of speed cancel out."""
    forwards = list(range(policies))
    return [(r, p) for r in range(repeats) for p in (forwards if r % 2 == 0 else reversed(forwards))]


@contextmanager
def interrupts_later() -> Iterator[None]:
    """Delay a KeyboardInterrupt from Ctrl-C until the end of the `with` block, which must not be interrupted."""
    came: list[int] = []
    with _on_interrupt(lambda number, _: came.append(number)):
        yield
    if came:
        raise KeyboardInterrupt


@contextmanager
def no_interrupts() -> Iterator[None]:
    """Ignore Ctrl-C, so that a second one does not interrupt cleanup."""
    with _on_interrupt(signal.SIG_IGN):
        yield


@contextmanager
def _on_interrupt(handler: Any) -> Iterator[None]:
    """Handle SIGINT by `handler` in the block, unless outside of the main thread."""
    try:
        before = signal.signal(signal.SIGINT, handler)
    except ValueError:  # Outside of the main thread, which alone receives signals.
        yield
        return
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
