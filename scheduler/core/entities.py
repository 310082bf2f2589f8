"""The objects of the core. Only `scheduler.core.ledger` changes them; policies see `scheduler.view`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from schedbed.cluster.messages import NO_USAGE, Action, AttemptStatus, MapOutput, Reply
from schedbed.cluster.spec import NodeSpec
from schedbed.scheduler.core.index import TaskIndex, WholeIndex, racks_of
from schedbed.scheduler.core.states import ASSIGNED, JOB_RUNNING, KILLING, RUNNING, TASK_UNSTARTED, Tally
from schedbed.tasks.parts import Part
from schedbed.tasks.specs import NO_COUNTERS, Demand, JobSpec, NodeId, Split, TaskKind, task_id

MAP, REDUCE = TaskKind.MAP, TaskKind.REDUCE
NO_SPLIT = Split(index=0)
NO_ROOM = Demand(memory_bytes=0, vcores=0)
LIVE = (ASSIGNED, RUNNING, KILLING)


class Task:
    """A map task or reduce task of a job."""

    __slots__ = (
        "_racks",
        "attempts",
        "failed_on",
        "failures",
        "fetch_failures",
        "hosts",
        "index",
        "part",
        "split",
        "stage",
        "state",
        "task",
        "tries",
        "winner",
    )

    is_empty = False

    def __init__(self, stage: Stage, index: int, task: str, split: Split) -> None:
        self.stage = stage
        self.index = index
        self.task = task
        self.split = split
        self.part: Part | None = None
        self.hosts: tuple[NodeId, ...] = split.hosts
        self._racks: tuple[str, ...] | None = None
        self.state = TASK_UNSTARTED
        self.attempts: tuple[Attempt, ...] = ()  # Live attempts.
        self.tries = 0  # Number of attempts so far, and the number of the next attempt.
        self.failures = 0
        self.failed_on: tuple[NodeId, ...] = ()  # Nodes with failed attempts, each once.
        self.fetch_failures = 0  # Number of reports that the output cannot be fetched.
        self.winner: Attempt | None = None

    @property
    def job(self) -> Job:
        return self.stage.job

    @property
    def racks(self) -> tuple[str, ...]:
        """Return the racks, if known, of the nodes that have the task's input. Computed at the first use."""
        racks = self._racks
        if racks is None:
            racks = self._racks = racks_of(self.hosts, self.stage.job.rack_by_node)
        return racks

    def move(self, hosts: tuple[NodeId, ...]) -> None:
        """Set the nodes with the task's input. Their racks are computed at the next use."""
        self.hosts = hosts
        self._racks = None

    @property
    def kind(self) -> TaskKind:
        return self.stage.kind

    @property
    def after(self) -> int | None:
        """Return the map that was split, if this is the second part: the index of the first, which reads before it."""
        return self.part.after if self.part is not None else None

    @property
    def split_of(self) -> str:
        """Return the id of the task that was divided, if this is one of its parts, or ""."""
        return "" if self.part is None else task_id(self.stage.job.job, MAP, self.part.whole.index)

    def be(self, part: Part) -> None:
        """Make the task a part of a split map."""
        self.part = part
        self.split = part.split(self.index)


class EmptyTask(Task):
    """A task without work, asked for by a job that has fewer tasks to start than it asks for.

    Its attempt holds room on its node, which never hears of it, until it is released. It is not in `Stage.tasks`.
    """

    __slots__ = ()
    is_empty = True


class MasterTask(EmptyTask):
    """The ApplicationMaster of a job: its attempt holds room until it is released, after the job's end."""

    __slots__ = ()


