"""Changes that nothing outside can tell: they change no row, effect or state that anybody reads, with the reason.

A second change of the same words in a function is told apart by ` (2)`, a third by ` (3)`. A test holds that each is
still made.
"""

from __future__ import annotations

_CORE = "schedbed.scheduler.core"
EQUIVALENT: dict[str, dict[str, str]] = {
    "schedbed.cluster.tracker:Tracker.on_running": {
        "without `seen += 1`": "with nothing left out `_miss` empties `unseen`, as the short way does",
        "`seen += 1` is `seen -= 1`": "with nothing left out `_miss` empties `unseen`, as the short way does",
        "`seen < len(running)` is `seen <= len(running)`": "`_miss` empties `unseen` when nothing is left out",
    },
    "schedbed.scheduler.locality.delay:Delay._scan": {
        "without `continue` (2)": "the job was marked as skipped in this heartbeat, so `pick` answers nothing",
    },
    f"{_CORE}.core:Core.heartbeat": {
        "`ledger.ready_maps > 0` is `ledger.ready_maps >= 0`": "`_offer` asks the same before anything else",
        "`ledger.ready_reduces > 0` is `ledger.ready_reduces >= 0`": "`_offer` asks the same before anything else",
    },
    f"{_CORE}.ledger:Ledger._fault": {
        "`not limits.slots` is `limits.slots`": "`_lack` is asked more often, and finds nothing lacking then",
        "`0` is `1`": "`_lack` is asked more often, and finds nothing lacking then",
    },
    f"{_CORE}.avoidance:Avoidance.strength": {
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
