"""The policy CSLA (paper lakshmi2019, Algorithm 1): tasks avoid nodes that will lack the resources they use
most (CPU, I/O). A tag of each job and node marks these resources.

The listing also asks that the node has data of the job (`local_data`); the text of section III asks for no data. A
rule prevents starvation. If tags and data alone keep all tasks from an offered slot, the slot stays free. The next
time that this happens, a task of the first refused job starts despite them, where the listing would wait
for ever if no node with the data takes the job. Jobs without input have data nowhere and start everywhere. Offers for
maps and for reduces alternate separately, since the slots are separate.
"""

from __future__ import annotations

from dataclasses import replace

from schedbed.scheduler.admission.load import LoadTags
from schedbed.scheduler.hooks import Proposal
from schedbed.scheduler.policies.explained import Explained
from schedbed.scheduler.policy import Locality, Order
from schedbed.scheduler.registry.declarations import Axis, Named
from schedbed.scheduler.registry.parameters import at_least_one, choice, number, share, switch
from schedbed.scheduler.view import NodeView, View
from schedbed.tasks.specs import TaskKind


class LoadAware(Explained):
    """A composed policy whose admission, `LoadTags`, compares the tags of jobs and nodes, which mark CPU and
    I/O load.

    Any order and locality can be used; the paper uses Capacity and greedy.
    """

    def __init__(self, order: Order, locality: Locality, admission: LoadTags) -> None:
        super().__init__(order, locality, admission)
        self._tags = admission
        # Whether the last offer that only tags or data refused was left unanswered.
        self._passed = dict.fromkeys(TaskKind, False)

    def decide(self, view: View, node: NodeView, kind: TaskKind) -> Proposal | None:
        """Implement `Policy.decide`. Every second time that only tags or data keep a slot free, they are ignored."""
        tags = self._tags
        tags.skipped = None
        proposal = super().decide(view, node, kind)
        if proposal is not None or tags.skipped is None:
            return proposal
        if not self._passed[kind]:
            self._passed[kind] = True
            return None
        tags.lenient = True
        answer = self._offer(view, node, tags.skipped, kind)
        tags.lenient = False
        if not isinstance(answer, Proposal):
            return None
        self._passed[kind] = False
        return self.noted(view, node, replace(answer, reason=f"{answer.reason}, its turn after a skip"))


AXIS = Axis(
    axis="admission",
    name="load",
    factory=LoadTags,
    summary="tasks that use much CPU or disk avoid nodes whose CPU or disk is predicted to be busy",
    paper="lakshmi2019",
    parameters=(
        choice(
            "room",
            ("slots", "containers"),
            "what must also be free on a node: a slot (slots), or the task's memory and vcores (containers)",
        ),
        number(
            "sample_maps",
            "3",
            "",
            "number of a job's first ended maps from which its CPU and disk use is measured",
            at_least_one,
        ),
        number(
            "cpu_share",
            "0.5",
            "",
            "share of a core above which the CPU use of a job's maps counts as heavy: 0.5 is half a core",
            share,
        ),
        number(
            "io_share",
            "0.05",
            "",
            "share of the node's disk rate above which the disk use of a job's maps counts as heavy: "
            "0.05 is 5 MB/s of 100 MB/s",
            share,
        ),
        number(
            "busy_share",
            "0.5",
            "",
            "predicted use of a node's CPU or disk above which it counts as busy: 0.5 is "
            "half of its capacity",
            share,
        ),
        number(
            "window",
            "10",
            "heartbeats",
            "number of a node's last heartbeats from which its load is predicted",
            at_least_one,
        ),
        number(
            "host_disk",
            "true",
            "",
            "whether a node counts as busy when other nodes use a disk that it shares, instead of "
            "only by its own use",
            switch,
        ),
        number(
            "local_data",
            "true",
            "",
            "whether a map starts only on nodes that hold its input, as Algorithm 1 prints (true), or "
            "anywhere, as Capacity does and the text says for jobs without a tag (false)",
            switch,
        ),
    ),
    compose=LoadAware,
    rank=20,
)
POLICY = Named(
    name="csla",
    summary="Like capacity, but tasks avoid nodes that will lack the resource that the tasks use "
    "most, CPU or disk.",
    paper="lakshmi2019, Algorithm 1",
    order="capacity",
    admission="load",
    rank=60,
)
