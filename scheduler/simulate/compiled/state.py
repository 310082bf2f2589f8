"""All that the compiled loop knows, as arrays: records of nodes, jobs, stages, tasks, costs and pools, and queues.

What attempts need that contend is in `flow_records`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

NODE = np.dtype(
    [
        ("number_0", "f8"),  # `base_s`, as in `nodes.SimNode`, all in seconds
        ("grid", "f8"),
        ("event", "f8"),
        ("timer", "f8"),
        ("latency", "f8"),  # from the service of a heartbeat to an attempt's first line
        ("speed", "f8"),
        ("disk", "f8"),
        ("network", "f8"),
        ("cpu_rate", "f8"),
        ("asked", "f8"),  # used since then:
        ("cpu_s", "f8"),
        ("disk_bytes", "f8"),
        ("free_maps", "i4"),  # of the core
        ("free_reduces", "i4"),
        ("running", "i4"),  # attempts, as the driver counts them
        ("reduces", "i4"),
        ("runs", "i4"),  # attempts on it
        ("finished", "i4"),  # that no heartbeat has carried yet
        ("feeds", "i4"),  # what the core tells its reduces of
        ("reducing", "i4"),  # jobs whose reduces run there, as the driver counts them
        ("board", "i4"),  # the first of its boards
        ("timers", "i8"),
        ("rank", "i4"),  # its place in the order of timers
        ("rack", "i4"),
        ("in_maps", "i1"),  # in the ring of nodes with a free map slot
        ("in_reduces", "i1"),
    ],
    align=True,
)
JOB = np.dtype(
    [
        ("first", "i8"),  # its first task; maps, then reduces
        ("maps", "i8"),
        ("reduces", "i8"),
        ("pool", "i4"),
        ("priority", "i4"),
        ("weight", "f8"),
        ("submit", "f8"),
        ("start", "f8"),
        ("finish", "f8"),
        ("output_bytes", "i8"),
        ("ended", "i1"),
        ("started", "i1"),
        ("wrote", "i1"),  # files
        ("free_cursor", "i8"),
        ("hosts_at", "i8"),  # its part of `near`: maps by host
        ("hosts_end", "i8"),
        ("racks_at", "i8"),
        ("racks_end", "i8"),
        ("chain", "i4"),  # of the nodes of its reduces; -1 when there are none
        ("wait", "f8"),  # its patience, under delay
        ("room", "f8"),  # of a reduce, for what it has fetched, in bytes
        ("skipped", "f8"),
        ("skipped_beat", "i8"),
        ("level", "i4"),
    ],
    align=True,
)
STAGE = np.dtype(
    [
        ("total", "i8"),
        ("unstarted", "i8"),
        ("running", "i8"),
        ("done", "i8"),
        ("cursor", "i8"),
        ("ratio", "f8"),  # as it stands in its pool
        ("place", "i4"),  # there; -1 when it is not in
        ("open", "i1"),
        ("ready", "i1"),
        ("dirty", "i1"),
    ],
    align=True,
)
TASK = np.dtype(
    [
        ("job", "i4"),
        ("cost", "i4"),
        ("hosts_at", "i8"),  # its part of `host`
        ("hosts_end", "i8"),
        ("holders_at", "i8"),  # its part of `holder`
        ("holders_end", "i8"),
        ("local_bytes", "i8"),
        ("remote_bytes", "i8"),
        ("shuffle_bytes", "i8"),
        ("spill_bytes", "i8"),
        ("assigned", "f8"),
        ("start", "f8"),
        ("end", "f8"),
        ("work", "f8"),
        ("since", "f8"),
        ("shuffle_end", "f8"),
        ("sort_end", "f8"),
        ("node", "i4"),  # -1 while it is unstarted
        ("is_map", "i1"),
        ("reads_block", "i1"),
        ("waits", "i1"),
        ("locality", "i1"),
    ],
    align=True,
)
COST = np.dtype(
    [
        ("cpu", "f8"),
        ("sort_cpu", "f8"),
        ("duration", "f8"),  # NaN: none
        ("read", "i8"),
        ("output", "i8"),
        ("spill", "i8"),
        ("peak", "i8"),
        ("merges", "i1"),
    ],
    align=True,
)
POOL = np.dtype(
    [
        ("weight", "f8"),
        ("min_share", "f8"),
        ("fifo", "i1"),
        ("name", "i4"),  # its place among the names
        ("at", "i8"),  # its part of `pool_jobs`, and of both halves of `ready`
        ("end", "i8"),
        ("oldest", "i8"),  # nothing before this in its part is still there
    ],
    align=True,
)
POOL_STAGE = np.dtype(
    [("running", "i8"), ("ready", "i8"), ("place", "i4"), ("tier", "i4"), ("ratio", "f8"), ("submit", "f8")],
    align=True,
)
NEAR = np.dtype([("where", "i4"), ("cursor", "i8"), ("end", "i8")], align=True)
FEED = np.dtype([("job", "i4"), ("reduces", "i4"), ("cursor", "i8"), ("all_done", "i1")], align=True)
CHAIN = np.dtype([("at", "f8"), ("until", "f8"), ("node", "i4"), ("members", "i4")], align=True)
BOARD = np.dtype([("job", "i4"), ("next", "i4"), ("heard", "i8"), ("all_done", "i1")], align=True)
REPLY = np.dtype([("node", "i4"), ("first", "i8"), ("count", "i8")], align=True)
NEWS = np.dtype([("job", "i4"), ("all_done", "i1"), ("since", "i8"), ("until", "i8")], align=True)
"""Map outputs of a job, by their place in `outputs`."""
DECISION = np.dtype(
    [
        ("t", "f8"),
        ("value", "f8"),
        ("node", "i4"),
        ("job", "i4"),
        ("task", "i8"),
        ("kind", "i1"),
        ("reason", "i1"),
    ],
    align=True,
)
FILE = np.dtype([("t", "f8"), ("number", "i4"), ("step", "i1")], align=True)
WRITTEN, IN_PLACE, JOB_OVER = range(3)
"""Steps of files: an attempt's (by task), and the end of a job."""
BEAT = np.dtype(
    [
        ("t", "f8"),
        ("node", "i4"),
        ("maps", "i4"),
        ("reduces", "i4"),
        ("cpu", "f8"),
        ("disk", "f8"),
        ("net", "f8"),
        ("memory", "i8"),
    ],
    align=True,
)

