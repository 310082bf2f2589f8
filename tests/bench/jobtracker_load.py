"""Calculate the load of a JobTracker from measured costs, as tables for docs/jobtracker-scale.md.

All slots are full, and a task's end causes a heartbeat of its own besides the periodic ones, as in live runs. The
measured costs are those of `jobtracker_scale.py`; the cost of messages is that of `heartbeat_hops.py`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from schedbed.scheduler.journal import EVENT_BYTES, SNAPSHOT_BYTES
from tests.bench.core_throughput import MAP_SLOTS
from tests.bench.figures import ResultFile, pivoted, show
from tests.bench.loaded_core import ROUND_S, TASK_S

NODES = (1_000, 10_000, 100_000)
LENGTHS_S = (10.0, 30.0, 300.0)
HADOOP_LEAST_S, HADOOP_HEARTBEATS = 0.3, 100
"""Hadoop 1.2: the shortest interval, and the heartbeats per second that `mapred.heartbeats.in.second` aims at."""
MIB, GIB = 2**20, 2**30
POLICIES = ("fifo", "fair", "fair x delay")
CLUSTER_ROWS = (*((nodes, 100) for nodes in NODES), (100_000, 1_000))
"""Nodes, and jobs at a time, of the rows of the table of cores."""


def hadoop_interval_s(nodes: int) -> float:
    """Return the heartbeat interval that Hadoop 1.2 sets for a cluster of this size."""
    return max(HADOOP_LEAST_S, nodes / HADOOP_HEARTBEATS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """The heartbeats of a full cluster: periodic ones, and one for each task that ends and is followed by the
    next.
    """

    nodes: int
    interval_s: float = ROUND_S
    task_s: float = TASK_S

    @property
    def periodic_per_s(self) -> float:
        """Return the periodic heartbeats per second."""
        return self.nodes / self.interval_s

    @property
    def ends_per_s(self) -> float:
        """Return the ends per second, which are also the launches per second."""
        return self.nodes * MAP_SLOTS / self.task_s

    @property
    def changing_share(self) -> float:
        """Return the share of all heartbeats that report an end."""
        return self.ends_per_s / (self.ends_per_s + self.periodic_per_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class BeatCosts:
    """CPU seconds of a heartbeat that changes nothing, and of one with an end and a launch."""

    quiet_s: float
    busy_s: float

    def plus(self, quiet_s: float, busy_s: float) -> BeatCosts:
        """Return the costs with more CPU seconds for each kind of heartbeat."""
        return BeatCosts(quiet_s=self.quiet_s + quiet_s, busy_s=self.busy_s + busy_s)

    def cores(self, load: Load) -> float:
        """Return the number of cores that the load keeps busy."""
        return load.periodic_per_s * self.quiet_s + load.ends_per_s * self.busy_s

    def shortest_interval_s(self, load: Load) -> float | None:
        """Return the interval at which one core is full, or None if the ends alone fill the core."""
        left = 1 - load.ends_per_s * self.busy_s
        return load.nodes * self.quiet_s / left if left > 0 else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """The measured figures that the tables need: median values by row and column of their result files."""

    core: Mapping[str, Mapping[str, float]]
    state: Mapping[str, Mapping[str, float]]
    messages_s: float

    @classmethod
    def load(cls, folder: Path) -> Measured:
        """Read the result files in `folder`.

        `messages_s` is the CPU time of a live JobTracker for a heartbeat without core and journal.
        """
        core, state = (
            {row: {name: each.median for name, each in columns.items()} for row, columns in cells.items()}
            for cells in (
                pivoted(ResultFile.load(folder / f"jobtracker_{name}.json").figures)
                for name in ("core", "state")
            )
        )
        hops = {
            each.name: each.median / 1e3 for each in ResultFile.load(folder / "heartbeat_hops.json").figures
        }
        counted = hops["- JobTracker: core and policy"] + hops["- JobTracker: journal"]
        return cls(core=core, state=state, messages_s=hops["JobTracker, all"] - counted)

    def core_costs(self, policy: str, jobs: int, nodes: int) -> BeatCosts:
        """Return the costs of the core alone."""
        row = self.core[f"{policy}, {nodes:,} nodes, {jobs:,} jobs"]
        return BeatCosts(quiet_s=row["quiet"] / 1e6, busy_s=row["end + launch"] / 1e6)

    def kept_costs(self, policy: str, jobs: int, nodes: int) -> BeatCosts:
        """Return the costs of core and journal, with the time of snapshots divided among the events."""
        row = self.core[f"{policy}, {nodes:,} nodes, {jobs:,} jobs"]
        state = self.state[f"{nodes:,} nodes"]
        per_byte_s = state["snapshot made in"] / self.snapshot_due_bytes(nodes)
        costs = BeatCosts(
            quiet_s=row["quiet, with journal"] / 1e6, busy_s=row["end + launch, with journal"] / 1e6
        )
        return costs.plus(per_byte_s * state["event, quiet"], per_byte_s * state["event, end"])

    def live_costs(self, policy: str, jobs: int, nodes: int) -> BeatCosts:
        """Return the costs of the whole live JobTracker, in one process."""
        message_s = self.state[f"{nodes:,} nodes"]["message of a launch"] / 1e6
        return self.kept_costs(policy, jobs, nodes).plus(self.messages_s, self.messages_s + message_s)

    def snapshot_due_bytes(self, nodes: int) -> float:
        """Return the bytes of events after which the journal is due for a snapshot."""
        return max(SNAPSHOT_BYTES, self.state[f"{nodes:,} nodes"]["snapshot"] * MIB)

    def event_bytes_per_s(self, load: Load) -> float:
        """Return the bytes of events per second, as the journal counts them."""
        state = self.state[f"{load.nodes:,} nodes"]
        quiet, end = (max(EVENT_BYTES, state[f"event, {kind}"]) for kind in ("quiet", "end"))
        return load.periodic_per_s * quiet + load.ends_per_s * end

    def replay_s(self, load: Load) -> float:
        """Return the seconds to replay the most events that can follow a snapshot, under fair."""
        state, core = self.state[f"{load.nodes:,} nodes"], self.core_costs("fair", 100, load.nodes)
        events_per_s = load.periodic_per_s + load.ends_per_s
        due_s = self.snapshot_due_bytes(load.nodes) / self.event_bytes_per_s(load)
        return due_s * (events_per_s * state["event read in"] / 1e6 + core.cores(load))


def rates() -> str:
    """Return the table of heartbeats and changes per second."""
    head = ["nodes", "Hadoop 1.2's interval", "heartbeats/s at that interval", "heartbeats/s every 3 s"]
    head += [f"ends and launches/s, tasks of {length:g} s" for length in LENGTHS_S]
    head.append("heartbeats that change something, every 3 s, tasks of 30 s")
    rows = []
    for nodes in NODES:
        hadoop_s, load = hadoop_interval_s(nodes), Load(nodes=nodes)
        cells = [f"{nodes:,}", f"{show(hadoop_s)} s", show(nodes / hadoop_s), show(load.periodic_per_s)]
        cells += [show(Load(nodes=nodes, task_s=length_s).ends_per_s) for length_s in LENGTHS_S]
        rows.append([*cells, f"{show(100 * load.changing_share)}%"])
    return markdown(head, rows)


def cores(measured: Measured) -> str:
    """Return the table of cores that a JobTracker needs. A cell has a value for each policy."""
    head = ["nodes, jobs", "cores: core and policy", "cores: with journal and snapshots"]
    head += ["cores: whole", "launches/s that fill one core: core and policy", "the same: whole"]
    head += ["shortest interval on one core: with journal", "the same: whole"]
    rows = []
    for nodes, jobs in CLUSTER_ROWS:
        load = Load(nodes=nodes)
        columns: list[list[str]] = []
        for policy in POLICIES:
            costs = [
                each(policy, jobs, nodes)
                for each in (measured.core_costs, measured.kept_costs, measured.live_costs)
            ]
            used = [each.cores(load) for each in costs]
            full = [show(load.ends_per_s / used[number]) for number in (0, 2)]
            intervals = [_interval(each.shortest_interval_s(load)) for each in costs[1:]]
            columns.append([*(show(each) for each in used), *full, *intervals])
        cells = [
            " / ".join(dict.fromkeys(each) if len(set(each)) == 1 else each)
            for each in zip(*columns, strict=True)
        ]
        rows.append([f"{nodes:,}, {jobs:,}", *cells])
    return markdown(head, rows)


def _interval(seconds: float | None) -> str:
    return "none" if seconds is None else f"{show(seconds)} s"


def journal(measured: Measured) -> str:
    """Return the table of the journal's load, of pauses for snapshots, and of recovery."""
    head = ["nodes", "events/s", "MiB/s of events", "MiB/s written", "KiB of events per task"]
    head += ["a snapshot every", "which stops the JobTracker for", "recovery at most"]
    rows = []
    for nodes in NODES:
        load, state = Load(nodes=nodes), measured.state[f"{nodes:,} nodes"]
        per_s = measured.event_bytes_per_s(load)
        written = load.periodic_per_s * state["written, quiet"] + load.ends_per_s * state["written, end"]
        due_s = measured.snapshot_due_bytes(nodes) / per_s
        recovery_s = state["recovery"] + measured.replay_s(load)
        events = load.periodic_per_s + load.ends_per_s
        cells = [f"{nodes:,}", show(events), show(per_s / MIB), show(written / MIB)]
        cells += [show(per_s / load.ends_per_s / 1024), f"{show(due_s)} s"]
        rows.append([*cells, f"{show(state['snapshot made in'])} s", f"{show(recovery_s)} s"])
    return markdown(head, rows)


