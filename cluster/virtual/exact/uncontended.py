"""The state of attempts and nodes in the simulation without contention."""

from __future__ import annotations

import math

from schedbed.cluster.spec import NodeSpec
from schedbed.cluster.virtual.boards import AnnouncedOutputs
from schedbed.cluster.virtual.node_model import AttemptPlan
from schedbed.tasks.specs import Counters


class ExactRun:
    """An attempt in the simulation without contention. The attempt ends at the time `due_s`.

    At the time `since_s`, the attempt still had `left_s` seconds of work, measured at the node's declared
    speed. An attempt that is planned to fail never does the last `beyond_s` seconds of its work; `left_s`
    does not include them.
    """

    __slots__ = (
        "beyond_s",
        "consumed",
        "counters",
        "cpu",
        "disk_bps",
        "due_s",
        "failure",
        "left_s",
        "node",
        "peak_bytes",
        "plan",
        "since_s",
        "started_s",
        "tries",
        "waits",
        "work_s",
    )

    def __init__(self, plan: AttemptPlan, node: ExactNode, now_s: float) -> None:
        self.plan = plan
        self.peak_bytes = plan.cost.memory_peak_bytes
        self.node = node
        self.started_s = self.since_s = now_s + plan.start_s
        self.due_s = math.inf
        self.work_s = self.left_s = self.beyond_s = 0.0
        self.failure = ""
        self.waits = False  # True for a reduce that waits for map outputs.
        self.tries = 0  # Number of failed fetches.
        self.counters: Counters | None = None
        self.cpu = self.disk_bps = 0.0  # Average rates, once the work is known.
        self.consumed: dict[int, str] | None = None

    def done(self, now_s: float) -> float:
        """Return the share of the attempt's work that is done at `now_s`, from 0 to 1."""
        left_s = self.left_s - max(0.0, now_s - self.since_s) * self.node.speed
        return share_done(self.work_s, left_s + self.beyond_s)


def share_done(work_s: float, left_s: float) -> float:
    """Return the share of an attempt's work that is done, from 0 to 1, if `left_s` of `work_s` seconds are left."""
    return min(1.0, max(0.0, 1.0 - left_s / work_s)) if work_s else 0.0


class ExactNode:
    """A node in one incarnation (life). `speed` is its current CPU speed as a share of its declared speed."""

    __slots__ = ("asked_s", "boards", "cpu_s", "disk_bytes", "full", "outputs", "runs", "spec", "speed")

    def __init__(self, spec: NodeSpec, now_s: float) -> None:
        self.spec = spec
        self.asked_s = now_s  # Time of the last call of `usage`.
        self.cpu_s = self.disk_bytes = 0.0
        self.speed = 1.0
        self.full = False  # True if a fault has filled the disk.
        self.runs: dict[str, ExactRun] = {}
        self.boards: dict[str, AnnouncedOutputs] = {}
        self.outputs: dict[str, list[str]] = {}  # Map attempts with outputs, by job.

    def count(self, now_s: float, run: ExactRun) -> None:
        """Add the CPU time and disk bytes of the attempt `run` to the totals of the node.

        Only the work between the last call of `usage` and `now_s` is added.
        """
        worked_s = (now_s - max(run.since_s, self.asked_s)) * self.speed
        if worked_s > 0.0:
            self.cpu_s += run.cpu * worked_s
            self.disk_bytes += run.disk_bps * worked_s
