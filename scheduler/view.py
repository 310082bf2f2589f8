"""The read-only view of the cluster that a policy decides on.

`View` is the first argument of every call of a policy. Its jobs, tasks, attempts and nodes are the core's own objects
behind read-only types: they show the state at the moment of the call and nothing is copied. A policy must therefore
keep ids and numbers between calls, not objects. Times are seconds since the run's start, sizes bytes.

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

from collections.abc import Mapping, Sequence
from typing import Protocol

from schedbed.cluster.messages import Usage
from schedbed.cluster.spec import NodeSpec
from schedbed.tasks.chance import Coin
from schedbed.tasks.parts import Part
from schedbed.tasks.specs import Counters, Demand, JobSpec, NodeId, Split, TaskKind


class TallyView(Protocol):
    """Sums over all jobs of one user or queue, for one kind of task. The counters mean the same as in `StageView`."""

    @property
    def name(self) -> str: ...  # The name of the user or queue.
    @property
    def running(self) -> int: ...  # Live attempts, those being killed included.
    @property
    def killing(self) -> int: ...  # Of the running: told to stop.
    @property
    def unstarted(self) -> int: ...  # Tasks that no attempt runs.


class AttemptView(Protocol):
    """An attempt: one execution of a task on a node.

    A live attempt is assigned, running or killing. An attempt that writes a file is then committing until its output
    is in place. The final state is succeeded, failed, killed or lost. Times are seconds since the run's start.
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
    def started_s(self) -> float | None: ...  # Time of the start on the node, s; None before.
    @property
    def progress(self) -> float: ...  # Progress from 0 to 1, as of the node's last heartbeat.
    @property
    def phase(self) -> str: ...  # Current phase: map, shuffle, sort or reduce; empty before the start.
    @property
    def locality(self) -> str: ...  # Distance to the input: node, rack or off; off for reduces.
    @property
    def end_s(self) -> float: ...  # Time of the end as reported by the node, s; 0 before.
    @property
    def counters(self) -> Counters: ...  # CPU seconds and bytes used; all 0 before the end.
    @property
    def reason(self) -> str: ...  # Why the attempt failed or was killed; empty otherwise.


class TaskView(Protocol):
    """A map or reduce task of a job."""

    @property
    def task(self) -> str: ...  # The task's id, such as `job_0001_m_000003`.
    @property
    def job(self) -> JobView: ...  # The job that the task belongs to.
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
    def failures(self) -> int: ...  # Number of failed attempts; the fourth fails the job.
    @property
    def attempts(self) -> Sequence[AttemptView]: ...  # Live attempts of the task.


class StageView(Protocol):
    """All tasks of one kind (maps or reduces) of a job, with counters that are kept up to date."""

    @property
    def kind(self) -> TaskKind: ...  # TaskKind.MAP or TaskKind.REDUCE.
    @property
    def tasks(self) -> Sequence[TaskView]: ...  # All tasks, by index; empty once the job has ended.
    @property
    def demand(self) -> Demand: ...  # Resources that each task declares: `memory_bytes`, `vcores`.
    @property
    def total(self) -> int: ...  # Number of tasks.
    @property
    def unstarted(self) -> int: ...  # Tasks that no attempt runs and that are not done.
    @property
    def running(self) -> int: ...  # Live attempts, including copies and attempts being killed.
    @property
    def killing(self) -> int: ...  # Of the running: told to stop.
    @property
    def done(self) -> int: ...  # Tasks whose output is in place.
    @property
    def ready(self) -> bool: ...  # True if a task may start; reduces wait for 5% of the maps.
    @property
    def user(self) -> TallyView: ...  # Sums of this kind over all jobs of the job's user.
    @property
    def queue(self) -> TallyView: ...  # Sums of this kind over all jobs of the job's queue.


class JobView(Protocol):
    """A job. The methods that return a map or reduce find one in constant time; all return None if there is none."""

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
    def finish_s(self) -> float | None: ...  # Time of the end, s; None before.
    @property
    def maps(self) -> StageView: ...  # The job's map tasks.
    @property
    def reduces(self) -> StageView: ...  # The job's reduce tasks.
    @property
    def attempts(self) -> Mapping[str, AttemptView]: ...  # Live attempts of all tasks of the job, by id.
    @property
    def excluded(self) -> Mapping[NodeId, None]: ...  # Nodes with failures of the job, see `View.avoids`.

    def stage(self, kind: TaskKind) -> StageView:
        """Return `maps` or `reduces`."""
        ...

    def local_map(self, node: NodeId) -> TaskView | None:
        """Return an unstarted map with a replica of its input on that node."""
        ...

    def rack_map(self, rack: str) -> TaskView | None:
        """Return an unstarted map with a replica of its input in that rack."""
        ...

    def free_map(self) -> TaskView | None:
        """Return an unstarted map whose input has no location, such as a map without input."""
        ...

    def any_map(self) -> TaskView | None:
        """Return any unstarted map."""
        ...

    def whole_map(self, rack: str) -> TaskView | None:
        """Return an unstarted map that may be split (`Proposal.split`), preferably with its input in that rack."""
        ...

    def any_reduce(self) -> TaskView | None:
        """Return any unstarted reduce; None also while reduces wait for the first 5% of the maps."""
        ...


class NodeView(Protocol):
    """An emulated node. An attempt holds its slot, memory and vcores from its launch, before the node starts it."""

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
    def usage(self) -> Usage: ...  # CPU, disk, network (shares of declared rates), memory; last heartbeat.
    @property
    def attempts(self) -> Mapping[str, AttemptView]: ...  # Live attempts on the node, by id.
    @property
    def running_maps(self) -> int: ...  # Live map attempts on the node.
    @property
    def running_reduces(self) -> int: ...  # Live reduce attempts on the node.
    @property
    def free_memory_bytes(self) -> int: ...  # Memory not claimed by live attempts, bytes.
    @property
    def free_vcores(self) -> int: ...  # Cores not claimed by live attempts.

    def free_slots(self, kind: TaskKind) -> int:
        """Return the number of free slots of that kind."""
        ...


class View(Protocol):
    """The cluster at the time `now_s`: its jobs, its nodes, and questions about them.

    `random` is a generator seeded with the run's seed. It draws the same numbers when the JobTracker replays its
    journal after a crash; a policy must use no other randomness.
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
    def random(self) -> Coin: ...  # A `random.Random` from the run's seed; use no other.
    @property
    def sizes(self) -> str: ...  # Which costs `job.spec` shows: true, estimated or hidden.
    @property
    def jobs(self) -> Mapping[str, JobView]: ...  # Jobs that have not ended, by id, in order of submission.
    @property
    def nodes(self) -> Mapping[NodeId, NodeView]: ...  # All nodes, also lost ones, by name.

    def slots(self, kind: TaskKind) -> int:
        """Return the number of slots of that kind on all live nodes."""
        ...

    def fits(self, node: NodeView, stage: StageView) -> bool:
        """Return whether the node has room for another task of that stage, by the policy's `Limits`."""
        ...

    def avoids(self, job: JobView, node: NodeView, kind: TaskKind) -> bool:
        """Return whether the job avoids the node after failures there, because a better node could run the task.

        Reasons to avoid a node, strongest first: the node's disk is full and an attempt failed for that reason; the
        job's attempts failed there three times; a task of this kind failed there and waits to run again. A node is
        avoided while another node with a weaker reason or none could run the task.
        """
        ...

    def skip(self, node: NodeView, job: JobView, kind: TaskKind, reason: str) -> None:
        """Record that the job was offered this node and did not take it. Does nothing unless `records_skips`."""
        ...