def answer(measured: Measured) -> str:
    """Return the first paragraph of the page, with its numbers."""
    least, most = (
        1e-3 / measured.live_costs("fair", 100, nodes).cores(Load(nodes=1)) for nodes in (10_000, 1_000)
    )
    load = Load(nodes=100_000)
    used = [
        each("fair", 100, load.nodes).cores(load)
        for each in (measured.core_costs, measured.kept_costs, measured.live_costs)
    ]
    state = measured.state["100,000 nodes"]
    messages = load.ends_per_s * state["message of a launch"] / 1e6
    between_s = measured.snapshot_due_bytes(load.nodes) / measured.event_bytes_per_s(load)
    return (
        f"With heartbeats every {ROUND_S:g} s, {MAP_SLOTS} map slots a node, tasks of {TASK_S:g} s and `fair`, "
        f"one JobTracker of this project fills its core at {least:.1f} to {most:.1f} thousand nodes. For 100,000 nodes "
        f"it would need {used[2]:.0f} cores, and can use one, since it is one thread. "
        f"The core with its policy takes {used[0]:.1f} cores. Journal and snapshots add "
        f"{used[1] - used[0]:.1f}, the messages that start attempts {messages:.1f}, and all other messages "
        f"{used[2] - used[1] - messages:.1f}. A snapshot stops everything for {state['snapshot made in']:.0f} s and "
        f"would be due every {between_s:.0f} s. Memory is no obstacle: {state['memory']:.1f} GiB.\n"
    )


def markdown(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a Markdown table."""
    lines = [f"| {' | '.join(line)} |" for line in (head, *rows)]
    return "\n".join([lines[0], "|---" * len(head) + "|", *lines[1:]]) + "\n"


def tables(folder: Path) -> dict[str, str]:
    """Return the calculated parts of the page by name, from the result files in `folder`."""
    measured = Measured.load(folder)
    return {
        "answer": answer(measured),
        "rates": rates(),
        "cores": cores(measured),
        "journal": journal(measured),
    }
