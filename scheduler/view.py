"""What a policy may see: read-only faces of the core's own objects. Nothing is copied for a decision."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from schedbed.cluster.messages import Usage
from schedbed.cluster.spec import NodeSpec
from schedbed.tasks.chance import Coin
from schedbed.tasks.parts import Part
from schedbed.tasks.specs import Counters, Demand, JobSpec, NodeId, Split, TaskKind


class TallyView(Protocol):
    """What a user or queue has of one kind of task, counted as in `StageView`."""

    @property
    def name(self) -> str: ...  # The user or queue.
    @property
    def running(self) -> int: ...  # Live attempts, those being killed included.
    @property
    def killing(self) -> int: ...  # Of the running: told to stop.
    @property
    def unstarted(self) -> int: ...  # Tasks that no attempt runs.


class AttemptView(Protocol):
    """An attempt. `serial` counts launches; `progress` runs from 0 to 1; `locality` is node, rack or off.

    A live one is assigned, running or killing; then it is succeeded, failed, killed or lost, perhaps after a while
    as committing. `counters` and `end_s` are set when its node has reported its end. `speculative`: it is a copy of
    one that ran.
    """

    @property
    def attempt(self) -> str: ...  # Its id, such as `job_0001_m_000003_0`.
    @property
    def task(self) -> TaskView: ...  # The task that it tries.
    @property
    def node(self) -> NodeView: ...  # Where it runs.
    @property
    def serial(self) -> int: ...  # Counts launches: the largest is the most recent.
    @property
    def speculative(self) -> bool: ...  # Is it a copy of a task that ran elsewhere?
    @property
    def state(self) -> str: ...  # assigned, running, killing, committing, succeeded, failed, killed or lost.
    @property
    def assigned_s(self) -> float: ...  # When it was launched.
    @property
    def started_s(self) -> float | None: ...  # When it began on its node; None until the node has said so.
    @property
    def progress(self) -> float: ...  # From 0 to 1, as of the node's last heartbeat.
    @property
    def phase(self) -> str: ...  # What it does, such as map, shuffle, sort or reduce; empty before it begins.
    @property
    def locality(self) -> str: ...  # node, rack or off: how near its input is; off for reduces.
    @property
    def end_s(self) -> float: ...  # When it ended, by its node; 0 before.
    @property
    def counters(self) -> Counters: ...  # CPU seconds and bytes that it used; all 0 before its end.
    @property
    def reason(self) -> str: ...  # Why it failed or was killed; empty otherwise.


class TaskView(Protocol):
    """A task. `hosts` and `racks` say where its input is now; `attempts` are the live ones; `part` is what it has of
    a map that was split."""

    @property
    def task(self) -> str: ...  # Its id, such as `job_0001_m_000003`.
    @property
    def job(self) -> JobView: ...  # Its job.
    @property
    def kind(self) -> TaskKind: ...  # TaskKind.MAP or TaskKind.REDUCE.
    @property
    def index(self) -> int: ...  # Its place in `stage.tasks`, and in `job.spec.map_costs` or `reduce_costs`.
    @property
    def split(self) -> Split: ...  # Its input: `file`, `offset`, `length`; empty for a reduce.
    @property
    def part(self) -> Part | None: ...  # Its `share` of a map that was split, None for a whole one.
    @property
    def hosts(self) -> tuple[NodeId, ...]: ...  # Nodes with a replica of its input now.
    @property
    def racks(self) -> tuple[str, ...]: ...  # The racks of these nodes.
    @property
    def state(self) -> str: ...  # unstarted, running, committing or done.
    @property
    def failures(self) -> int: ...  # Attempts of it that failed; four end the job.
    @property
    def attempts(self) -> Sequence[AttemptView]: ...  # Its live attempts.


class StageView(Protocol):
    """A job's tasks of one kind, by index. `running` counts live attempts, `killing` those told to stop.

    `ready` says that a task could start now: something is unstarted, and slow-start lets reduces run.
    """

    @property
    def kind(self) -> TaskKind: ...  # TaskKind.MAP or TaskKind.REDUCE.
    @property
    def tasks(self) -> Sequence[TaskView]: ...  # All of them, by index; empty once the job has ended.
    @property
    def demand(self) -> Demand: ...  # What each task asks of a node: `memory_bytes`, `vcores`.
    @property
    def total(self) -> int: ...  # Number of tasks.
    @property
    def unstarted(self) -> int: ...  # Tasks that no attempt runs, and that are not done.
    @property
    def running(self) -> int: ...  # Live attempts, copies and those being killed included.
    @property
    def killing(self) -> int: ...  # Of the running: told to stop.
    @property
    def done(self) -> int: ...  # Tasks with their output in place.
    @property
    def ready(self) -> bool: ...  # Could a task start now? Reduces wait until 5% of the maps are done.
    @property
    def user(self) -> TallyView: ...  # What the job's user has of this kind, in all jobs.
    @property
    def queue(self) -> TallyView: ...  # What the job's queue has of this kind, in all jobs.


class JobView(Protocol):
    """A job. `priority` is 0 (very high) to 4; `serial` counts submissions; `active` says that it has not ended.

    `state` is running, then succeeded, failed or killed.
    """

    @property
    def job(self) -> str: ...  # Its id, such as `job_0001`.
    @property
    def user(self) -> str: ...  # Who submitted it.
    @property
    def queue(self) -> str: ...  # The queue that it was submitted to.
    @property
    def priority(self) -> int: ...  # 0 (very high) to 4 (very low).
    @property
    def submit_s(self) -> float: ...  # When it was submitted.
    @property
    def deadline_s(self) -> float | None: ...  # When it should have ended, None for whenever.
    @property
    def serial(self) -> int: ...  # Counts submissions: the smallest came first.
    @property
    def spec(self) -> JobSpec: ...  # `name`, `app`, `params`, `input_bytes`, `map_costs`, `reduce_costs`.
    @property
    def active(self) -> bool: ...  # Has it not ended?
    @property
    def state(self) -> str: ...  # running, then succeeded, failed or killed.
    @property
    def finish_s(self) -> float | None: ...  # When it ended, None before.
    @property
    def maps(self) -> StageView: ...  # Its maps.
    @property
    def reduces(self) -> StageView: ...  # Its reduces.
    @property
    def attempts(self) -> Mapping[str, AttemptView]: ...  # Its live attempts, by id.
    @property
    def excluded(self) -> Mapping[NodeId, None]: ...  # Nodes that it avoids after three failures there.

    def stage(self, kind: TaskKind) -> StageView:
        """Return its maps or its reduces."""
        ...

    def local_map(self, node: NodeId) -> TaskView | None:
        """Return an unstarted map with a replica on that node."""
        ...

    def rack_map(self, rack: str) -> TaskView | None:
        """Return an unstarted map with a replica in that rack."""
        ...

    def free_map(self) -> TaskView | None:
        """Return an unstarted map that prefers no node."""
        ...

    def any_map(self) -> TaskView | None:
        """Any unstarted map."""
        ...

    def whole_map(self, rack: str) -> TaskView | None:
        """Return a splittable map, in that rack if there is one: with input and reduces, untried, and no part."""
        ...

    def any_reduce(self) -> TaskView | None:
        """Any unstarted reduce, when slow-start lets them run."""
        ...


class NodeView(Protocol):
    """A node. What is free excludes what is running and what is already promised."""

    @property
    def node(self) -> NodeId: ...  # Its name, such as `n3`.
    @property
    def rack(self) -> str: ...  # Its rack.
    @property
    def spec(
        self,
    ) -> NodeSpec: ...  # `cores`, `core_speed`, `memory_bytes`, `disk_bps`, `network_bps` and so on.
    @property
    def alive(self) -> bool: ...  # Does it send heartbeats?
    @property
    def usage(self) -> Usage: ...  # Shares of CPU, disk and NIC in use and memory, as of its last heartbeat.
    @property
    def attempts(self) -> Mapping[str, AttemptView]: ...  # What it runs or was promised, by id.
    @property
    def running_maps(self) -> int: ...  # Maps that it runs or was promised.
    @property
    def running_reduces(self) -> int: ...  # Reduces that it runs or was promised.
    @property
    def free_memory_bytes(self) -> int: ...  # Memory that no attempt has declared.
    @property
    def free_vcores(self) -> int: ...  # Cores that no attempt has declared.

    def free_slots(self, kind: TaskKind) -> int:
        """Typed slots that nothing holds or was promised."""
        ...


class View(Protocol):
    """The cluster at `now_s`, the only time a policy knows. `beats` counts heartbeats served.

    `jobs` are those that have not ended, in order of submission. All chance comes from `random`, a generator of the
    run's seed that gives the same draws when the JobTracker replays its journal.
    """

    @property
    def now_s(self) -> float: ...  # Seconds since the run's start: the only time a policy knows.
    @property
    def beats(self) -> int: ...  # Heartbeats that were served.
    @property
    def records_skips(self) -> bool: ...  # Are skips kept? `skip` does nothing otherwise.
    @property
    def seed(self) -> int: ...  # The run's seed.
    @property
    def random(self) -> Coin: ...  # A generator of the run's seed: the only chance a policy knows.
    @property
    def sizes(self) -> str: ...  # What `job.spec` says of costs: true, estimated or hidden.
    @property
    def jobs(self) -> Mapping[str, JobView]: ...  # Jobs that have not ended, by submission.
    @property
    def nodes(self) -> Mapping[NodeId, NodeView]: ...  # All nodes, lost ones too, by name.

    def slots(self, kind: TaskKind) -> int:
        """Typed slots of all nodes that are alive."""
        ...

    def fits(self, node: NodeView, stage: StageView) -> bool:
        """Has the node room for one more task of that stage, by what the core enforces?"""
        ...

    def avoids(self, job: JobView, node: NodeView, kind: TaskKind) -> bool:
        """Return whether the job avoids the node after failures there: less speaks against another that could run it.

        Most speaks against a node whose disk is full and where an attempt has failed for that, then against one where
        the job has failed three times, then against one where a task of the kind has failed that waits to run again.
        """
        ...

    def skip(self, node: NodeView, job: JobView, kind: TaskKind, reason: str) -> None:
        """Records, if `records_skips`, that the job was offered this node and did not take it."""
        ...
