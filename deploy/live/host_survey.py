"""A check of all hosts of a running Ray cluster, printed as a table."""

from __future__ import annotations

import contextlib
import hmac
import platform
import secrets
import socket
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from schedbed.cluster.clock import RunClock
from schedbed.cluster.core_trial import CoreTrial
from schedbed.cluster.host_clock import ClockReading
from schedbed.cluster.machines.host_abilities import docker_why, usable_cores
from schedbed.cluster.masters import MasterGone
from schedbed.cluster.wire.port_range import PortRange, listen_at
from schedbed.deploy.failures import RunFailed
from schedbed.deploy.live.hosts import Host
from schedbed.deploy.live.ray_cluster import clock_ahead, core_speeds
from schedbed.deploy.live.ray_join import actors_on_hosts, wait_for
from schedbed.deploy.results.fidelity import CLOCK_BOUND_MAX_S
from schedbed.tasks.errors import BadInput
from schedbed.tasks.units import format_rate

# The Ray actor that examines one host for `schedbed hosts check`.

PIECE_BYTES = 2**18
SEND_BYTES = 64 * 2**20
SEND_S = 0.5
"""A transfer ends after SEND_BYTES bytes or SEND_S seconds, whichever comes first."""
REACH_S = 3.0
TOKEN_BYTES = 64
PLACES = 64
"""Most connections that a sink serves at the same time."""


class Surveyor:
    """A Ray actor that examines the host on which it runs, and measures transfers to other hosts."""

    def __init__(self) -> None:
        self._sink: TransferSink | None = None

    def look(self) -> dict[str, Any]:
        """Return `cores`, `python`, `engine_why` and `image_why` ("" without a problem)."""
        engine = docker_why()
        return {
            "cores": usable_cores(),
            "python": platform.python_version(),
            "engine_why": engine,
            "image_why": "" if engine else image_why(),
        }

    def time_of_day(self) -> float:
        return RunClock.host_time_s()

    def trial_s(self) -> float:
        """Return the CPU seconds of a one-core benchmark."""
        return CoreTrial().least_s()

    def free_ports(self, address: str, ports: PortRange) -> int:
        """Return how many ports of the range `ports` are free at the host's address."""
        free = 0
        for port in ports:
            with contextlib.suppress(OSError):
                listen_at(address, port).close()
                free += 1
        return free

    def listen(self, address: str, ports: PortRange | None, token: str) -> int:
        """Accept test transfers with `token`, and return the port. Raises BadInput if none is free."""
        self._sink = TransferSink(listen_at(address, ports=ports), token)
        return self._sink.port

    def send(self, address: str, port: int, token: str) -> float | str:
        """Send test data to another host. Return bytes per second, or why it failed."""
        try:
            return transfer(address, port, token)
        except OSError as error:
            return error.strerror or str(error)

    def close(self) -> None:
        """Stop the server for test transfers."""
        if self._sink is not None:
            self._sink.close()


