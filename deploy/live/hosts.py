"""The hosts of a live run: which host runs each node, what is known about each host, and services on other hosts."""

from __future__ import annotations

import itertools
import os
import platform
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from schedbed.cluster.agent.cgroups import owner_mark, sweep_leftovers
from schedbed.cluster.agent.config import LOOPBACK
from schedbed.cluster.clock import RunClock
from schedbed.cluster.core_trial import CoreTrial
from schedbed.cluster.host_clock import ClockReading, ClockTrack, HostScale
from schedbed.cluster.machines.make import KINDS, machines_ready
from schedbed.cluster.machines.piece_pipe import PiecePipe
from schedbed.cluster.run_config import RunConfig
from schedbed.cluster.spec import BY_HOST, ClusterSpec, NodeSpec, shared_disks
from schedbed.deploy.hostwatch import SAMPLE_S, HostWatch, describe_host
from schedbed.deploy.workspace import base_folder, make_scratch, remove, sweep
from schedbed.tasks.errors import BadInput
from schedbed.tasks.specs import NodeId


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """A host of the Ray cluster. `cpus` is what it offers to Ray; `drives` marks the command's host."""

    name: str
    ray_id: str
    address: str = LOOPBACK
    cpus: float = 1.0
    drives: bool = False


def hosts_of(raylets: Sequence[Mapping[str, Any]], own_id: str) -> tuple[Host, ...]:
    """Return the live hosts, this one first. Equal host names get the address added."""
    alive = [raylet for raylet in raylets if raylet["Alive"]]
    names = [raylet["NodeManagerHostname"] for raylet in alive]
    hosts = [
        Host(
            name=name if names.count(name) == 1 else f"{name}-{raylet['NodeManagerAddress']}",
            ray_id=raylet["NodeID"],
            address=raylet["NodeManagerAddress"],
            cpus=float(raylet["Resources"].get("CPU", 0.0)),
            drives=raylet["NodeID"] == own_id,
        )
        for name, raylet in zip(names, alive, strict=True)
    ]
    return tuple(sorted(hosts, key=lambda host: (not host.drives, host.name)))


def deal_out(nodes: Sequence[NodeSpec], hosts: Sequence[Host]) -> dict[NodeId, Host]:
    """Assign nodes to hosts: named ones there, others by CPU in proportion to what hosts offer to Ray.

    They go rack by rack, so that most racks stay on one host. Raises BadInput for an unknown host, or without
    CPUs.
    """
    dealt = {node.node: _named_host(node.host, hosts) for node in nodes if node.host}
    free = [node for node in nodes if not node.host]
    if not free:
        return dealt
    lending = [host for host in hosts if host.cpus > 0]
    if not lending:
        raise BadInput(
            "--address: no host of the Ray cluster lends it a CPU, expected at least one that does"
        )
    bounds = list(itertools.accumulate(_shares_left(nodes, dealt, lending)))
    racks = list(dict.fromkeys(node.rack for node in nodes))
    wanted = sum(node.cpu_rate for node in free)
    so_far = 0.0
    for node in sorted(free, key=lambda node: racks.index(node.rack)):
        middle = (so_far + node.cpu_rate / 2) / wanted * bounds[-1]
        so_far += node.cpu_rate
        dealt[node.node] = next(
            (host for host, bound in zip(lending, bounds, strict=True) if middle < bound), lending[-1]
        )
    return {node.node: dealt[node.node] for node in nodes}


def _named_host(name: str, hosts: Sequence[Host]) -> Host:
    for host in hosts:
        if name in (host.name, host.address):
            return host
    names = ", ".join(host.name for host in hosts)
    raise BadInput(
        f"cluster.node.host: no host {name!r} in this run, expected one of {names}, or --address of a Ray cluster that "
        "has it"
    )


def _shares_left(
    nodes: Sequence[NodeSpec], dealt: Mapping[NodeId, Host], lending: Sequence[Host]
) -> list[float]:
    """Return the cores of nodes that each host may still get, or its CPUs if all hosts are full."""
    whole = sum(node.cpu_rate for node in nodes) / sum(host.cpus for host in lending)
    named = {
        host.name: sum(
            node.cpu_rate for node in nodes if node.node in dealt and dealt[node.node].name == host.name
        )
        for host in lending
    }
    left = [max(0.0, host.cpus * whole - named[host.name]) for host in lending]
    return left if any(left) else [host.cpus for host in lending]


