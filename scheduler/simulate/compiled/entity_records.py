"""The records of the compiled loop: nodes, jobs, stages, tasks, costs and pools, and the rows of the output tables."""

from __future__ import annotations

from schedbed.scheduler.simulate.compiled.arrays import Pair, Record, f8, i1, i4, i8


class NodeEntry(Record):
    """A node with its rates, its heartbeat timer, and the counters of the JobTracker and the simulator."""

    number_0: f8  # `base_s` of `SimNode`. This time and the next three are in seconds.
    grid: f8
    event: f8
    timer: f8
    latency: f8  # Seconds from the service of a heartbeat to an attempt's first line.
    speed: f8
    disk: f8
    network: f8
    cpu_rate: f8
    asked: f8  # Time of the last `usage`; the next two count from then.
    cpu_s: f8
    disk_bytes: f8
    map_slots: i4
    free_maps: i4  # Free slots, as the core knows them.
    free_reduces: i4
    running: i4  # Running attempts, as the driver counts them.
    reduces: i4
    runs: i4  # Number of entries of the node in `State.runs`.
    finished: i4  # Ended attempts that no heartbeat has reported yet.
    feeds: i4  # Jobs whose map outputs the core announces to the node.
    reducing: i4  # Jobs with reduces on the node, as the driver counts them.
    board: i4  # First entry in the node's list of boards; -1 if empty.
    timers: i8
    rank: i4  # Position of the node in the order of timers.
    rack: i4
    beside_at: i4  # Range of the node in `State.beside`: first submitted jobs with maps to start.
    beside_left: i4  # End of these jobs; unused entries follow.
    beside_next: i4  # From here on, jobs that are not submitted yet.
    beside_end: i4
    beside_job: i8  # Number of the first of these jobs, `NO_JOB` if there is none.
    in_maps: i1  # 1 if in the ring of nodes with a free map slot.
    in_reduces: i1
    in_resting: i1  # 1 if in the list of nodes that rest.


class JobEntry(Record):
    """A job. Number j has the stages 2 j (maps) and 2 j + 1 (reduces) of `State.stages`."""

    first: i8  # Number of the first task; maps come before reduces.
    maps: i8
    reduces: i8
    pool: i4
    member: i4  # The job's user in its queue, under the Capacity scheduler.
    priority: i4
    weight: f8
    submit: f8
    start: f8
    finish: f8
    output_bytes: i8
    ended: i1
    started: i1
    wrote: i1  # 1 if a task of the job has written a file.
    free_cursor: i8
    hosts_at: i8  # Range of the job in `near`: groups of maps by host.
    hosts_end: i8
    racks_at: i8
    racks_end: i8
    chain: i4  # Chain of the nodes that run its reduces; -1 if none do.
    parts: i4  # Number of the last second part of a split map; -1 if there is none.
    room: f8  # Memory of a reduce for fetched data, in bytes.
    map_memory: i8  # Memory that each map declares, in bytes.
    reduce_memory: i8


class PatienceEntry(Record):
    """A job's wait under delay scheduling, its input near the last offered node, and why it declined.

    Mirrors `Patience`. `beside`, a position in `State.beside`, is valid only for the offer `offer`. Reduces
    use only the last two fields.
    """

    wait: f8  # Seconds waited so far.
    skipped: f8
    skipped_heartbeat: i8
    offer: i8
    beside: i4
    level: i4
    has_free: i1  # 0 if no unstarted map of the job prefers no node.
    said: i8  # Reason why the job last declined a node since its last launch, and the amount in it; or 0.
    launched: f8  # Time of its last launch.


class StageEntry(Record):
    """A stage: the counters of all maps or of all reduces of a job."""

    total: i8
    unstarted: i8
    running: i8
    done: i8
    cursor: i8
    ratio: f8  # Running tasks by weight, as last sorted into the pool.
    place: i4  # Position in the pool's list; -1 if the job is not in it.
    open: i1
    ready: i1
    dirty: i1


class TaskEntry(Record):
    """A task and its last attempt. The first fields, up to `locality`, are those that heartbeats read."""

    job: i4
    cost: i4
    work: f8
    since: f8
    start: f8
    end: f8
    local_bytes: i8
    spill_bytes: i8
    node: i4  # -1 while the task is unstarted.
    is_map: i1
    reads_block: i1
    waits: i1
    locality: i1
    hosts_at: i4  # Range of the task in `State.host`.
    hosts_end: i4
    holders_at: i4  # Range of the task in `State.holder`.
    holders_end: i4
    assigned: f8
    remote_bytes: i8
    shuffle_bytes: i8
    shuffle_end: f8
    sort_end: f8
    fetch_cpu: f8


