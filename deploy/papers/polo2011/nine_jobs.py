"""The nine jobs of Tables 1 and 2 as synthetic jobs, the cluster, and the policies that run the jobs.

A job has one map per 64 MB of input, and the CPU, disk and memory use of tasks is that of Table 2. The paper
does not give the durations of reduces, nor those of the maps of the applications combine and select. They are
chosen such that each job, alone under Fair with 4 map slots per node, takes about the time in Table 1. To
reach Table 2's disk use, which includes seeks, a map may read more bytes than its block has. Table 2 divides
the use of a whole node by the number of running maps (section 3.6), so the shuffle is included.

Table 1 prints 10 GB for job J3 and 25 GB for J4, although J3 takes longer alone and ends later. Here J3 has
25 GB and J4 has 10 GB, unless `printed` is true.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from pathlib import Path
from typing import Any

from schedbed.deploy.papers import paper_file
from schedbed.deploy.papers.bench import Bench
from schedbed.deploy.papers.experiment import Values
from schedbed.deploy.papers.live_and_simulated import hadoop1
from schedbed.scheduler.admission.slots import Slots
from schedbed.scheduler.locality.greedy import Greedy
from schedbed.scheduler.order.fair import Fair
from schedbed.scheduler.policy import Composed
from schedbed.scheduler.view import NodeView
from schedbed.tasks.specs import TaskKind

# The paper's cluster: 20 nodes, or a quarter of them, with disks that seek and memory that pages.
#
# The paper prints "2-way 2.8 GHz Xeon", 2 GB of memory, one disk and gigabit Ethernet. The constants CORES,
# SEEK and PAGING (costs of seeks and of paging) were fitted so that Fair's makespans match the paper's: 4781 s
# with 4 map slots per node, and more with fewer or more slots.

DISK_BPS = 40e6
MEMORY_BYTES = 2 * 2**30
SEEK, PAGING = 0.04, 0.5
CORES = 3
"""Two hyper-threaded Xeons: four threads at a time, and three times the throughput of one. Four maps of combine that
use all of the CPU get 25% each, as in Table 2."""
HEARTBEAT_S = 3
MAPS_PER_HEARTBEAT = 0
"""As Hadoop 0.23: heartbeats of a timer that start maps in all free slots, set-up and clean-up tasks."""
MAP_SLOTS = 8  # the largest number in Figure 3
LIVE_SCALE, LIVE_CORE_SPEED = 0.02, 0.05
"""Five live nodes use three quarters of a host's core."""


@dataclass(frozen=True, slots=True)
class Size:
    """The size of an experiment: the number of nodes, and the share `part` of the paper's tasks that run."""

    nodes: int
    part: float
    live: bool = False

    @property
    def scale(self) -> float:
        """Return the factor of all times."""
        return LIVE_SCALE if self.live else 1.0

    @property
    def core_speed(self) -> float:
        """Return the speed of a core, as a share of the host's."""
        return LIVE_CORE_SPEED if self.live else 1.0


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
) -> dict[str, Any]:
    """Return a scenario of these jobs and policies on the paper's cluster.

    Live runs have a scale of 0.02, which shortens all times, and slower cores.
    """
    disk = {"rate": f"{round(hardware.disk_bps)}B/s", "seek": hardware.seek}
    node = {
        "cores": hardware.cores,
        "core_speed": size.core_speed,
        "memory": {"size": f"{MEMORY_BYTES}B", "paging": hardware.paging},
        "disk": disk,
        "network": "1Gbit/s",
        "map_slots": MAP_SLOTS,
        "reduce_slots": 2,
    }
    cluster = {"nodes": size.nodes, "heartbeat": f"{size.scale * HEARTBEAT_S:g}s", "node": node}
    return {
        "scale": size.scale,
        "cluster": cluster,
        "blocks": {"size": "64MB", "replication": 3},
        "workload": {"jobs": list(jobs)},
        "policies": list(policies),
        "framework": hadoop1(size.scale, maps_per_heartbeat=MAPS_PER_HEARTBEAT),
    }


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


