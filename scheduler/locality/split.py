"""Dynamic task splitting (DTSS): a job without local data on a node starts a part of a map on that node.

The rest waits for a node with the data. Algorithm 1 of xu2015, with the two waiting times of delay
scheduling. Two parameters are future work there (chapter 6): `p=auto` learns the best size of the part, and
with `keep_copy` the node also fetches the rest of the block, so that later readers find a local replica.
"""

from __future__ import annotations

from schedbed.scheduler.hooks import Keeping, Proposal, Quiet
from schedbed.scheduler.locality.delay import Delay, Patience, count_slots
from schedbed.scheduler.models.dtss import best_share, gain_s
from schedbed.scheduler.registry.declarations import Axis, Named
from schedbed.scheduler.registry.parameters import duration, maybe_share, number, share, switch
from schedbed.scheduler.view import AttemptView, JobView, NodeView, TaskView, View
from schedbed.tasks.parts import cut
from schedbed.tasks.specs import TaskKind

FIRST_SHARE = 0.25
"""The share for `p=auto` before any measurement: the best setting in the paper."""
NEWEST = 0.2  # The weight of the newest value in a running mean.


class Known:
    """Running means of times measured for all jobs with the same name. A mean is None before the first value.

    `local_s` and `remote_s`: seconds per input byte of maps with local and with remote input. `delay_s`:
    seconds that a map with local input, or the remaining part of a split map, waits until it starts.
    """

    __slots__ = ("delay_s", "local_s", "remote_s")

    def __init__(self) -> None:
        self.local_s: float | None = None  # Seconds per byte on a node with the input.
        self.remote_s: float | None = None  # Seconds per byte on other nodes.
        self.delay_s: float | None = None  # Until a remaining part or a local map started.


