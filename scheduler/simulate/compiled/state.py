"""The whole state of the compiled loop: single numbers, and tables of the records in `entity_records` and
`flow_records`."""

from __future__ import annotations

from typing import NamedTuple

from schedbed.scheduler.simulate.compiled import entity_records as plain
from schedbed.scheduler.simulate.compiled.arrays import (
    Floats,
    Grid,
    Ints,
    Pair,
    Record,
    Table,
    TableGrid,
    f8,
    i8,
)
from schedbed.scheduler.simulate.compiled.contended import flow_records as fluid


class Seconds(Record):
    """Times and durations of the simulation, in seconds. A time is counted from the start of the run."""

    now: f8
    passed_at: f8
    due: f8
    tick: f8
    interval: f8
    request: f8
    replied: f8
    committed: f8
    node_wait: f8
    rack_wait: f8
    slowstart: f8
    passing: f8
    agenda_s: f8  # the time of attempts that contend
    core_share: f8


class Numbers(Record):
    """Counters, fill levels of the arrays, and settings."""

    passed: i8  # nodes with timers of exactly this time that have fired
    events: i8  # in the heap
    ends: i8  # in the heap
    serial: i8  # of attempts' ends
    commits: i8
    replies: i8  # that were sent
    replies_done: i8  # of them, that have arrived
    reply_items: i8
    items_done: i8
    boards: i8
    next_job: i8
    jobs: i8
    active_jobs: i8
    live: i8  # attempts
    ready: Pair  # jobs with such a task that could start
    saw: Pair  # 1 when some were ready as the timers know it
    beats: i8
    skipped: i8
    dirty: i8
    pools: Pair  # with a ready job
    is_fair: i8
    is_delay: i8
    writes_beats: i8
    writes_skips: i8
    replication: i8
    chains: i8  # of jobs, in use
    ended: i8
    launched: i8  # in this heartbeat
    reported: i8
    n_decisions: i8
    n_beats: i8
    n_attempts: i8
    n_jobs: i8
    n_files: i8
    waiting_chains: i8
    is_fluid: i8  # attempts contend; what follows is for that
    racks: i8
    has_uplinks: i8
    has_downlinks: i8
    has_core: i8
    block_bytes: i8  # of output files, 0 for one block each
    stamp: i8
    solves: i8  # of rates
    cut_short: i8  # solves in which flows beyond the reach kept their rates
    item_serial: i8
    agenda: i8  # entries
    free_items: i8
    free_work: i8
    free_baskets: i8
    touched: i8  # resources with changed flows
    told: i8
    wants: i8  # 1 + the attempt with an output that needs a block
    wants_bytes: i8
    targets: i8  # nodes that it goes to
    room: i8  # items that one step may add
    doing: i8  # the interrupted step
    at_reply: i8  # and where, in a reply
    at_item: i8
    at_run: i8


JOIN_EVENT, DUE_EVENT, COMMIT_EVENT, REPLY_EVENT, BEAT_EVENT, TIMER_EVENT, TICK_EVENT = range(7)
SHIFT = 40
ALL = (1 << SHIFT) - 1

WRITTEN, IN_PLACE, JOB_OVER = range(3)
"""Steps of files: an attempt's (by task), and the end of a job."""

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
    """All arrays of a simulation. Jobs, tasks, nodes and pools are numbered by their positions in the tables.

    `stages` has two entries per job and `pool_stages` two per pool: maps, then reduces.
    """

    sec: Seconds
    num: Numbers
    nodes: Table[plain.NodeEntry]
    jobs: Table[plain.JobEntry]
    stages: Table[plain.StageEntry]
    tasks: Table[plain.TaskEntry]
    costs: Table[plain.CostEntry]
    pools: Table[plain.PoolEntry]
    pool_stages: Table[plain.PoolStageEntry]
    pool_jobs: Ints  # by pool, oldest first
    ready: Ints  # the ready jobs of each pool, in order; maps, then reduces
    order: Ints  # the pools with ready jobs, in order; maps, then reduces
    dirty: Ints  # stages that have changed since the policy was last asked
    skipped: Ints  # jobs that were, in the last heartbeat
    host: Ints  # nodes with the input of each map; -1 for one that is not of the cluster
    holder: Ints  # the same, as the NameNode says
    near: Table[plain.NearEntry]  # maps by job and host, then by job and rack
    near_task: Ints
    event_s: Floats  # the driver's heap
    event_code: Ints
    end_s: Floats  # the heap of attempts' ends
    end_code: Ints
    commits: Ints  # tasks by serial
    replies: Table[plain.ReplyEntry]
    reply_items: Table[plain.NewsEntry]
    boards: Table[plain.BoardEntry]
    runs: Grid  # of each node, in order of their launch; places in `work` of those that contend
    finished: Grid
    launched: Ints
    feeds: TableGrid[plain.FeedEntry]
    reducing: TableGrid[plain.FeedEntry]
    ring_s: Floats  # when each node's timer goes within an interval, sorted
    ring_node: Ints
    bits: (
        Grid  # members of rings, by rank: everyone, free map slots, free reduce slots, then of jobs' reduces
    )
    chains: Table[plain.ChainEntry]  # of free map slots, free reduce slots, then of jobs' reduces
    chain_free: Ints  # those that are not in use
    waiting: Ints  # chains that go on with a timer
    decision_rows: Table[plain.DecisionEntry]
    beat_rows: Table[plain.BeatEntry]
    attempt_rows: Ints
    job_rows: Ints
    file_rows: Table[plain.FileEntry]
    hosts: Table[fluid.HostEntry]  # what follows is for attempts that contend
    resources: Table[fluid.ResourceEntry]
    flows: Table[fluid.FlowEntry]
    way: Grid  # the resources that each flow passes
    before: Ints  # of flows of a resource, by flow and place in its way
    after: Ints
    item_free: Ints  # flows that are not in use
    agenda_s: Floats  # the heap of items
    agenda_code: Ints
    touched: Ints
    found: Ints  # flows, while rates are found
    in_order: Ints
    spare: Ints
    links: Ints
    far: Ints
    work: Table[fluid.WorkEntry]  # attempts
    work_flows: Grid  # of their phase
    work_free: Ints
    pending_node: Grid  # sources of map outputs that a reduce has still to fetch, their number and bytes
    pending_count: Grid
    pending_bytes: Grid
    basket_free: Ints
    outputs: Ints  # maps that have ended, in that order; of each job where its tasks begin
    told: Ints  # tasks that have ended
    targets: Ints  # nodes for a block of output