# The nine jobs.

MAP_BYTES = 64e6  # input of one map
MAPS_S = {"sort": 14.2, "combine": 195.0, "select": 28.0}
"""How long a map takes where Table 2's shares were measured: beside others. Sort's is 4 x 64 MB at 45% of the disk: its
block is read and written, and what it wrote is read and written by the shuffle."""
SINGLE_REDUCE_S = {"combine": (150.0, 5.0), "select": (0.0, 8.0)}
"""Of combine's and select's one reduce: seconds, and seconds more for each GB of input."""
SORT_REDUCES = 20
SORT_REDUCE_S, SORT_REDUCE_S_PER_GB, IN_MEMORY_GB = 180.0, 480.0, 1.2
"""Of sort's reduce phase: seconds, and more for each GB beyond the memory of a reduce (Table 2: 60% of 2 GB)."""
SLOTS = (1, 2, 3, 4, 6, 8)  # map slots per node in Figure 3
LIVE_SLOTS = (1, 4, 8)
RELAXED_S = 100_000.0
"""A goal so relaxed that one slot is enough for any job (Experiment 1)."""

JOBS = tuple(f"J{number}" for number in range(1, 10))
APPS = {
    **dict.fromkeys(("J1", "J8", "J9"), "sort"),
    **dict.fromkeys(("J2", "J6", "J7"), "combine"),
    **dict.fromkeys(("J3", "J4", "J5"), "select"),
}


def said() -> Values:
    return paper_file.load("polo2011").experiments["table1"].values


def sizes_gb(*, printed: bool = False) -> Mapping[str, float]:
    """Return input sizes in GB. Table 1 seems to exchange J3's and J4's: exchanged back unless `printed`."""
    sizes = dict(zip(JOBS, said()["sizes"].numbers, strict=True))
    return sizes if printed else {**sizes, "J3": sizes["J4"], "J4": sizes["J3"]}


def job(
    name: str,
    submit_s: float,
    goal_s: float | None,
    size: Size,
    *,
    printed: bool = False,
) -> dict[str, Any]:
    """Return one of the nine jobs. `goal_s` counts from the submission.

    With `printed`, the size is that of Table 1, even for J3 and J4.
    """
    app, gigabytes = APPS[name], sizes_gb(printed=printed)[name]
    made: dict[str, Any] = {
        "name": name,
        "app": "synthetic",
        "maps": ceil(size.part * gigabytes * 1e9 / MAP_BYTES),
        "map": {**_map(app), "variance": 0.1},
        "submit": f"{submit_s}s",
    }
    if app == "sort":
        made["reduces"] = ceil(size.part * SORT_REDUCES)
        made["reduce"] = _sort_reduce(sort_reduce_s(name))
    else:
        fixed_s, more_s = SINGLE_REDUCE_S[app]
        made["reduces"] = 1
        made["reduce"] = {"cpu": f"{fixed_s + more_s * gigabytes}s", "write": "1MB"}
    memory, _, _, _, reduce_memory = said()[f"{app}_rest"].numbers
    made["map"]["memory"] = _memory(memory)
    made["reduce"]["memory"] = _memory(reduce_memory)
    return made if goal_s is None else {**made, "deadline": f"{goal_s}s"}


def _map(app: str) -> dict[str, str]:
    """Return a map's costs by Table 2's shares. It has one thread, so it is faster alone on a node."""
    took_s, written_bytes = MAPS_S[app], MAP_BYTES if app == "sort" else 64e3
    moved_bytes = said()[f"{app}_map_io"].number / 100 * DISK_BPS * took_s
    if app == "sort":
        moved_bytes = 2 * MAP_BYTES  # the shuffle transfers the remaining bytes
    return {
        "cpu": f"{said()[f'{app}_map_cpu'].number / 100 * PAPER_NODE.cores * took_s}s",
        "read": f"{round(moved_bytes - written_bytes)}B",
        "write": f"{round(written_bytes)}B",
    }


