"""The paper's cluster: 20 nodes, or a quarter of them, with disks that seek and memory that pages.

The paper prints "2-way 2.8 GHz Xeon", 2 GB of memory, one disk and gigabit Ethernet. The constants CORES,
SEEK and PAGING (costs of seeks and of paging) were fitted so that Fair's makespans match the paper's: 4781 s
with 4 map slots per node, and more with fewer or more slots.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from schedbed.deploy.papers.bench import Bench
from schedbed.scheduler.admission.slots import Slots
from schedbed.scheduler.locality.greedy import Greedy
from schedbed.scheduler.order.fair import Fair
from schedbed.scheduler.policy import Composed
from schedbed.scheduler.view import NodeView
from schedbed.tasks.specs import TaskKind

DISK_BPS = 40e6
MEMORY_BYTES = 2 * 2**30
SEEK, PAGING = 0.04, 0.5
CORES = 3
"""Two hyper-threaded Xeons: four threads at a time, and three times the throughput of one. Four maps of combine that
use all of the CPU get 25% each, as in Table 2."""
HEARTBEAT_S = 3
FRAMEWORK: Mapping[str, Any] = {"maps_per_heartbeat": 0}
"""As Hadoop 0.23: heartbeats of a timer that start maps in all free slots, set-up and clean-up tasks."""
MAP_SLOTS = 8  # the largest number in Figure 3
LIVE_SCALE = 0.015


@dataclass(frozen=True, slots=True)
class Size:
    """The size of an experiment: the number of nodes, and the share `part` of the paper's tasks that run."""

    nodes: int
    part: float
    live: bool = False


FULL = Size(20, 1.0)
QUARTER = Size(5, 0.25)
LIVE = Size(5, 0.25, live=True)


def size_of(bench: Bench) -> Size:
    """Return the size of an experiment: a quarter of the paper's nodes and tasks, or all with `--full`.

    Live runs always have a quarter.
    """
    if bench.live:
        return LIVE
    return FULL if bench.full else QUARTER


@dataclass(frozen=True, slots=True)
class NodeHardware:
    """The hardware of a node: cores, disk rate, and how much seeks and paging slow down the disk."""

    cores: int = CORES
    disk_bps: float = DISK_BPS
    seek: float = SEEK
    paging: float = PAGING


PAPER_NODE = NodeHardware()


def scenario(
    jobs: Sequence[Mapping[str, Any]],
    policies: Sequence[Any],
    size: Size,
    hardware: NodeHardware = PAPER_NODE,
    start_s: float | None = None,
) -> dict[str, Any]:
    """Return a scenario of these jobs and policies on the paper's cluster.

    `start_s` replaces the usual time in s that Hadoop 1 takes to start an attempt. Live runs have a scale of
    0.015, which shortens all times, and nodes with slower cores and no paging.
    """
    disk = {"rate": f"{round(hardware.disk_bps)}B/s", "seek": hardware.seek}
    node = {
        "cores": hardware.cores,
        "core_speed": 0.16 if size.live else 1.0,
        "memory": "512MiB" if size.live else {"size": f"{MEMORY_BYTES}B", "paging": hardware.paging},
        "disk": disk,
        "network": "1Gbit/s",
        "map_slots": MAP_SLOTS,
        "reduce_slots": 2,
    }
    cluster = {"nodes": size.nodes, "heartbeat": "200ms" if size.live else f"{HEARTBEAT_S}s", "node": node}
    return {
        "scale": LIVE_SCALE if size.live else 1.0,
        "cluster": cluster,
        "blocks": {"size": "64MB", "replication": 3},
        "workload": {"jobs": list(jobs)},
        "policies": list(policies),
        **({} if size.live else {"framework": _framework(start_s)}),
    }


def _framework(start_s: float | None) -> dict[str, Any]:
    return {"hadoop1": {**FRAMEWORK, **({} if start_s is None else {"jvm": f"{start_s}s"})}}


# The policy Fair with a limit on the number of maps that run on a node at the same time.
#
# Figure 3 compares several numbers of map slots. With the limit, all of them run on the same cluster.


def fair_spec(map_slots: int) -> str:
    """Return the SPEC (text form) of the policy Fair with at most `map_slots` running maps per node."""
    return f"{Path(__file__)}:FairSlots:map_slots={map_slots}"


class Fewer(Slots):
    """The admission rule of a policy that runs at most `map_slots` maps on a node at a time."""

    def __init__(self, map_slots: int) -> None:
        self._map_slots = map_slots

    def room(self, node: NodeView, kind: TaskKind) -> bool:
        """Implement `Admission.room`: return whether the node has a free slot within the limit."""
        free = node.free_slots(kind)
        return free > (max(0, node.spec.map_slots - self._map_slots) if kind is TaskKind.MAP else 0)


class FairSlots(Composed):
    """The policy `fair` with at most `map_slots` maps on a node at a time."""

    def __init__(self, *, map_slots: int) -> None:
        super().__init__(Fair(), Greedy(), Fewer(map_slots))