class Attempt:
    """An execution of a task on a node."""

    __slots__ = (
        "assigned_s",
        "attempt",
        "counters",
        "end_s",
        "killed",
        "locality",
        "node",
        "reason",
        "sequence",
        "serial",
        "speculative",
        "started_s",
        "state",
        "status",
        "task",
    )

    def __init__(self, attempt: str, task: Task, node: Node, assigned_s: float, serial: int) -> None:
        self.attempt = attempt
        self.task = task
        self.node = node
        self.assigned_s = assigned_s
        self.serial = serial  # Number of the launch; the largest is the most recent.
        self.speculative = False
        self.sequence = node.sequence  # Of the heartbeat whose reply launches it.
        self.status: AttemptStatus | None = None  # From the last heartbeat that listed it.
        self.killed = -1  # Last heartbeat answered before the order to stop.
        self.state = ASSIGNED
        self.locality = "off"
        self.started_s: float | None = None
        self.end_s = 0.0
        self.reason = ""
        self.counters = NO_COUNTERS

    @property
    def progress(self) -> float:
        """Return the progress last reported, or 0."""
        return self.status.progress if self.status is not None else 0.0

    @property
    def phase(self) -> str:
        """Return the phase last reported, or ""."""
        return self.status.phase if self.status is not None else ""


class Stage:
    """All maps or all reduces of a job, with counters that policies use to sort jobs."""

    __slots__ = (
        "asks",
        "demand",
        "done",
        "empties",
        "empty",
        "excess",
        "grants",
        "hidden",
        "index",
        "job",
        "killing",
        "kind",
        "label",
        "launched_s",
        "open",
        "queue",
        "ready",
        "running",
        "said",
        "shuffled",
        "tasks",
        "total",
        "unstarted",
        "user",
    )

    def __init__(self, job: Job, kind: TaskKind, total: int, demand: Demand, label: str = "") -> None:
        self.job = job
        self.kind = kind
        self.label = label or kind.value
        self.demand = demand
        self.total = total
        self.unstarted = 0  # With those of `excess`, and without those of `hidden`.
        self.hidden = 0  # Unstarted tasks that the job's ApplicationMaster does not ask for yet.
        self.excess = 0  # Tasks that the job asks for and does not have.
        self.grants = 0  # Launches so far without those of copies.
        self.empties = 0  # Empty tasks so far.
        self.empty: EmptyTask | None = None  # In the index while only tasks of `excess` are unstarted.
        self.running = 0  # Live attempts: assigned, running and being killed.
        self.killing = 0  # The running attempts that were ordered to stop.
        self.done = 0
        self.shuffled = kind is MAP and job.spec.reduces > 0  # Output goes to reduces, not to a file.
        self.open = kind is MAP  # Reduces wait for slow-start.
        self.ready = False  # Open, and a task is unstarted. Of maps with a master: any stage of the job asks.
        self.asks = False  # Open, and a task is unstarted. Only of jobs with masters.
        self.launched_s = -1.0  # Time of the last launch.
        self.said: str | None = None  # Why the job last declined a node since the last launch.
        self.tasks: list[Task] = []
        self.index: TaskIndex[Task] = TaskIndex()
        self.user: Tally
        self.queue: Tally


class Feed:
    """The progress of announcing the map outputs of one job to one node that runs reduces of the job."""

    __slots__ = ("all_done", "cursor", "job", "reduces")

    def __init__(self, job: Job) -> None:
        self.job = job
        self.cursor = 0  # Number of outputs announced so far.
        self.all_done = False  # The end of all maps was announced.
        self.reduces = 0  # Number of the job's reduces on the node.