class TransferSink:
    """A server that receives test transfers with the right token, and answers with the number of bytes received."""

    def __init__(self, listening: socket.socket, token: str) -> None:
        self._listening = listening
        self._token = token.encode()
        self._places = threading.BoundedSemaphore(PLACES)
        self.port = int(listening.getsockname()[1])
        threading.Thread(target=self._serve, daemon=True).start()

    def close(self) -> None:
        """Stop accepting transfers, and close the port."""
        with contextlib.suppress(OSError):
            self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()

    def _serve(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                line, _ = self._listening.accept()
                if self._places.acquire(blocking=False):
                    threading.Thread(target=self._hear, args=(line,), daemon=True).start()
                else:
                    line.close()

    def _hear(self, line: socket.socket) -> None:
        try:
            self._take(line)
        finally:
            self._places.release()

    def _take(self, line: socket.socket) -> None:
        with line, contextlib.suppress(OSError):
            line.settimeout(REACH_S + SEND_S)
            shown = line.recv(TOKEN_BYTES, socket.MSG_WAITALL)
            if not hmac.compare_digest(shown, self._token):
                return
            taken, piece = 0, bytearray(PIECE_BYTES)
            while count := line.recv_into(piece):
                taken += count
            line.sendall(taken.to_bytes(8, "big"))


def transfer(address: str, port: int, token: str) -> float:
    """Return bytes per second to a `TransferSink`, until it has all data. Raises OSError."""
    piece = bytes(PIECE_BYTES)
    with socket.create_connection((address, port), REACH_S) as line:
        line.settimeout(REACH_S)
        line.sendall(token.encode())
        began_s, sent = time.monotonic(), 0
        while sent < SEND_BYTES and time.monotonic() < began_s + SEND_S:
            line.sendall(piece)
            sent += len(piece)
        line.shutdown(socket.SHUT_WR)
        answer = line.recv(8, socket.MSG_WAITALL)
        if int.from_bytes(answer, "big") != sent:
            raise ConnectionError("the other end did not take all bytes")
        return sent / (time.monotonic() - began_s)


def image_why() -> str:
    """Return the reason why nodes in containers do not work with this host's engine, or "" if they work."""
    try:
        from schedbed.cluster.machines.docker.housekeeping import check_engine

        check_engine()
    except ImportError as error:
        return f"{error}; pip install schedbed there"
    except BadInput as error:
        return str(error).removeprefix("--machines docker: ")
    return ""


LOOK_S = 60.0
"""Longest wait for a host to start the actor."""


def check_hosts(
    address: str, *, ports: PortRange | None, machines: str, console: Console | None = None
) -> None:
    """Check each host of the Ray cluster, and print rows and problems. Raises RunFailed for problems."""
    console = console or Console()
    try:
        findings = survey(address, ports)
    except MasterGone as error:
        raise RunFailed(f"a host was lost while it was looked at: {error}") from None
    names = [finding.name for finding in findings]
    table = Table(*columns(names), box=SIMPLE_HEAD, header_style="bold", pad_edge=False)
    for finding in findings:
        table.add_row(*finding.row(names if len(names) > 1 else ()))
    console.print(table)
    lines = all_missing(findings, ports, machines)
    for line in lines:
        console.print(line, soft_wrap=True, highlight=False, markup=False)
    if lines:
        hosts = len({line.split(": ")[0] for line in lines})
        raise RunFailed(f"{hosts} of {len(findings)} hosts lack something")
    console.print("Nothing is missing.")


def survey(address: str, ports: PortRange | None) -> list[HostFinding]:
    """Return findings about each host of the Ray cluster. Raises BadInput without one."""
    with actors_on_hosts(address, Surveyor) as placed:
        found = [HostFinding(name=host.name, address=host.address, ray_cpus=host.cpus) for host in placed]
        there: dict[str, tuple[Host, Any, HostFinding]] = {}
        for finding, (host, actor) in zip(found, placed.items(), strict=True):
            if _look(finding, host, actor, ports):
                there[host.name] = host, actor, finding
        own = next(host.name for host in placed if host.drives)
        asks = {name: partial(_asked, actor.trial_s) for name, (_, actor, _) in there.items()}
        with_speeds(found, core_speeds(None, asks))
        if own in there:
            image_comes = not there[own][2].image_why and not there[own][2].engine_why
            for finding in found:
                finding.image_comes = image_comes
        _transfer(list(there.values()), ports)
    return found


def _look(finding: HostFinding, host: Host, actor: Any, ports: PortRange | None) -> bool:
    """Ask the actor on `host` about its host, and store the answers in `finding`. Return whether the host answers."""
    try:
        (said,) = wait_for([actor.look.remote()], LOOK_S)
    except (MasterGone, RunFailed) as error:
        finding.fault = str(error)
        return False
    finding.cores = said["cores"]
    finding.engine_why, finding.image_why = said["engine_why"], said["image_why"]
    if not host.drives:
        finding.clock = clock_ahead(partial(_asked, actor.time_of_day))
    if ports is not None:
        (finding.free_ports,) = wait_for([actor.free_ports.remote(host.address, ports)])
    return True


def _asked(method: Any) -> float:
    return wait_for([method.remote()])[0]


def _transfer(there: Sequence[tuple[Host, Any, HostFinding]], ports: PortRange | None) -> None:
    """Measure transfers between all hosts that answer, into their findings."""
    token = secrets.token_hex(TOKEN_BYTES // 2)
    listening: dict[str, int] = {}
    for host, actor, _ in there:
        try:
            (listening[host.name],) = wait_for([actor.listen.remote(host.address, ports, token)])
        except BadInput:  # No port is free; the host's row says so.
            continue
    by_name = {host.name: (host, actor, finding) for host, actor, finding in there}
    for pairs in rounds(list(listening)):
        calls = [
            by_name[left][1].send.remote(by_name[right][0].address, listening[right], token)
            for left, right in pairs
        ]
        for (left, right), way in zip(pairs, wait_for(calls) if calls else [], strict=True):
            by_name[left][2].to[right] = way
    wait_for([actor.close.remote() for _, actor, _ in there])


# The findings about each host: rows of a table, and lines that describe each problem and its solution.

COLUMNS = ("host", "address", "Ray CPUs", "cores", "core speed", "clock [ms]", "ports", "engine", "image")
BANDWIDTHS_MAX = 6
"""With more hosts, the table shows only the lowest rate of each host, not each transfer."""


@dataclass(slots=True, kw_only=True)
class HostFinding:
    """Findings about one host; unknown if `fault`, the reason for no answer, is set.

    `to` has each other host's bytes per second, or a reason. `clock` is the difference from the command's
    host, None there.
    """

    name: str
    address: str
    ray_cpus: float
    fault: str = ""
    cores: float = 0.0
    speed: float = 1.0
    clock: ClockReading | None = None
    free_ports: int | None = None  # None if no range of ports is given.
    engine_why: str = ""
    image_why: str = ""
    image_comes: bool = False  # The first run sends the image from the command's host.
    to: dict[str, float | str] = field(default_factory=dict)  # Transfer rates or errors, by receiving host.

    def row(self, others: Sequence[str]) -> list[str]:
        """Return the cells of this host's table row, including the transfer rates to the hosts `others`."""
        place = [self.name, self.address, f"{self.ray_cpus:g}"]
        ways = [_way(self.to.get(other)) for other in others]
        if len(others) > BANDWIDTHS_MAX:
            rates = [rate for rate in self.to.values() if isinstance(rate, float)]
            ways = [format_rate(min(rates)) if rates else "-"]
        if self.fault:
            return [*place, *["-"] * (len(COLUMNS) - len(place)), *["-"] * len(ways)]
        clock = self.clock
        image = "there" if not self.image_why else "is sent" if self.image_comes else "none"
        return [
            *place,
            f"{self.cores:g}",
            f"{self.speed:.2f}",
            "0" if clock is None else f"{clock.offset_s * 1e3:+.2f} ± {clock.bound_s * 1e3:.2f}",
            "any" if self.free_ports is None else f"{self.free_ports} free",
            "none" if self.engine_why else "answers",
            "-" if self.engine_why else image,
            *ways,
        ]

    def missing(self, ports: PortRange | None, machines: str) -> Iterable[str]:
        """Yield each problem that prevents a run on this host, with the action to take."""
        if self.fault:
            yield f"it does not start our code: {self.fault}; expected the same Python and the same pip install"
            return
        if self.clock is not None and self.clock.bound_s > CLOCK_BOUND_MAX_S:
            yield f"its clock can be read to {self.clock.bound_s:.2f} s only; find out why the network is slow"
        if self.free_ports == 0:
            yield f"no port of {ports} is free; end what listens there, or choose another range (--ports)"
        for other, way in self.to.items():
            if isinstance(way, str):
                open_ = f"TCP ports {ports}" if ports else "all TCP ports, or choose a range (--ports)"
                yield f"{other} is not reached from it ({way}); open {open_} between the hosts"
        if machines == "docker":
            if self.engine_why:
                yield f"no engine: {self.engine_why}; start Docker there, for the user who runs Ray"
            elif self.image_why and not self.image_comes:
                yield self.image_why


def columns(others: Sequence[str]) -> list[str]:
    """Return the titles of the table's columns, including those for transfer rates to the hosts `others`."""
    if len(others) < 2:
        return list(COLUMNS)
    if len(others) > BANDWIDTHS_MAX:
        return [*COLUMNS, "slowest way"]
    return [*COLUMNS, *(f"to {other}" for other in others)]


def all_missing(findings: Iterable[HostFinding], ports: PortRange | None, machines: str) -> list[str]:
    """Return each host's problems, headed by its name."""
    return [f"{finding.name}: {line}" for finding in findings for line in finding.missing(ports, machines)]


def rounds(names: Sequence[str]) -> list[list[tuple[str, str]]]:
    """Divide ordered pairs into rounds with each name once, whose transfers do not disturb each other."""
    ring: list[str | None] = [*names, *([None] if len(names) % 2 else [])]
    found: list[list[tuple[str, str]]] = []
    for _ in range(len(ring) - 1):
        half = len(ring) // 2
        pairs = [
            (left, right)
            for left, right in zip(ring[:half], reversed(ring[half:]), strict=True)
            if left is not None and right is not None
        ]
        found += [pairs, [(right, left) for left, right in pairs]]
        ring = [ring[0], ring[-1], *ring[1:-1]]
    return found


def with_speeds(findings: Iterable[HostFinding], speeds: Mapping[str, float]) -> None:
    """Set the findings' relative core speeds, 1 for unknown hosts."""
    for finding in findings:
        finding.speed = speeds.get(finding.name, 1.0)


def _way(found: float | str | None) -> str:
    if found is None:
        return "-"
    return "none" if isinstance(found, str) else format_rate(found)