class SplitLocality(Delay):
    """A locality axis like `Delay`, but a job without local data on the node starts a part of a map.

    `share` (P in the paper): size of this part as a share of the map's bytes, from 0 to 1, or None to learn
    the best size. With 0 this is delay scheduling; with 1 whole maps start at once. `keep_copy`: whether to
    keep fetched blocks as replicas. `copy_budget`: maximum size of these replicas, as a share of the size of
    all inputs with their replicas.
    """

    def __init__(
        self,
        *,
        share: float | None = FIRST_SHARE,
        node_wait_s: float = 5.0,
        rack_wait_s: float = 5.0,
        keep_copy: bool = False,
        copy_budget: float = 0.2,
    ) -> None:
        super().__init__(node_wait_s=node_wait_s, rack_wait_s=rack_wait_s)
        self.keeping = Keeping(1.0, copy_budget) if keep_copy else None
        self._share = share
        self._known: dict[str, Known] = {}  # By job name.
        self._launch_s: float | None = None  # From an attempt's assignment to its first line of code.
        self._rests: dict[str, dict[int, float]] = {}  # By job and map index: time of the split.

    @property
    def quiet(self) -> Quiet:
        """Implement `Hooks.quiet` as `Delay`."""
        return super().quiet

    def finished(self, view: View, job: JobView) -> None:
        """Implement `Hooks.finished`."""
        super().finished(view, job)
        self._rests.pop(job.job, None)

    def ended(self, view: View, attempt: AttemptView) -> None:
        """Implement `Hooks.ended`: if the share is learned, use a succeeded attempt to update the means."""
        task, started_s = attempt.task, attempt.started_s
        if self._share is not None or started_s is None or attempt.state != "succeeded":
            return
        self._launch_s = _mean(self._launch_s, max(0.0, started_s - attempt.assigned_s))
        length = task.split.length
        if task.kind is TaskKind.MAP and length:
            known, took_s = self._knows(task.job), (attempt.end_s - started_s) / length
            if attempt.locality == "node":
                known.local_s = _mean(known.local_s, took_s)
            else:
                known.remote_s = _mean(known.remote_s, took_s)

    def pick(self, view: View, node: NodeView, job: JobView) -> Proposal | str | None:
        """Implement `Locality.pick` as `Delay` does, and measure the wait if the share is learned."""
        if self._share is not None:
            return super().pick(view, node, job)
        patience = self._patience.get(job.job)
        waited_s = patience.wait_s if patience is not None else 0.0
        answer = super().pick(view, node, job)
        if isinstance(answer, Proposal) and answer.split is None:
            self._started(view, node, answer.task, waited_s)
        return answer

    def _started(self, view: View, node: NodeView, task: TaskView, waited_s: float) -> None:
        """Update the mean wait of this name's maps: `waited_s` of a local map, or since the split of a rest."""
        known, part = self._knows(task.job), task.part
        if part is None:
            if waited_s and node.node in task.hosts:
                known.delay_s = _mean(known.delay_s, waited_s)
            return
        split_s = self._rests.get(task.job.job, {}).pop(part.whole.index, None)
        if split_s is not None:
            known.delay_s = _mean(known.delay_s, view.now_s - split_s)

    def _wait(self, view: View, node: NodeView, job: JobView, patience: Patience) -> Proposal | str:
        """Start a part of an unstarted map, or skip the job (Algorithm 1, lines 24 to 28)."""
        if self._share == 1.0:
            return self._at_once(job.rack_map(node.rack) or job.any_map(), node, patience, "")
        task = job.whole_map(node.rack) if self._share != 0.0 else None
        if task is None:
            return self._skip(view, patience)
        share, why = (self._share, "") if self._share is not None else self._learnt(task)
        if share == 1.0:
            return self._at_once(task, node, patience, why)
        if cut(task.split, share) is None:
            return self._skip(view, patience) + why
        patience.level = 0
        if self._share is None:
            self._rests.setdefault(job.job, {})[task.index] = view.now_s
        waited = f"has waited {patience.wait_s:.1f}{self._of_wait}"
        kept = ", whose block is copied here" if self.keeping is not None else ""
        reason = (
            f"{_place(node, task)}{kept}, the first {share:.0%} of {task.split.length} bytes, {waited}{why}"
        )
        return Proposal(task, reason, split=share)

    @staticmethod
    def _at_once(task: TaskView | None, node: NodeView, patience: Patience, why: str) -> Proposal | str:
        """Return a proposal for the whole map now, or the reason why nothing starts."""
        if task is None:
            return "no unstarted map"
        patience.level = 0
        return Proposal(task, f"{_place(node, task)} at once{why}")

    def _learnt(self, task: TaskView) -> tuple[float, str]:
        """Return the best share to start at once, by measured times, and an explanation.

        It is 0 if a split would save less time than a launch takes.
        """
        known, length = self._knows(task.job), task.split.length
        if known.local_s is None and known.remote_s is None:
            return FIRST_SHARE, "; nothing is known yet"
        local_s = length * (known.local_s if known.local_s is not None else known.remote_s or 0.0)
        remote_s = length * (known.remote_s if known.remote_s is not None else known.local_s or 0.0)
        delay_s = known.delay_s if known.delay_s is not None else self.node_wait_s
        share, launch_s = best_share(local_s, remote_s, delay_s), self._launch_s or 0.0
        gained_s = gain_s(share, local_s, remote_s, delay_s)
        why = f"; N {local_s:.1f} s, M {remote_s:.1f} s, D {delay_s:.1f} s"
        if gained_s <= launch_s:
            return 0.0, f"{why}: a split gains {gained_s:.1f} s, a launch takes {launch_s:.1f} s"
        return share, why

    def _knows(self, job: JobView) -> Known:
        known = self._known.get(job.spec.name)
        if known is None:
            known = self._known[job.spec.name] = Known()
        return known


def _mean(mean: float | None, value: float) -> float:
    return value if mean is None else mean + NEWEST * (value - mean)


def _place(node: NodeView, task: TaskView) -> str:
    return "rack-local" if node.rack in task.racks else "off-rack"


AXIS = Axis(
    axis="locality",
    name="split",
    factory=SplitLocality,
    summary="a node without the data of a job starts only a part of a map; the rest waits for a node "
    "with the data",
    paper="xu2015, Algorithm 1",
    parameters=(
        maybe_share(
            "p",
            "0.25",
            "share of a map's input that starts at once on a node without the data: 0.25 is "
            "a quarter, auto learns the best share",
        ),
        duration(
            "node_wait",
            "5s",
            "time that a job waits for a node with its data, before it may start whole maps on other "
            "nodes in the data's rack",
        ),
        duration(
            "rack_wait",
            "5s",
            "further time that a job waits, after `node_wait`, before it may start whole maps on any node",
        ),
        number(
            "keep_copy",
            "false",
            "",
            "whether blocks that are fetched from other nodes are kept as additional replicas",
            switch,
        ),
        number(
            "copy_budget",
            "0.2",
            "",
            "largest total size of these additional replicas, as a share of all inputs with their replicas",
            share,
        ),
    ),
    check=count_slots,
    rank=20,
)
POLICY = Named(
    name="dtss",
    summary="Like fair, but a node without the data of a job starts only a part of a map; the rest "
    "waits for a node with the data.",
    paper="xu2015, Algorithm 1",
    order="fair",
    locality="split",
    rank=30,
)