def racks_by_host(cluster: ClusterSpec, places: Mapping[NodeId, Host]) -> ClusterSpec:
    """Return the cluster with the host as the rack of each `rack: by-host` node.

    A block's replicas, on two racks, are then on two hosts.
    """
    nodes = (
        replace(node, rack=places[node.node].name) if node.rack == BY_HOST else node for node in cluster.nodes
    )
    return replace(cluster, nodes=tuple(nodes))


def host_loads(
    hosts: Iterable[HostRecord], own_samples: list[list[float]], clock: RunClock
) -> dict[str, dict[str, Any]]:
    """Return each host's load for run.json, in seconds of the driver's clock, corrected by measured differences."""
    return {
        record.host.name: (
            {"samples": own_samples, "lost_s": record.lost_s}
            if record.host.drives
            else {
                "samples": record.run_samples(clock),
                "lost_s": record.lost_s,
                "clock": record.run_readings(clock),
            }
        )
        for record in hosts
    }


def check_links(cluster: ClusterSpec, places: Mapping[NodeId, Host]) -> None:
    """Raise BadInput if hosts would share a rack link or disk, whose rate only one host can limit."""
    every = sorted({places[node.node].name for node in cluster.nodes})
    for name in shared_disks(cluster.nodes):
        hosts = sorted({places[node.node].name for node in cluster.nodes if node.shared_disk == name})
        if len(hosts) > 1:
            raise BadInput(
                f"cluster.node.shared_disk: the nodes that share {name} lie on {', '.join(hosts)} and a disk is held "
                "on one host only, expected the same host for all of them, or one host"
            )
    for key, rate_bps in (("downlink", cluster.downlink_bps), ("core_switch", cluster.core_switch_bps)):
        if rate_bps is not None and len(every) > 1:
            raise BadInput(
                f"cluster.{key}: the nodes lie on {', '.join(every)} and what comes from all racks is counted on one "
                f"host only, expected {key}: none, or one host"
            )
    if not cluster.uplink_bps:
        return
    for rack in dict.fromkeys(node.rack for node in cluster.nodes):
        hosts = sorted({places[node.node].name for node in cluster.nodes if node.rack == rack})
        if len(hosts) > 1:
            raise BadInput(
                f"cluster.uplink: the nodes of rack {rack} lie on {', '.join(hosts)} and an uplink is held on one "
                "host only, expected cluster.racks: by-host, as many equal racks as hosts, or uplink: none"
            )


@dataclass(slots=True)
class HostRecord:
    """A host's state during a run. `folder` is its scratch folder, None on the driver's host.

    `owner` manages its control groups. `clock_offset_s` is by how much its clock was ahead before the run,
    within `clock_bound_s`; `readings` are later. `speed` is relative to the slowest host. `lost_s` is when it
    stopped answering, or None.
    """

    host: Host
    folder: Path | None = None
    owner: str = field(default_factory=owner_mark)
    about: dict[str, Any] = field(default_factory=describe_host)
    clock_offset_s: float = 0.0
    clock_bound_s: float = 0.0
    speed: float = 1.0
    readings: list[ClockReading] = field(default_factory=list)
    samples: list[list[float]] = field(default_factory=list)
    lost_s: float | None = None

    def take(self, said: Mapping[str, Any], clock: ClockReading) -> None:
        """Store `said`, the host's description from `HostKeeper.describe`, and the clock difference."""
        self.folder = Path(said["folder"])
        self.owner = said["owner"]
        self.about = dict(said["host"])
        self.clock_offset_s = round(clock.offset_s, 6)
        self.clock_bound_s = round(clock.bound_s, 6)

    def hear(
        self,
        samples: list[list[float]] | None,
        now_s: float,
        readings: Sequence[ClockReading] | None = None,
    ) -> None:
        """Store an answer asked for at `now_s`. Without `samples` the host is lost."""
        if readings:
            self.readings = list(readings)
        if samples is None:
            self.lost_s = round(now_s, 3) if self.lost_s is None else self.lost_s
        else:
            self.samples += samples
            self.lost_s = None

    def run_samples(self, clock: RunClock) -> list[list[float]]:
        """Return the host's load samples, with times as seconds since the run's start on the driver's clock `clock`."""
        track = ClockTrack()
        for reading in self.readings:
            track.add(reading)
        scale = HostScale(track)
        return [
            [round(scale.run_s(at_s, clock.epoch_s, clock.stretch), 3), *rest] for at_s, *rest in self.samples
        ]

    def run_readings(self, clock: RunClock) -> list[list[float]]:
        """Return [time, offset, bound] of each reading: the driver's seconds of the run, and seconds ahead of it."""
        return [
            [
                round((reading.at_s - reading.offset_s - clock.epoch_s) / clock.stretch, 3),
                round(reading.offset_s, 6),
                round(reading.bound_s, 6),
            ]
            for reading in self.readings
        ]

    def facts(self, places: Mapping[NodeId, Host]) -> dict[str, Any]:
        """Return the host's facts for run.json."""
        return {
            "address": self.host.address,
            **self.about,
            "ray_cpus": self.host.cpus,
            "clock_offset_s": self.clock_offset_s,
            "clock_bound_s": self.clock_bound_s,
            "core_speed_ratio": self.speed,
            "nodes": [node for node, host in places.items() if host.name == self.host.name],
        }