def sort_reduce_s(name: str) -> float:
    """Return the seconds of a sort job's reduces."""
    each_gb = sizes_gb()[name] / SORT_REDUCES
    return SORT_REDUCE_S + SORT_REDUCE_S_PER_GB * max(0.0, each_gb - IN_MEMORY_GB)


def _sort_reduce(took_s: float) -> dict[str, str]:
    """Return a sort's reduce of `took_s` seconds, with Table 2's disk use.

    It computes on one core all the time, since a synthetic task lasts only while it uses CPU or disk: 33% of
    a node, not Table 2's 20%.
    """
    written_bytes = said()["sort_rest"].numbers[3] / 100 * DISK_BPS * took_s / 3  # three replicas
    return {"cpu": f"{took_s}s", "write": f"{round(written_bytes)}B"}


def _memory(percent: float) -> str:
    return f"{int(percent / 100 * MEMORY_BYTES)}B"


def goals(*, tight: bool) -> Mapping[str, float]:
    """Return each job's goal after its submission: Table 1's if `tight`, otherwise one always met."""
    if not tight:
        return dict.fromkeys(JOBS, RELAXED_S)
    since = zip(JOBS, said()["goals"].numbers, said()["submits"].numbers, strict=True)
    return {name: goal_s - submit_s for name, goal_s, submit_s in since}


def jobs(
    size: Size,
    *,
    tight: bool = False,
) -> list[Any]:
    """Return the nine jobs, with Table 1's goals if `tight` (Experiment 2), otherwise always met."""
    submits = zip(JOBS, said()["submits"].numbers, strict=True)
    due_s = goals(tight=tight)
    return [job(name, submit_s, due_s[name], size) for name, submit_s in submits]


def ras(core_speed: float = 1.0) -> dict[str, Any]:
    """Return RAS with Table 2's profiles (section 3.6), converted to the nodes' hardware."""
    profiles = {name: _profile(app, core_speed) for name, app in APPS.items()}
    return {"ras": {"cycle": "30s", "profiles": profiles}}


def _profile(app: str, core_speed: float) -> dict[str, dict[str, float]]:
    told = said()
    memory, shuffle_io, cpu, io, reduce_memory = told[f"{app}_rest"].numbers
    node = {"cpu": core_speed * PAPER_NODE.cores, "io": PAPER_NODE.disk_bps, "memory": MEMORY_BYTES}
    return {
        "map": {"cpu": told[f"{app}_map_cpu"].number, "io": told[f"{app}_map_io"].number, "memory": memory},
        "shuffle": {"io": shuffle_io},
        "reduce": {"cpu": cpu, "io": io, "memory": reduce_memory},
        "node": node,
    }


def slots(size: Size) -> tuple[int, ...]:
    """Return the map slots per node with which Fair is run, fewer live."""
    return LIVE_SLOTS if size.live else SLOTS


def experiment1(size: Size) -> dict[str, Any]:
    """Return Experiment 1: no tight goals, under Fair with each number of slots and RAS."""
    return scenario(jobs(size), [*map(fair_spec, slots(size)), ras(size.core_speed)], size)


def experiment2(size: Size) -> dict[str, Any]:
    """Return Experiment 2: Table 1's goals, under RAS."""
    return scenario(jobs(size, tight=True), [ras(size.core_speed)], size)


def on_hardware(size: Size, hardware: NodeHardware, fair_slots: tuple[int, ...]) -> dict[str, Any]:
    """Return Experiment 1 on other hardware, under Fair with each of `fair_slots` and RAS."""
    return scenario(jobs(size), [*map(fair_spec, fair_slots), ras()], size, hardware)


def longer(mine_s: list[float], than_s: list[float]) -> list[float]:
    """Return by how many percent times are longer, for each repeat."""
    return [100 * (mine / than - 1) for mine, than in zip(mine_s, than_s, strict=True)]
