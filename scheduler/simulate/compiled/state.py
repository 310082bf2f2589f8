"""The state of the compiled loop: numbers and tables, declared in `entity_records` and `flow_records`."""

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
    """Times and durations of a simulation in seconds. Times are counted from the start of the run."""

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
    agenda_s: f8  # Current time of the contention model.
    core_share: f8


class Numbers(Record):
    """The whole numbers of a simulation: counters, numbers of used entries of arrays, and settings."""

    passed: i8  # Highest node whose timer at `passed_at` has fired.
    events: i8  # Entries of the event heap.
    ends: i8  # Entries of the heap of attempts' ends.
    serial: i8  # Serial number of the last scheduled end.
    commits: i8
    replies: i8  # Replies sent.
    replies_done: i8  # Replies that have reached their nodes.
    reply_items: i8
    items_done: i8
    boards: i8
    next_job: i8
    jobs: i8
    tasks: i8  # Tasks of all jobs. In `State.tasks`, later parts of split maps follow.
    active_jobs: i8
    live: i8  # Running attempts.
    ready: Pair  # Jobs with a map, or a reduce, ready to start.
    saw: Pair  # 1 if tasks were ready when the timers were last updated.
    heartbeats: i8
    offers: i8  # Offers of map slots under delay scheduling.
    skipped: i8
    passing: i8  # The last node whose timer had fired at `Seconds.passing`.
    dirty: i8
    pools: Pair  # Pools with a ready job.
    is_fair: i8
    by_name: i8  # 1 if the first by name of two equal pools is served first.
    is_capacity: i8
    is_delay: i8
    slots: Pair  # Slots of all nodes.
    unnamed: i8  # Queues with jobs that the Capacity scheduler's settings do not name.
    visits: i8  # Queues whose jobs were offered a slot.
    held: i8  # Slots in the reason of the next decision.
    writes_heartbeats: i8
    writes_skips: i8
    replication: i8
    chains: i8  # Free chains of wake-ups, for jobs with reduces.
    ended: i8
    launched: i8  # Tasks launched in the current heartbeat.
    reported: i8
    stopped: i8  # Reported attempts that their nodes had stopped.
    n_decisions: i8
    n_heartbeats: i8
    n_attempts: i8
    n_jobs: i8
    n_files: i8
    waiting_chains: i8
    asks: i8  # Address of the function that answers for a policy in Python; 0 for a compiled policy.
    always: i8  # 1 if such a policy reads each heartbeat of each node, which are then all simulated.
    acts_on_ticks: i8  # 1 if such a policy acts on the JobTracker's ticks, which are then all simulated.
    hears_heartbeats: i8  # 1 if another such policy has a hook for heartbeats.
    ignores_slots: i8  # 1 if tasks of such a policy occupy no slots.
    may_rest: i8  # 1 if such a policy says which nodes rest.
    resting: i8  # Entries of `State.resting`.
    gave_up: i8  # 1 after an error of that function.
    n_steps: i8
    is_fluid: i8  # 1 if attempts contend. All fields below are for contention.
    racks: i8
    has_uplinks: i8
    has_downlinks: i8
    has_core: i8
    block_bytes: i8  # Block size of output files; 0 for one block per file.
    stamp: i8
    solves: i8  # Number of computations of rates.
    cut_short: i8  # Solves in which distant flows kept their rates.
    item_serial: i8
    agenda: i8  # Entries of the agenda's heap.
    free_items: i8
    free_work: i8
    free_baskets: i8
    touched: i8  # Resources with changed flows.
    told: i8
    wants: i8  # 1 + the attempt that needs a block for output; 0 if none.
    wants_bytes: i8
    targets: i8  # Number of nodes chosen for the block.
    room: i8  # Largest number of items that one event may add.
    doing: i8  # The kind of the paused event; 0 if none.
    at_reply: i8  # The position in a reply at which the event paused.
    at_item: i8
    at_run: i8


JOIN_EVENT, DUE_EVENT, COMMIT_EVENT, REPLY_EVENT, HEARTBEAT_EVENT, TIMER_EVENT, TICK_EVENT = range(7)
SHIFT = 40
ALL = (1 << SHIFT) - 1
NO_JOB = 1 << 40
"""Larger than any number of a job."""

WRITTEN, IN_PLACE, JOB_OVER = range(3)
"""Changes of output files: written and committed (by task), and the end of a job (by job)."""

# Codes of the reasons of decisions.
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
    QUEUE_FULL,
    USER_FULL,
) = range(13)
REASONS = 16
"""More than the number of codes."""

