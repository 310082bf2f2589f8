"""The findings about each host: rows of a table, and lines that describe each problem and its solution."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from schedbed.cluster.host_clock import ClockReading
from schedbed.cluster.wire.port_range import PortRange
from schedbed.deploy.results.host_fidelity import CLOCK_BOUND_MAX_S
from schedbed.tasks.units import format_rate

COLUMNS = ("host", "address", "Ray CPUs", "cores", "core speed", "clock [ms]", "ports", "engine", "image")
BANDWIDTHS_MAX = 6
"""With more hosts, the table shows only the lowest rate of each host, not each transfer."""


@dataclass(slots=True, kw_only=True)
class HostFinding:
    """The findings about one host.

    `fault` is the reason why the host did not answer; the other values are then unknown. `to` is a dictionary
    from the name of another host to the transfer rate in bytes per second, or to the reason why there was no
    transfer. `clock` is the difference between this host's clock and the clock of the host that runs the
    command, and None on that host.
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
        """Yield a line for each problem that prevents a run on this host, with the action to take.

        `ports` is the range of ports that the run may use, and `machines` the kind of machine of its nodes.
        """
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
    """Return a line for each problem of each host, beginning with the host's name.

    `ports` is the range of ports that a run may use, and `machines` the kind of machine of its nodes.
    """
    return [f"{finding.name}: {line}" for finding in findings for line in finding.missing(ports, machines)]


def rounds(names: Sequence[str]) -> list[list[tuple[str, str]]]:
    """Divide all ordered pairs of names into rounds. Each name is in at most one pair of a round.

    Transfers between the pairs of one round can then run at the same time without disturbing each other.
    """
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
    """Set the relative core speed of each finding, given a dictionary from host name to speed.

    The speed of a host that is not in `speeds` is 1.
    """
    for finding in findings:
        finding.speed = speeds.get(finding.name, 1.0)


def _way(found: float | str | None) -> str:
    if found is None:
        return "-"
    return "none" if isinstance(found, str) else format_rate(found)
