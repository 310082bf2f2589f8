"""The read-only view of the cluster from which a policy decides.

Every method of a policy that takes a view takes a `View` as its first argument. The view's jobs, tasks,
attempts and nodes show the state at the moment of the call; nothing is copied. A policy must therefore keep
ids and numbers between calls, not objects. All times are seconds since the run's start; all sizes are bytes.

Example of a policy that starts tasks of the job with the fewest unstarted tasks:

    >>> import schedbed
    >>> from schedbed.policy import Proposal, TaskKind
    >>> class FewestLeft:
    ...     def decide(self, view, node, kind):
    ...         ready = [job for job in view.jobs.values() if job.stage(kind).ready]
    ...         if not ready:
    ...             return None
    ...         job = min(ready, key=lambda job: (job.stage(kind).unstarted, job.serial))
    ...         task = job.any_reduce() if kind is TaskKind.REDUCE else job.any_map()
    ...         return Proposal(task, f"{job.stage(kind).unstarted} left at {view.now_s:.1f} s")
    >>> jobs = [{"name": f"{n} maps", "app": "synthetic", "maps": n, "map": {"cpu": "10s"}} for n in (30, 3)]
    >>> scenario = {"name": "tiny", "cluster": {"nodes": 1}, "workload": {"jobs": jobs}}
    >>> result = schedbed.run(scenario, policies=[FewestLeft], machines="sim")
    >>> list(result.jobs.sort_values("finish")["name"])
    ['3 maps', '30 maps']
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from schedbed.cluster.messages import Usage
from schedbed.cluster.spec import NodeSpec
from schedbed.tasks.chance import Coin
from schedbed.tasks.parts import Part
from schedbed.tasks.specs import Counters, Demand, JobSpec, NodeId, Split, TaskKind


class TallyView(Protocol):
    """Counters of the maps, or of the reduces, of all jobs of one user or one queue.

    For example, `unstarted` is the sum of `StageView.unstarted` over these jobs.
    """

    @property
    def name(self) -> str: ...  # The name of the user or queue.
    @property
    def running(self) -> int: ...  # Number of live attempts, including attempts being killed.
    @property
    def killing(self) -> int: ...  # Number of the running attempts that are being killed.
    @property
    def unstarted(self) -> int: ...  # Number of tasks in the state unstarted.


class AttemptView(Protocol):
    """An attempt: one execution of a task on a node. Times are seconds since the run's start.

    A live attempt is in the state assigned, running or killing. If its output is a file, the state after
    a success on the node is committing, until the file is in its final place. The final state is succeeded,
    failed, killed or lost.
    """

    @property
    def attempt(self) -> str: ...  # The attempt's id, such as `job_0001_m_000003_0`.
    @property
    def task(self) -> TaskView: ...  # The task that the attempt executes.
    @property
    def node(self) -> NodeView: ...  # The node that the attempt runs on.
    @property
    def serial(self) -> int: ...  # Launch number: the largest is the most recent launch.
    @property
    def speculative(self) -> bool: ...  # True for a copy of a task that was running elsewhere.
    @property
    def state(self) -> str: ...  # assigned, running, killing, committing, succeeded, failed, killed or lost.
    @property
    def assigned_s(self) -> float: ...  # Time of the launch, s.
    @property
    def started_s(self) -> float | None: ...  # Time of the start on the node, s; None if not started.
    @property
    def progress(self) -> float: ...  # Progress from 0 to 1, as of the node's last heartbeat.
    @property
    def phase(self) -> str: ...  # Current phase: map, shuffle, sort or reduce; empty before the start.
    @property
    def locality(self) -> str: ...  # Where the input is: node, rack or off (elsewhere); off for reduces.
    @property
    def end_s(self) -> float: ...  # Time of the end as reported by the node, s; 0 before.
    @property
    def counters(self) -> Counters: ...  # CPU seconds and numbers of bytes used; all 0 before the end.
    @property
    def reason(self) -> str: ...  # Why the attempt failed or was killed; empty otherwise.


class TaskView(Protocol):
    """A map or reduce task of a job."""

    @property
    def task(self) -> str: ...  # The task's id, such as `job_0001_m_000003`.
    @property
    def job(self) -> JobView: ...  # The job that the task belongs to.
    @property
    def stage(self) -> StageView: ...  # The stage of the job that the task belongs to.
    @property
    def kind(self) -> TaskKind: ...  # TaskKind.MAP or TaskKind.REDUCE.
    @property
    def index(self) -> int: ...  # Position in `stage.tasks` and in `job.spec.map_costs` or `reduce_costs`.
    @property
    def split(self) -> Split: ...  # Input of a map: `file`, `offset`, `length` (bytes); empty for a reduce.
    @property
    def part(self) -> Part | None: ...  # A piece of a split map, with its `share`; None for a whole map.
    @property
    def hosts(self) -> tuple[NodeId, ...]: ...  # Names of the nodes that hold a replica of the input now.
    @property
    def racks(self) -> tuple[str, ...]: ...  # Racks of the nodes in `hosts`.
    @property
    def state(self) -> str: ...  # unstarted, running, committing or done.
    @property
    def failures(self) -> int: ...  # Number of failed attempts; the job fails at the fourth.
    @property
    def attempts(self) -> Sequence[AttemptView]: ...  # Live attempts of the task.


class StageView(Protocol):
    """All tasks of one kind (maps or reduces) of a job, with counters that the core keeps up to date."""

    @property
    def kind(self) -> TaskKind: ...  # TaskKind.MAP or TaskKind.REDUCE.
    @property
    def tasks(self) -> Sequence[TaskView]: ...  # All tasks, by index; empty once the job has ended.
    @property
    def demand(self) -> Demand: ...  # Resources that each task declares: `memory_bytes`, `vcores`.
    @property
    def total(self) -> int: ...  # Number of tasks of the stage.
    @property
    def unstarted(self) -> int: ...  # Number of tasks in the state unstarted.
    @property
    def running(self) -> int: ...  # Number of live attempts, including copies and attempts being killed.
    @property
    def killing(self) -> int: ...  # Number of the running attempts that are being killed.
    @property
    def done(self) -> int: ...  # Number of tasks whose output is in place.
    @property
    def ready(self) -> bool: ...  # True if a task can start; reduces wait for 5% of the maps.
    @property
    def user(self) -> TallyView: ...  # Counters for this kind of task over all jobs of the job's user.
    @property
    def queue(self) -> TallyView: ...  # Counters for this kind of task over all jobs of the job's queue.


class JobView(Protocol):
    """A job of the workload, with its tasks.

    The methods that find an unstarted map or reduce take constant time and return None if there is none.
    """

    @property
    def job(self) -> str: ...  # The job's id, such as `job_0001`.
    @property
    def user(self) -> str: ...  # The user who submitted the job.
    @property
    def queue(self) -> str: ...  # The queue that the job was submitted to.
    @property
    def priority(self) -> int: ...  # From 0 (very high) to 4 (very low).
    @property
    def submit_s(self) -> float: ...  # Time of the submission, s.
    @property
    def deadline_s(self) -> float | None: ...  # Time by which the job should end, s; None without a deadline.
    @property
    def serial(self) -> int: ...  # Submission number: the smallest was submitted first.
    @property
    def spec(self) -> JobSpec: ...  # `name`, `app`, `params`, `input_bytes`, `map_costs`, `reduce_costs`.
    @property
    def active(self) -> bool: ...  # True until the job ends.
    @property
    def state(self) -> str: ...  # running, then succeeded, failed or killed.
    @property
    def finish_s(self) -> float | None: ...  # Time of the end, s; None while the job runs.
    @property
    def maps(self) -> StageView: ...  # The job's map tasks.
    @property
    def reduces(self) -> StageView: ...  # The job's reduce tasks.
    @property
    def master(self) -> StageView | None: ...  # The job's ApplicationMaster, under `framework: yarn` only.
    @property
    def stages(
        self,
    ) -> Sequence[StageView]: ...  # The ApplicationMaster if there is one, the maps, the reduces.
    @property
    def attempts(self) -> Mapping[str, AttemptView]: ...  # Live attempts of all tasks of the job, by id.
    @property
    def excluded(self) -> Mapping[NodeId, None]: ...  # Nodes that the job may avoid, see `View.avoids`.

    def stage(self, kind: TaskKind) -> StageView:
        """Return `maps` for TaskKind.MAP, or `reduces` for TaskKind.REDUCE."""
        ...

    def asks(self) -> Iterable[StageView]:
        """Return the stages that ask for containers now, the most urgent first, under `framework: yarn` only."""
        ...

    def local_map(self, node: NodeId) -> TaskView | None:
        """Return an unstarted map with a replica of its input on that node, or None."""
        ...

    def rack_map(self, rack: str) -> TaskView | None:
        """Return an unstarted map with a replica of its input in that rack, or None."""
        ...

    def free_map(self) -> TaskView | None:
        """Return an unstarted map whose input is not on any node, such as a map without input, or None."""
        ...

    def any_map(self) -> TaskView | None:
        """Return any unstarted map, or None."""
        ...

    def whole_map(self, rack: str) -> TaskView | None:
        """Return an unstarted map that can be split (`Proposal.split`), or None.

        A map with a replica of its input in that rack is preferred.
        """
        ...

    def any_reduce(self) -> TaskView | None:
        """Return any unstarted reduce, or None.

        None is returned if all reduces have started, or if too few maps are done to start reduces (by default
        fewer than 5%).
        """
        ...


class NodeView(Protocol):
    """An emulated node.

    An attempt occupies its slot, memory and vcores from its launch, before the node starts it.
    """

    @property
    def node(self) -> NodeId: ...  # The node's name, such as `n3`.
    @property
    def rack(self) -> str: ...  # The name of the node's rack.
    @property
    def spec(
        self,
    ) -> NodeSpec: ...  # `cores`, `core_speed`, `memory_bytes`, `disk_bps`, `network_bps` and so on.
    @property
    def alive(self) -> bool: ...  # True while the node sends heartbeats.
    @property
    def usage(self) -> Usage: ...  # Shares of CPU, disk and network rates, bytes of memory; last heartbeat.
    @property
    def attempts(self) -> Mapping[str, AttemptView]: ...  # Live attempts on the node, by id.
    @property
    def running_maps(self) -> int: ...  # Number of live map attempts on the node.
    @property
    def running_reduces(self) -> int: ...  # Number of live reduce attempts on the node.
    @property
    def free_memory_bytes(self) -> int: ...  # Memory not reserved by live attempts, bytes.
    @property
    def free_vcores(self) -> int: ...  # Number of cores not reserved by live attempts.

    def free_slots(self, kind: TaskKind) -> int:
        """Return the number of free slots of this kind on the node."""
        ...


class View(Protocol):
    """The state of the cluster at the time `now_s`: its jobs and nodes, with queries about slots and room.

    `random` is a random generator with the run's seed. It draws the same numbers when the JobTracker replays
    its journal after a crash. A policy must use no other source of random numbers.
    """

    @property
    def now_s(self) -> float: ...  # Seconds since the run's start; a policy must use no other clock.
    @property
    def beats(self) -> int: ...  # Number of heartbeats served so far.
    @property
    def records_skips(self) -> bool: ...  # True if `skip` records anything.
    @property
    def seed(self) -> int: ...  # The run's seed.
    @property
    def random(self) -> Coin: ...  # A `random.Random` seeded with the run's seed; use no other.
    @property
    def pooled(self) -> bool: ...  # True under `framework: yarn`, where all tasks share memory and vcores.
    @property
    def sizes(self) -> str: ...  # The kind of task costs in `job.spec`: true, estimated or hidden.
    @property
    def jobs(self) -> Mapping[str, JobView]: ...  # Jobs that have not ended, by id, in order of submission.
    @property
    def nodes(self) -> Mapping[NodeId, NodeView]: ...  # All nodes, including lost nodes, by name.

    def slots(self, kind: TaskKind) -> int:
        """Return the total number of slots of this kind, free and occupied, on all live nodes."""
        ...

    def fits(self, node: NodeView, stage: StageView) -> bool:
        """Return whether the node has room for another task of the stage under the policy's `Limits`."""
        ...

    def avoids(self, job: JobView, node: NodeView, kind: TaskKind) -> bool:
        """Return whether the job avoids the node for tasks of this kind, because of failures on the node.

        A job has up to three reasons to avoid a node. The strongest reason: an attempt failed because the
        node's disk was full, and the disk is still full. The second reason: at least three attempts of the
        job (by default) failed on the node. The weakest reason: a task of this kind failed on the node and
        waits to run again. The job avoids the node only while another live node, with a weaker reason or
        none, could run the task.
        """
        ...

    def skip(self, node: NodeView, job: JobView, kind: TaskKind, reason: str) -> None:
        """Record in the decisions table that the job declined this node for the given reason.

        `kind` is the kind of the offered slot. Nothing is recorded if the view's attribute `records_skips` is
        false, or if the job has declined nodes for the same reason since it last launched a task of this
        kind. A row thus stands for all equal answers from its time to the job's next row.
        """
        ...