FAIR, BY_PRIORITY, BY_NUMBER = range(3)
"""Orders of the jobs of a pool: the field `fifo` of `PoolEntry`."""


class State(NamedTuple):
    """All arrays, with things numbered by their rows. `stages` and `pool_stages` have maps, then reduces."""

    sec: Seconds
    num: Numbers
    nodes: Table[plain.NodeEntry]
    jobs: Table[plain.JobEntry]
    patience: Table[plain.PatienceEntry]  # By job for maps, then, under Capacity, for reduces.
    stages: Table[plain.StageEntry]
    tasks: Table[plain.TaskEntry]
    is_started: Ints  # By task, 1 if it was launched; not in `tasks`, so that it fits into the CPU's cache.
    parts: Table[plain.PartEntry]  # By the number of a later part of a split map, minus that of tasks.
    costs: Table[plain.CostEntry]
    pools: Table[plain.PoolEntry]
    pool_stages: Table[plain.PoolStageEntry]
    pool_jobs: Ints  # Jobs by pool, oldest first.
    queues: Table[plain.QueueEntry]  # By pool; like `members`, only under Capacity.
    members: Table[plain.MemberEntry]
    ready: Ints  # Ready jobs of each pool in order: for maps, then for reduces.
    order: Ints  # Pools with ready jobs in order: for maps, then for reduces.
    dirty: Ints  # Stages that changed since the last decision.
    skipped: Ints  # Jobs that delay scheduling skipped in the last heartbeat.
    host: Ints  # Nodes with the input of each map, from its split; -1 for an unknown node.
    holder: Ints  # Nodes with the input of each map, from the NameNode.
    near: Table[plain.NearEntry]  # Maps grouped by job and host, then by job and rack.
    near_task: Ints
    beside: Table[plain.BesideEntry]  # Jobs by node, oldest first; empty without delay scheduling.
    event_s: Floats  # Times of the event heap.
    event_code: Ints
    end_s: Floats  # Times of the heap of attempts' ends.
    end_code: Ints
    commits: Ints  # Tasks by the number of their commit.
    replies: Table[plain.ReplyEntry]
    reply_items: Table[plain.NewsEntry]
    boards: Table[plain.BoardEntry]
    runs: Grid  # Running tasks per node, oldest first; with contention, rows of `work`.
    finished: Grid
    launched: Ints
    feeds: TableGrid[plain.FeedEntry]
    reducing: TableGrid[plain.FeedEntry]
    ring_s: Floats  # Sorted timer phases of the nodes within a heartbeat interval.
    ring_node: Ints
    bits: Grid  # Rings as bit sets: all nodes, free map slots, free reduce slots, one per job with reduces.
    chains: Table[plain.ChainEntry]  # Chains: free map slots, free reduce slots, then jobs' reduces.
    chain_free: Ints  # Unused chains.
    waiting: Ints  # Chains that wait for a timer.
    decision_rows: Table[plain.DecisionEntry]
    heartbeat_rows: Table[plain.HeartbeatEntry]
    attempt_rows: Ints
    job_rows: Ints
    file_rows: Table[plain.FileEntry]
    steps: Table[plain.StepEntry]  # What a policy in Python does not know yet.
    resting: Ints  # Nodes that rested when the policy was asked last.
    stops: Ints  # Tasks whose attempts such a policy stops, until their nodes are ordered to.
    answered: Ints  # From Python: the numbers of decisions not written yet, and of entries of `stops`.
    hosts: Table[fluid.HostEntry]  # All fields below are for contention.
    resources: Table[fluid.ResourceEntry]
    flows: Table[fluid.FlowEntry]
    way: Grid  # Resources on the path of each flow.
    before: Ints  # Links of each resource's list of flows.
    after: Ints
    item_free: Ints  # Unused records of flows and timers.
    agenda_s: Floats  # Times of the agenda's heap.
    agenda_code: Ints
    touched: Ints
    found: Ints  # Collected flows during a computation of rates.
    in_order: Ints
    spare: Ints
    links: Ints
    far: Ints
    work: Table[fluid.WorkEntry]  # Running attempts.
    work_flows: Grid  # Flows of the current phase of each attempt.
    work_free: Ints
    pending_node: Grid  # Sources from which each reduce must still fetch; below, outputs and bytes.
    pending_count: Grid
    pending_bytes: Grid
    basket_free: Ints
    outputs: Ints  # Ended maps of each job in order, from the job's first task on.
    told: Ints  # Ended tasks not yet reported.
    targets: Ints  # Nodes chosen for a block of output.