class HostKeeper:
    """The actor that provides folder, images and load samples on another host than the command's.

    The folder's name has this process's id. If it remains after a death, the next run removes it.
    """

    def __init__(self) -> None:
        base = base_folder()
        sweep(base)
        sweep_leftovers()
        self._folder = make_scratch(base)
        self._watch: HostWatch | None = None
        self._machines = ExitStack()
        self._ready: set[str] = set()
        self._image: PiecePipe | None = None  # The image that is being received.

    def ready(self) -> int:
        """Return the process's id. The driver calls this to wait for the actor's start."""
        return os.getpid()

    def describe(self) -> dict[str, Any]:
        """Return the path of the scratch folder, the identifier of this process, and a description of the host."""
        return {
            "folder": str(self._folder),
            "owner": owner_mark(),
            "host": describe_host(),
        }

    def time_of_day(self) -> float:
        return RunClock.host_time_s()

    def trial_s(self) -> float:
        """Return the CPU seconds of a fixed computation on this host, as a measure of the speed of the host's cores."""
        return CoreTrial().least_s()

    def prepare(self, config: RunConfig) -> None:
        """Prepare this host for a run: folders, and its kind of machines. Raises BadInput."""
        if config.machines not in self._ready:
            try:
                self._machines.enter_context(machines_ready(config.machines))
            except BadInput as error:
                raise BadInput(f"host {platform.node()}: {error}") from None
            self._ready.add(config.machines)
        config.make_work()

    def lacks_image(self, machines: str) -> bool:
        """Return whether the machines' image is missing here. Raises BadInput if they do not work."""
        image = KINDS[machines]().image
        try:
            return image is not None and image.is_missing()
        except BadInput as error:
            raise BadInput(f"host {platform.node()}: {error}") from None

    def take_image_piece(self, machines: str, piece: bytes) -> None:
        """Load `piece`, the next piece of the image for the kind of machines `machines`, such as `docker`."""
        if self._image is None:
            image = KINDS[machines]().image
            assert image is not None
            self._image = PiecePipe(image.load)
        self._image.put(piece)

    def end_image(self) -> None:
        """Wait until all pieces of the image are loaded. Raises BadInput if the container engine refused the image."""
        image, self._image = self._image, None
        if image is not None:
            image.end()

    def watch(self, clock: RunClock) -> None:
        """Sample the CPU load, by the run's clock on the driver's host."""
        self._watch = HostWatch(RunClock(clock.epoch_s, clock.stretch))
        threading.Thread(target=self._look, args=(self._watch,), daemon=True).start()

    def samples(self, start: int) -> list[list[float]]:
        """Return the current run's load samples from index `start` on."""
        return [] if self._watch is None else self._watch.samples[start:]

    def end(self) -> None:
        self._watch = None

    def close(self) -> None:
        """Stop the sampling, and remove the machines and the scratch folder on this host."""
        self.end()
        self._machines.close()
        remove(self._folder)

    def _look(self, watch: HostWatch) -> None:
        while self._watch is watch:
            watch.look()
            time.sleep(SAMPLE_S / 4)