# Places in `sec`.
(
    NOW,
    PASSED_AT,
    DUE,
    TICK,
    INTERVAL,
    REQUEST,
    REPLIED,
    COMMITTED,
    NODE_WAIT,
    RACK_WAIT,
    SLOWSTART,
    PASSING,
    AGENDA_S,  # the time of attempts that contend
    CORE_SHARE,
) = range(14)
SECONDS = 14

# Places in `num`.
(
    PASSED,  # nodes whose timers of this very time have had their turn
    EVENTS,  # in the heap
    ENDS,  # in the heap
    SERIAL,  # of attempts' ends
    COMMITS,
    REPLIES,  # that were sent
    REPLIES_DONE,  # of them, that have arrived
    REPLY_ITEMS,
    ITEMS_DONE,
    BOARDS,
    NEXT_JOB,
    JOBS,
    ACTIVE_JOBS,
    LIVE,  # attempts
    READY_MAPS,
    READY_REDUCES,
    SAW_MAPS,
    SAW_REDUCES,
    BEATS,
    SKIPPED,
    DIRTY,
    POOLS_MAPS,  # with a ready job
    POOLS_REDUCES,
    IS_FAIR,
    IS_DELAY,
    WRITES_BEATS,
    WRITES_SKIPS,
    REPLICATION,
    CHAINS,  # of jobs, in use
    ENDED,
    LAUNCHED,  # in this heartbeat
    REPORTED,
    N_DECISIONS,
    N_BEATS,
    N_ATTEMPTS,
    N_JOBS,
    N_FILES,
    WAITING_CHAINS,
    IS_FLUID,  # attempts contend; what follows is for that
    HAS_UPLINKS,
    BLOCK_BYTES,  # of output files, 0 for one block each
    STAMP,
    ITEM_SERIAL,
    AGENDA,  # entries
    FREE_ITEMS,
    FREE_WORK,
    FREE_BASKETS,
    TOUCHED,  # resources whose flows have changed
    TOLD,
    WANTS,  # 1 + whose output needs a block
    WANTS_BYTES,
    TARGETS,  # nodes that it goes to
    ROOM,  # items that one step may add
    DOING,  # what was interrupted
    AT_REPLY,  # and where, in a reply
    AT_ITEM,
    AT_RUN,
) = range(57)
NUMBERS = 57