class PartEntry(Record):
    """The second part of a map that a policy has split. The first part keeps the record of the whole map."""

    index: i4  # Index of the part among the maps of its job.
    next: i4  # Number of an earlier such part of the job; -1 if there is none.


class CostEntry(Record):
    """The cost of a task: CPU seconds, numbers of bytes, and peak memory in bytes."""

    cpu: f8
    sort_cpu: f8
    fetch_cpu: f8
    fetched_byte_cpu: f8
    duration: f8  # Known duration in seconds; NaN if unknown.
    read: i8
    output: i8
    spill: i8
    peak: i8
    merges: i1


class PoolEntry(Record):
    """A pool of jobs for fair sharing, or a queue. Under FIFO, all jobs are in a single pool."""

    weight: f8
    fifo: i1
    name: i4  # Position in the sorted names.
    at: i8  # Range of the pool in `pool_jobs` and in each half of `ready`.
    end: i8
    oldest: i8  # All jobs before this position of the range have ended.


class QueueEntry(Record):
    """A queue of the Capacity scheduler. Mirrors `Queue`.

    `share` is guaranteed, from 0 to 1. Queues that are not `named` divide it among those of them with jobs.
    """

    share: f8
    max_share: f8
    user_percent: f8
    user_factor: f8
    promised: f8  # Guaranteed slots of the kind that was last offered.
    full: f8  # Part of them that the queue held.
    users: Pair  # Users with a map, or a reduce, to start.
    jobs: i4  # Jobs that have not ended.
    named: i1


class MemberEntry(Record):
    """A user of a queue of the Capacity scheduler: the running tasks and the number of jobs with a task to start.

    `limited` is the number of the last visit at which the user was at the user limit.
    """

    running: Pair
    ready: Pair
    limited: i8


class PoolStageEntry(Record):
    """The counters and the sort key of a pool of jobs, for either its maps or its reduces."""

    running: i8
    ready: i8
    place: i4
    ratio: f8
    submit: f8


class NearEntry(Record):
    """Maps of a job with input on the node or rack `where`: [cursor, end) of `State.near_task`.

    Maps before `cursor` have started.
    """

    where: i4
    cursor: i4
    end: i4


class BesideEntry(Record):
    """A job with input on a node (-1 if all its maps have started), and its range of `State.near_task`.

    Maps before `cursor` have started, and `task` is at `cursor`. `near` has the same, but not in the CPU's
    cache.
    """

    job: i4
    task: i4
    cursor: i4
    end: i4


class FeedEntry(Record):
    """A job with reduces on a node: the number of reduces, and which map outputs have been announced to the node."""

    job: i4
    reduces: i4
    cursor: i8
    all_done: i1


class ChainEntry(Record):
    """A chain, which schedules the heartbeats of a ring's nodes in turn, until the time `until`.

    The next node follows when the timer of `node` fires at `at`. `members` is stored only for rings of nodes
    with reduces of one job.
    """

    at: f8
    until: f8
    node: i4
    members: i4


class BoardEntry(Record):
    """A board: the number of a job's map outputs that have been announced to one node."""

    job: i4
    next: i4
    heard: i8
    all_done: i1


class ReplyEntry(Record):
    """A reply on its way with announcements, a range of `State.reply_items`."""

    node: i4
    first: i8
    count: i8


class NewsEntry(Record):
    """Announced map outputs [since, until), by completion, or an order to stop an attempt."""

    job: i4  # For an order to stop: -1 minus the number of the task.
    all_done: i1
    since: i8
    until: i8


class DecisionEntry(Record):
    """A row of the decisions table."""

    t: f8
    value: f8
    node: i4
    job: i4
    task: i8
    held: i4
    unnamed: i4
    kind: i1
    reason: i1


class FileEntry(Record):
    """A change to pass to the NameNode: a task's output file was written or committed, or a job has ended."""

    t: f8
    number: i4
    step: i1


class StepEntry(Record):
    """An event that a policy in Python does not know yet, see `asking.questions`."""

    t: f8
    number: i4
    step: i1
    cpu: f8  # The use of resources that a heartbeat reports, if all are simulated.
    disk: f8
    net: f8
    memory: i8


class HeartbeatEntry(Record):
    """A row of the heartbeats table."""

    t: f8
    node: i4
    maps: i4
    reduces: i4
    cpu: f8
    disk: f8
    net: f8
    memory: i8