class Job:
    """A submitted job, with its stages, attempts and map outputs."""

    __slots__ = (
        "any_map",
        "attempts",
        "avoidance",
        "blocks",
        "deadline_s",
        "excluded",
        "finish_s",
        "free_map",
        "job",
        "local_map",
        "maps",
        "master",
        "nodes",
        "output_bytes",
        "outputs",
        "priority",
        "queue",
        "rack_by_node",
        "rack_map",
        "reason",
        "reduces",
        "serial",
        "spec",
        "stages",
        "start_s",
        "state",
        "submit_s",
        "user",
        "wholes",
    )

    def __init__(
        self,
        spec: JobSpec,
        serial: int,
        rack_by_node: Mapping[NodeId, str],
        avoidance: Avoidance,
        master: Demand | None = None,
    ) -> None:
        self.spec = spec
        self.rack_by_node = rack_by_node
        self.job = spec.job
        self.user = spec.user
        self.queue = spec.queue
        self.priority = spec.priority.rank
        self.submit_s = spec.submit_s
        self.deadline_s = spec.deadline_s
        self.serial = serial  # Number of the submission.
        self.state = JOB_RUNNING
        self.reason = ""
        self.start_s: float | None = None
        self.finish_s: float | None = None
        self.output_bytes = 0
        runs_inside = master is not None and spec.uber
        self.maps = Stage(self, MAP, spec.maps, NO_ROOM if runs_inside else spec.map_demand)
        self.reduces = Stage(self, REDUCE, spec.reduces, NO_ROOM if runs_inside else spec.reduce_demand)
        self.stages: tuple[Stage, ...] = (self.maps, self.reduces)
        self.master: Stage | None = None
        if master is not None:
            self.master = Stage(self, MAP, 1, master, "am")
            self.stages = (self.master, *self.stages)
        self._look_into(self.maps.index)
        self.attempts: dict[str, Attempt] = {}  # Live attempts.
        self.outputs: list[MapOutput] = []  # A later entry of the same map index replaces an earlier one.
        self.nodes: dict[NodeId, None] = {}  # Nodes that ran attempts of the job.
        self.avoidance = avoidance
        self.excluded = avoidance.excluded
        self.blocks: dict[str, list[Task]] | None = None  # Maps by block; built at the first use.
        self.wholes: WholeIndex[Task] | None = None  # Built at the first use.

    def stage(self, kind: TaskKind) -> Stage:
        return self.maps if kind is MAP else self.reduces

    def asks(self) -> Iterator[Stage]:
        """Return the stages that ask for containers, by YARN's priorities (RMContainerAllocator, Hadoop 3.4.1).

        The ApplicationMaster comes first, then maps if one of them has failed, reduces, and maps.
        """
        if self.master is not None and self.master.asks:
            yield self.master
        maps, reduces = self.maps, self.reduces
        failed = maps.asks and (first := maps.index.first()) is not None and first.failures > 0
        for stage in (maps, reduces) if failed else (reduces, maps):
            if stage.asks:
                yield stage

    def _look_into(self, index: TaskIndex[Task]) -> None:
        """Bind the attributes `local_map`, `rack_map`, `free_map` and `any_map` to `index`."""
        self.local_map = index.on_host
        self.rack_map = index.on_rack
        self.free_map = index.anywhere
        self.any_map = index.first

    @property
    def active(self) -> bool:
        return self.state is JOB_RUNNING

    @property
    def maps_all_done(self) -> bool:
        return self.maps.done == self.maps.total

    def whole_map(self, rack: str) -> Task | None:
        """Return an unstarted map that can be split, preferably with input in the rack, or None."""
        if self.wholes is None:
            self.wholes = WholeIndex(self.maps.tasks if self.maps.shuffled else ())
        return self.wholes.near(rack)

    def any_reduce(self) -> Task | None:
        """Return an unstarted reduce, or None, also if too few maps are done to start reduces."""
        return self.reduces.index.first() if self.reduces.open else None

    def release(self) -> None:
        """Drop data that an ended job does not need, including reference cycles, to free memory at once."""
        for stage in self.stages:
            for task in stage.tasks:
                task.winner = None
            stage.tasks = []
            stage.index = TaskIndex()
        self._look_into(self.maps.index)
        self.spec = replace(self.spec, splits=(), map_costs=(), reduce_costs=())
        self.outputs = []
        self.blocks = self.wholes = None