JOIN_EVENT, DUE_EVENT, COMMIT_EVENT, REPLY_EVENT, BEAT_EVENT, TIMER_EVENT, TICK_EVENT = range(7)
SHIFT = 40
ALL = (1 << SHIFT) - 1

# Reasons of decisions.
(
    NODE_LOCAL,
    RACK_LOCAL,
    OFF_RACK,
    NO_PREFERENCE,
    REDUCE_REASON,
    RACK_AFTER,
    RACK_BEFORE,
    OFF_AFTER,
    OFF_BEFORE,
    WAITS_LOCAL,
    WAITS_RACK,
) = range(11)


class State(NamedTuple):
    """The arrays; see the records above. `stages` are two a job and `pool_stages` two a pool: maps, reduces."""

    sec: Any
    num: Any
    nodes: Any
    jobs: Any
    stages: Any
    tasks: Any
    costs: Any
    pools: Any
    pool_stages: Any
    pool_jobs: Any  # by pool, oldest first
    ready: Any  # the ready jobs of each pool, in order; maps, then reduces
    order: Any  # the pools with ready jobs, in order; maps, then reduces
    dirty: Any  # stages that have changed since the policy was last asked
    skipped: Any  # jobs that were, in the last heartbeat
    host: Any  # nodes with the input of each map; -1 for one that is not of the cluster
    holder: Any  # likewise, as the NameNode says
    near: Any  # maps by job and host, then by job and rack
    near_task: Any
    event_s: Any  # the driver's heap
    event_code: Any
    end_s: Any  # the heap of attempts' ends
    end_code: Any
    commits: Any  # tasks by serial
    replies: Any
    reply_items: Any
    boards: Any
    runs: Any  # of each node, in order of their launch; places in `work` of those that contend
    finished: Any
    launched: Any
    feeds: Any
    reducing: Any
    ring_s: Any  # when each node's timer goes within an interval, sorted
    ring_node: Any
    bits: Any  # members of rings, by rank: everyone, free map slots, free reduce slots, then of jobs' reduces
    chains: Any  # of free map slots, free reduce slots, then of jobs' reduces
    chain_free: Any  # those that are not in use
    waiting: Any  # chains that go on with a timer
    decision_rows: Any
    beat_rows: Any
    attempt_rows: Any
    job_rows: Any
    file_rows: Any
    hosts: Any  # what follows is for attempts that contend
    resources: Any
    flows: Any
    way: Any  # the resources that each flow passes
    before: Any  # of flows of a resource, by flow and place in its way
    after: Any
    item_free: Any  # flows that are not in use
    agenda_s: Any  # the heap of items
    agenda_code: Any
    touched: Any
    found: Any  # flows, while rates are found
    in_order: Any
    spare: Any
    links: Any
    far: Any
    work: Any  # attempts
    work_flows: Any  # of their phase
    work_free: Any
    pending_node: Any  # sources of map outputs that a reduce has still to fetch, their number and bytes
    pending_count: Any
    pending_bytes: Any
    basket_free: Any
    outputs: Any  # maps that have ended, in that order; of each job where its tasks begin
    told: Any  # tasks that have ended
    targets: Any  # nodes for a block of output


def records(count: int, kind: np.dtype[Any]) -> Any:
    """Zeros, at least one."""
    return np.zeros(max(1, count), kind).view(np.recarray)
