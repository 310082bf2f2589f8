"""Equivalent mutants, each with the reason: edits that change no row, effect or state.

The second edit of a function with the same description is labeled ` (2)`, the third ` (3)`. A test checks
that every listed edit is still generated.
"""

from __future__ import annotations

_CORE = "schedbed.scheduler.core"
EQUIVALENT: dict[str, dict[str, str]] = {
    "schedbed.cluster.tracker:Tracker.on_running": {
        "without `seen += 1`": "with nothing left out `_miss` empties `unseen`, as the short way does",
        "`seen += 1` is `seen -= 1`": "with nothing left out `_miss` empties `unseen`, as the short way does",
        "`seen < len(running)` is `seen <= len(running)`": "`_miss` empties `unseen` when nothing is left out",
    },
    f"{_CORE}.core:Core.heartbeat": {
        "`ledger.ready_maps > 0` is `ledger.ready_maps >= 0`": "`_offer` asks the same before anything else",
        "`ledger.ready_reduces > 0` is `ledger.ready_reduces >= 0`": "`_offer` asks the same before anything else",
    },
    f"{_CORE}.ledger:Ledger._fault": {
        "`not limits.slots` is `limits.slots`": "`_lack` is asked more often, and finds nothing lacking then",
        "`0` is `1`": "`_lack` is asked more often, and finds nothing lacking then",
    },
    f"{_CORE}.ledger:Ledger.why_not": {
        "without `self._possible = proposal if fault is None else None`": "`launch` asks once more",
    },
    f"{_CORE}.ledger:Ledger._lose_outputs": {
        "`output.node == node.node and (not output.lost)` is `output.node == node.node or not output.lost`": (
            "the winner is asked whether it ran there, and what is lost has none"
        ),
    },
    f"{_CORE}.ledger:Ledger.remove_node": {
        "`node.node in job.nodes and job.reduces.total` is `node.node in job.nodes or job.reduces.total`": (
            "a job that was never there, or has no reduces, has no outputs there"
        ),
    },
    f"{_CORE}.core:Core._expire": {
        "without `self._heard_s = min(heard_s, default=latest_s)`": "nodes are looked at more often",
    },
    f"{_CORE}.core:Core._take_statuses": {
        "`len(node.attempts) - len(heartbeat.running)` is `len(node.attempts) + len(heartbeat.running)`": (
            "`_miss_attempts` is asked more often, and looks at each"
        ),
    },
    f"{_CORE}.ledger:JobTables.split_task": {
        "without `self._changed(stage)`": "`launch`, which alone splits, tells of the change itself",
    },
    "schedbed.scheduler.order.sorted_keys:SortedKeys.put": {
        "without `return`": "with the key that it had it goes out and comes in at the same place",
    },
    "schedbed.scheduler.order.preemption:fair_shares": {
        "`sum((claim.demand for claim in claims)) <= capacity` is `sum((claim.demand for claim in claims)) < "
        "capacity`": "when there is just enough the level reaches each demand",
    },
    "schedbed.scheduler.admission.slots:Slots.room": {
        "`node.free_slots(kind) > 0` is `node.free_slots(kind) >= 0`": "the core offers a free slot only",
    },
    f"{_CORE}.entities:Avoidance.strength": {
        "`3` is `4`": "strengths are compared with each other and with 0 only, and this one is the greatest",
        "`0` is `1` (2)": "a node in `excluded` has failed, so that its count is there",
    },
    f"{_CORE}.entities:Attempt.__init__": {
        "`1` is `2`": "`killed` is read of an attempt that is being killed only, and `kill` sets it",
    },
    f"{_CORE}.entities:Node.__init__": {
        "`1` is `2`": "sequences begin at 1, and before the first one nothing is launched",
    },
    f"{_CORE}.entities:Job.release": {
        "without `task.winner = None`": "the tasks are let go of; this only breaks a circle for the collector",
    },
    f"{_CORE}.index:TaskIndex.add": {
        "without `return`": "a task without hosts has no racks, so that nothing more is added",
    },
    "schedbed.cluster.blocks.blockmap:BlockMap.remove_replica": {
        "`True` is `False`": "no caller looks at the answer",
        "`False` is `True`": "no caller looks at the answer",
    },
    "schedbed.cluster.blocks.replication:Replication._plan": {
        "without `return`": "no block is filed as wanting more, so that there is none to go through",
    },
    "schedbed.scheduler.admission.containers:Containers.__init__": {
        "`0.0` is `1.0`": "`room` sets it for the node before anything is refused there",
    },
}