class Node:
    """An incarnation of a node (its life from registration to loss), with attempts and free resources."""

    __slots__ = (
        "alive",
        "attempts",
        "calm",
        "disk_full",
        "feeds",
        "free_maps",
        "free_memory_bytes",
        "free_reduces",
        "free_vcores",
        "heard_s",
        "incarnation",
        "inside",
        "listed",
        "node",
        "outbox",
        "rack",
        "reply",
        "sequence",
        "spec",
        "turn",
        "usage",
    )

    def __init__(self, spec: NodeSpec, incarnation: int, heard_s: float) -> None:
        self.spec = spec
        self.node = spec.node
        self.rack = spec.rack
        self.incarnation = incarnation
        self.alive = True
        self.heard_s = heard_s
        self.sequence = -1  # Of the last answered heartbeat.
        self.reply: Reply | None = None
        self.usage = NO_USAGE
        self.disk_full = False  # As last reported by the node.
        self.attempts: dict[str, Attempt] = {}  # Assigned, running or being killed.
        self.turn = 0  # Grows when an attempt starts, ends or is ordered to stop.
        self.calm = -1  # The turn at which a heartbeat has listed all attempts, with none to stop.
        # In the last heartbeat. The same tuple again tells nothing new.
        self.listed: tuple[AttemptStatus, ...] = ()
        self.feeds: dict[str, Feed] = {}  # By job.
        self.outbox: list[Action] = []
        self.inside: dict[str, Job] = {}  # Jobs whose master runs their tasks here.
        self.free_maps = spec.map_slots
        self.free_reduces = spec.reduce_slots
        self.free_memory_bytes = spec.memory_bytes
        self.free_vcores = spec.cores

    def free_slots(self, kind: TaskKind) -> int:
        return self.free_maps if kind is MAP else self.free_reduces

    @property
    def running_maps(self) -> int:
        return self.spec.map_slots - self.free_maps

    @property
    def running_reduces(self) -> int:
        return self.spec.reduce_slots - self.free_reduces

    def hold(self, attempt: Attempt, stage: Stage) -> None:
        """Add the attempt to the node, and subtract its slot, memory and vcores from the free resources."""
        self.attempts[attempt.attempt] = attempt
        self.turn += 1
        if stage.kind is MAP:
            self.free_maps -= 1
        else:
            self.free_reduces -= 1
        demand = stage.demand
        self.free_memory_bytes -= demand.memory_bytes
        self.free_vcores -= demand.vcores

    def free(self, attempt: Attempt, stage: Stage) -> None:
        """Free the slot, memory and vcores of the attempt, and remove it from the node."""
        del self.attempts[attempt.attempt]
        self.turn += 1
        if stage.kind is MAP:
            self.free_maps += 1
        else:
            self.free_reduces += 1
        demand = stage.demand
        self.free_memory_bytes += demand.memory_bytes
        self.free_vcores += demand.vcores


# The nodes that one job avoids, because of a full disk, many failures, or a failed task.


class Avoidance:
    """The nodes that one job avoids. `excluded` has all of them, be it for maps, reduces or both.

    The reasons, strongest first: an attempt failed for a full disk, and it is still full; at least `often`
    attempts of the job failed there; or, for tasks of one kind, one of them failed there and waits to run
    again.
    """

    __slots__ = ("_failures", "_full", "_often", "_waiting", "excluded")

    def __init__(self, often: int) -> None:
        self.excluded: dict[NodeId, None] = {}
        self._often = often
        self._failures: dict[NodeId, int] = {}
        self._full: dict[NodeId, None] = {}
        self._waiting: dict[tuple[NodeId, TaskKind], int] = {}

    def strength(self, node: NodeId, kind: TaskKind) -> int:
        """Return 3 for a full disk, 2 for many failures, 1 for a failed task of `kind` that waits, or 0."""
        if node not in self.excluded:
            return 0
        if node in self._full:
            return 3
        if self._failures.get(node, 0) >= self._often:
            return 2
        return int((node, kind) in self._waiting)

    def failed(self, node: NodeId, *, disk_full: bool) -> None:
        """Count an attempt that failed on the node. `disk_full` means that the node's full disk was the cause."""
        self._failures[node] = self._failures.get(node, 0) + 1
        if disk_full:
            self._full[node] = None
        self._settle(node)

    def freed(self, node: NodeId) -> None:
        """Record that the disk has room again."""
        self._full.pop(node, None)
        self._settle(node)

    def waits(self, node: NodeId, kind: TaskKind) -> None:
        """Record that a failed task of the kind waits to run again."""
        self._waiting[node, kind] = self._waiting.get((node, kind), 0) + 1
        self._settle(node)

    def started(self, node: NodeId, kind: TaskKind) -> None:
        """Subtract 1 from the number of tasks of the kind that failed on the node and wait to run again."""
        self._waiting[node, kind] -= 1
        if not self._waiting[node, kind]:
            del self._waiting[node, kind]
        self._settle(node)

    def _settle(self, node: NodeId) -> None:
        """Keep the node in `excluded` exactly while there is a reason."""
        self.excluded[node] = None
        if not any(self.strength(node, kind) for kind in TaskKind):
            del self.excluded[node]
