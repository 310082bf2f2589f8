"""Load tags of the policy CSLA (lakshmi2019), which keep jobs away from nodes they would overload.

A CPU-heavy job avoids nodes with a busy CPU, an IO-heavy one those with a busy disk. A job's tag is computed
from its first finished maps, a node's from its load, predicted by regression on its heartbeats. A second
admission enforces the other limits: slots, or containers as in the paper's YARN.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any

from schedbed.scheduler.admission.containers import Containers
from schedbed.scheduler.admission.slots import Slots
from schedbed.scheduler.hooks import Kill, Quiet
from schedbed.scheduler.models.csla_tags import UNKNOWN, Errors, TaskSample, predict, tag, words
from schedbed.scheduler.view import AttemptView, JobView, NodeView, View
from schedbed.tasks.specs import NodeId, TaskKind

FAR = "its data is on other nodes"


class LoadTags:
    """The admission axis of the policy CSLA: refuses a job on a node if their tags conflict.

    All shares are from 0 to 1. `room`: the name of a second admission (slots or containers), which checks
    whether a task fits on the node. `sample_maps`: number of finished maps from which a job's tag is
    computed. `cpu_share`: share of a core above which a job is CPU-heavy. `io_share`: share of the node's
    disk rate above which a job is IO-heavy (the paper's limit of 5 MB/s is 0.05 for a disk of 100 MB/s).
    `busy_share`: share of a node's CPU or disk above which the node is busy. `window`: number of heartbeats
    from which a node's load is predicted. `host_disk`: if true, the disk load of a node that uses a shared
    disk is the sum over all nodes on that disk, as `iostat` shows for the disk of a virtual machine. If
    false, it is the load that the node itself causes. `local_data`: if true, a job with input is also refused
    on nodes that hold none of its unstarted maps' data, as in the listing of Algorithm 1.
    """

    quiet = Quiet(counts=True)  # It reads the use of resources in heartbeats, but no progress.

    def __init__(
        self,
        *,
        room: str = "slots",
        sample_maps: int = 3,
        cpu_share: float = 0.5,
        io_share: float = 0.05,
        busy_share: float = 0.5,
        window: int = 10,
        host_disk: bool = True,
        local_data: bool = True,
    ) -> None:
        self._beneath = Slots() if room == "slots" else Containers()
        self.limits = self._beneath.limits
        self._sample_maps = sample_maps
        self._cpu_share, self._io_share, self._busy_share = cpu_share, io_share, busy_share
        self._host_disk = host_disk
        self._local_data = local_data
        self._cpu, self._io = LoadSeries(window), LoadSeries(window)
        self._samples: dict[str, TaskSample] = {}
        self._tags: dict[str, int] = {}  # By job, for jobs whose sample is complete.
        # The first job that was refused only because of its tag or its data in the current offer.
        self.skipped: JobView | None = None
        self.lenient = False  # If true, tags and data refuse no job.

    # Tags

    def job_tag(self, job: JobView) -> int:
        """Return the job's CPU-heavy and IO-heavy bits, UNKNOWN until enough maps have ended."""
        return self._tags.get(job.job, UNKNOWN)

    def node_tag(self, node: NodeView) -> int:
        """Return the bits of a CPU and disk predicted to be busy, 0 before the first heartbeat."""
        cpu, io = self._cpu.next(node.node) or 0.0, self._io.next(node.node) or 0.0
        return tag(cpu > self._busy_share, io > self._busy_share)

    def beat(self, view: View, node: NodeView) -> None:
        """Implement `Hooks.beat`: record the node's use of CPU and disk."""
        self._cpu.see(node.node, node.usage.cpu_util)
        self._io.see(node.node, self._disk_use(view, node))

    def _disk_use(self, view: View, node: NodeView) -> float:
        own, disk = node.usage.disk_util, node.spec.shared_disk
        if not (self._host_disk and disk and own):
            return own
        nodes = view.nodes.values()
        return min(
            1.0, sum(each.usage.disk_util for each in nodes if each.alive and each.spec.shared_disk == disk)
        )

    def ended(self, view: View, attempt: AttemptView) -> None:
        """Implement `Hooks.ended`: add a succeeded map to the sample from which the job's tag is computed."""
        task, name = attempt.task, attempt.task.job.job
        if task.kind is not TaskKind.MAP or attempt.state != "succeeded" or name in self._tags:
            return
        if attempt.started_s is None or not task.job.active:
            return
        sample = self._samples.setdefault(name, TaskSample())
        counters, spec = attempt.counters, attempt.node.spec
        disk_s = counters.moved_bytes / spec.disk_bps
        sample.add(counters.cpu_s / spec.core_speed, disk_s, attempt.end_s - attempt.started_s)
        if sample.tasks >= min(self._sample_maps, task.job.maps.total):
            self._tags[name] = sample.tag(self._cpu_share, self._io_share)

    def finished(self, view: View, job: JobView) -> None:
        """Implement `Hooks.finished`: remove the job's tag and sample."""
        self._samples.pop(job.job, None)
        self._tags.pop(job.job, None)
        if self.skipped is job:
            self.skipped = None

    # Room

    def room(self, node: NodeView, kind: TaskKind) -> bool:
        """Implement `Admission.room` by the wrapped admission."""
        return self._beneath.room(node, kind)

    def refuses(self, node: NodeView, job: JobView, kind: TaskKind) -> str | None:
        """Implement `Admission.refuses`: by the wrapped admission, for missing data, or for tags that conflict.

        Tags do if a CPU-heavy job meets a busy CPU, or an IO-heavy one a busy disk. `lenient` ignores data and tags.
        """
        refusal = self._beneath.refuses(node, job, kind)
        if refusal is not None or self.lenient:
            return refusal
        if kind is TaskKind.MAP and self._local_data and _has_data_elsewhere(node, job):
            refusal = FAR
        else:
            refusal = self._conflict(node, job)
        if refusal is not None and self.skipped is None:
            self.skipped = job
        return refusal

    def _conflict(self, node: NodeView, job: JobView) -> str | None:
        wanted = self.job_tag(job)
        if wanted <= 0:
            return None
        there = self.node_tag(node)
        return f"job tag {words(wanted)} on node tag {words(there)}" if wanted & there else None

    def preempt(self, view: View) -> Sequence[Kill]:
        """Implement `Hooks.preempt` by the wrapped admission; slots never kill tasks."""
        return self._beneath.preempt(view) if isinstance(self._beneath, Containers) else ()

    def note(self, view: View, node: NodeView, job: JobView, kind: TaskKind) -> str:
        """Return both tags, to append to the reason of a launch."""
        return f"job tag {words(self.job_tag(job))}, node tag {words(self.node_tag(node))}"

    def report(self) -> dict[str, Any]:
        """Return the errors of predicted CPU and disk loads for summary.json, as in Table 3 of the paper."""
        series = {"cpu": self._cpu, "io": self._io}
        return {"predictor": {name: loads.errors().to_json() for name, loads in series.items()}}


def _has_data_elsewhere(node: NodeView, job: JobView) -> bool:
    """Return whether all unstarted maps of the job have input, and none of them on the node."""
    if job.local_map(node.node) is not None or job.free_map() is not None:
        return False
    return job.any_map() is not None


# The predicted loads of nodes for the policy CSLA, one for each heartbeat of each node.
#
# Most predictions are only compared with the value that came, for the table of errors. They are therefore
# computed many at once, with the same operations in the same order as in
# `scheduler.models.csla_tags.predict`.

_AT_ONCE = 20_000
"""The number of values whose predictions are computed at once."""


class LoadSeries:
    """The loads (shares from 0 to 1) of all nodes for one resource, as reported with heartbeats.

    A node's next load is predicted from its last `window` loads.
    """

    def __init__(self, window: int) -> None:
        self._window = window
        self._errors = Errors()
        self._recent: dict[NodeId, deque[float]] = {}  # The last loads.
        self._before: dict[NodeId, list[float]] = {}  # The last loads without those in `_values`.
        self._nodes: list[NodeId] = []  # The node of each load in `_values`.
        self._values: list[float] = []  # Loads that are not compared with their predictions yet.

    def see(self, node: NodeId, load: float) -> None:
        """Add the node's present load."""
        recent = self._recent.get(node)
        if recent is None:
            recent = self._recent[node] = deque(maxlen=self._window)
        recent.append(load)
        self._nodes.append(node)
        self._values.append(load)
        if len(self._values) >= _AT_ONCE:
            self._compare()

    def next(self, node: NodeId) -> float | None:
        """Return the predicted next load, or None before the first load."""
        recent = self._recent.get(node)
        return None if recent is None else predict(recent)

    def errors(self) -> Errors:
        self._compare()
        return self._errors

    def _compare(self) -> None:
        """Add the errors of the predictions of `_values`, in the order in which the values came."""
        import numpy as np

        of_node: dict[NodeId, list[int]] = {}
        for number, node in enumerate(self._nodes):
            of_node.setdefault(node, []).append(number)
        loads: list[float] = []
        places = np.empty(len(self._values), dtype=np.int64)  # Of each value in `loads`.
        begins = np.empty(len(self._values), dtype=np.int64)  # Place of the first known load of its node.
        for node, numbers in of_node.items():
            begin = len(loads)
            loads += self._before.get(node, [])
            places[numbers] = np.arange(len(loads), len(loads) + len(numbers))
            begins[numbers] = begin
            loads += [self._values[number] for number in numbers]
            self._before[node] = list(self._recent[node])
        series = np.array(loads)
        known = np.minimum(self._window, places - begins)
        said = _predictions(series, places, known, self._window)
        last = series[np.maximum(places - 1, 0)]
        told = known > 0
        came = np.array(self._values)[told].tolist()
        self._errors.add_all(zip(said[told].tolist(), came, last[told].tolist(), strict=True))
        self._nodes, self._values = [], []


def _predictions(series: Any, places: Any, known: Any, window: int) -> Any:
    """Return `predict` at each of `places`, from the `known` values before it (without meaning if none)."""
    import numpy as np

    sum_x = np.zeros(len(places))
    sum_y, sum_xx, sum_xy = sum_x.copy(), sum_x.copy(), sum_x.copy()
    for step in range(window - 1):
        at = np.minimum(places - known + step, len(series) - 2)
        counts = step < known - 1
        x, y = np.where(counts, series[at], 0.0), np.where(counts, series[at + 1], 0.0)
        sum_x += x
        sum_y += y
        sum_xx += x * x
        sum_xy += x * y
    last = series[np.maximum(places - 1, 0)]
    count = known - 1
    denominator = count * sum_xx - sum_x * sum_x
    fits = (count >= 2) & (denominator > 1e-12)
    divisor = np.where(fits, denominator, 1.0)
    slope = (count * sum_xy - sum_x * sum_y) / divisor
    intercept = (sum_y * sum_xx - sum_x * sum_xy) / divisor
    return np.where(fits, np.minimum(1.0, np.maximum(0.0, intercept + slope * last)), last)
