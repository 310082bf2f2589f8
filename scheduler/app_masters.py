"""ApplicationMasters (AMs) of MapReduce on YARN: when they ask for containers, and for how many.

Source: RMCommunicator, RMContainerRequestor and RMContainerAllocator, Hadoop 3.4.1. The scheduler core knows what is
asked for. Each AM has a heartbeat of its own, at which it asks and learns of containers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from schedbed.scheduler.core.entities import Job, Stage
from schedbed.scheduler.core.ledger import Ledger
from schedbed.scheduler.core.rows import MasterStarts
from schedbed.scheduler.core.states import KILLING
from schedbed.scheduler.framework import Framework
from schedbed.scheduler.models.amounts import NOTHING, Amount
from schedbed.tasks.specs import JobSpec, NodeId, TaskKind

MAP, REDUCE = TaskKind.MAP, TaskKind.REDUCE
RAMP_UP_LIMIT = 0.5
"""Default of yarn.app.mapreduce.am.job.reduce.rampup.limit: the share of the room that reduces get while maps wait."""
WAIT_LIMIT_S = 300.0
"""Default of mapreduce.job.reduce.unconditional-preempt.delay.sec: maps wait this long beside free room."""
PREEMPTION_LIMIT = 0.5
"""Default of yarn.app.mapreduce.am.job.reduce.preemption.limit: the share of the room that is taken from reduces."""


class JobMaster(Protocol):
    """The JobTracker as AMs see it: its state and jobs by id, and the events that it journals and applies."""

    @property
    def ledger(self) -> Ledger: ...
    @property
    def jobs(self) -> Mapping[str, JobSpec]: ...
    def do(self, now_s: float, kind: str, *arguments: Any) -> Any: ...


class AppMasters:
    """The AMs of all jobs. `later(at_s, number)` has `on_allocate` called with that number at that time.

    `wake` lets a node send a heartbeat soon.
    """

    def __init__(
        self,
        later: Callable[[float, int], None],
        master: JobMaster,
        framework: Framework,
        wake: Callable[[float, NodeId], None],
    ) -> None:
        self._later, self._master, self._framework, self._wake = later, master, framework, wake
        self._registered_s: dict[str, float] = {}  # by job: the start of its AM's heartbeats
        self._asking: list[LateAsks | MapReduceMaster] = []
        # By job: its AM, if that has a container, and its place in `_asking`.
        self._inside: dict[str, tuple[int, MapReduceMaster]] = {}

    @property
    def count(self) -> int:
        """Return the number of jobs that have not ended and whose AM has a container."""
        return len(self._inside)

    def submitted(self, now_s: float, job: JobSpec, registered_s: float) -> None:
        """Let the AM of a submitted job begin that has no container and has registered at `registered_s`."""
        if self._framework.master is None:
            self._registered_s[job.job] = registered_s
            if self._framework.late_asks:
                self._begin(now_s, LateAsks(job, self._master))

    def starts(self, now_s: float, granted: MasterStarts) -> None:
        """Let an AM begin whose container was granted. The AM registers when it has initialized the job."""
        job = self._master.jobs.get(granted.job)
        if job is not None:
            self._registered_s[job.job] = now_s + self._framework.setup_s
            am = MapReduceMaster(job, granted.attempt, self._master, self._framework, self._wake)
            self._inside[job.job] = len(self._asking), am
            if job.uber:
                self._begin_at(self._registered_s[job.job] + self._framework.localize_s, am)
            else:
                self._begin(self._registered_s[job.job], am)

    def ended(self, now_s: float, job: str) -> None:
        """Schedule the release of the container of an ended job's AM."""
        number, am = self._inside.pop(job, (0, None))
        if am is not None:
            am.leave_s = now_s + self._framework.cleanup_s + self._framework.am_linger_s
            self._later(am.leave_s, number)

    def _begin(self, from_s: float, am: LateAsks | MapReduceMaster) -> None:
        self._begin_at(self.heartbeat_s(from_s, am.job), am)

    def _begin_at(self, at_s: float, am: LateAsks | MapReduceMaster) -> None:
        self._asking.append(am)
        self._later(at_s, len(self._asking) - 1)

    def on_allocate(self, now_s: float, number: int) -> None:
        """Process the heartbeat of the AM with this number, and schedule its next one unless its job has ended."""
        am = self._asking[number]
        if am.heartbeat(now_s):
            self._later(self.heartbeat_s(now_s, am.job), number)

    def starts_s(self, now_s: float, job: str) -> tuple[float, bool]:
        """Return when the AM starts an attempt that is granted now, and whether the node needs the job's files first.

        The AM has not heard of the container before its next heartbeat, unless the tasks run inside it.
        """
        known = self._master.jobs.get(job)
        if known is not None and known.uber and self._framework.master is not None:
            return now_s, False
        return self.heartbeat_s(now_s, job), True

    def heartbeat_s(self, now_s: float, job: str) -> float:
        """Return the time of the first heartbeat of a job's AM after `now_s`."""
        interval_s, registered_s = self._framework.am_heartbeat_s, self._registered_s[job]
        number = int((now_s - registered_s) / interval_s) + 1
        while (at_s := registered_s + number * interval_s) <= now_s:  # By rounding.
            number += 1
        return at_s


class LateAsks:
    """The numbers of containers that a job's AM asks for, each sent one heartbeat late.

    At a heartbeat, MapReduce's AM sends the numbers that it had after the last one (RMContainerRequestor.
    makeRemoteRequest, Hadoop 3.4.1). They replace the ResourceManager's (AppSchedulingInfo.updateResourceRequests),
    which has counted grants since. So containers come for which no task is left. The AM learns of them at its
    next heartbeat, and releases them at the one after that.
    """

    def __init__(self, job: JobSpec, master: JobMaster) -> None:
        self.job = job.job
        self._master = master
        self._left = {TaskKind.MAP: job.maps, TaskKind.REDUCE: job.reduces}  # as known at the last heartbeat
        self._unsent: dict[TaskKind, int] = {}
        self._unused: list[str] = []  # Attempts to release at the next heartbeat.

    def heartbeat(self, now_s: float) -> bool:
        """Send numbers and releases, and take what was granted. Return False if the job has ended."""
        job = self._master.ledger.jobs.get(self.job)
        if job is None:
            return False
        for kind, asked in self._unsent.items():
            self._master.do(now_s, "ask", self.job, kind, asked)
        self._unsent = {}
        for attempt in self._unused:
            self._master.do(now_s, "release", self.job, attempt)
        self._unused = [attempt.attempt for attempt in job.attempts.values() if attempt.task.is_empty]
        for kind, known in self._left.items():
            stage = job.stage(kind)
            if (left := stage.unstarted - stage.excess) != known:
                self._left[kind] = self._unsent[kind] = left
        return True


class MapReduceMaster:
    """The AM of one job, in the container of `attempt`: it decides how many maps and reduces the job asks for.

    All maps are asked for at once, up to the job's `running_map_limit`. Reduces are asked for when a share of the maps
    is done (slow start), as many as the ramp-up limit allows while maps wait, and are stopped when they take all the
    room that maps need. With `late_asks`, numbers are sent one heartbeat late (see `LateAsks`).

    Deviations: the headroom is the room free on all nodes, whatever the limits of queues and users; attempts that fail
    are asked for again one heartbeat later than in Hadoop.
    """

    def __init__(
        self,
        job: JobSpec,
        attempt: str,
        master: JobMaster,
        framework: Framework,
        wake: Callable[[float, NodeId], None],
    ) -> None:
        self.job = job.job
        self.leave_s = math.inf
        self._spec, self._attempt, self._master, self._wake = job, attempt, master, wake
        self._slowstart, self._is_late = framework.slowstart, framework.late_asks
        self._numbers = {MAP: job.maps, REDUCE: 0}  # that the job asks for, as known at the last heartbeat
        self._granted = {MAP: 0, REDUCE: 0}
        self._unsent: dict[TaskKind, int] = {MAP: job.maps}
        self._unused: list[str] = []  # Attempts to release at the next heartbeat.
        self._reduces_begin = False
        self._waits_since_s = math.inf  # when maps began to wait while none ran

    def heartbeat(self, now_s: float) -> bool:
        """Send numbers and releases, take what was granted, and decide what to ask for. Return False after the end."""
        job = self._master.ledger.jobs.get(self.job)
        if job is None:
            if now_s >= self.leave_s:
                self._master.do(now_s, "release", self.job, self._attempt)
            return False
        if self._attempt not in job.attempts:  # Its node was lost, and another AM follows.
            return False
        if self._spec.uber:
            self._run_inside(now_s, job)
            return False
        self._send(now_s, job)
        for attempt in self._unused:
            self._master.do(now_s, "release", self.job, attempt)
        empties = [
            each for each in job.attempts.values() if each.task.is_empty and each.attempt != self._attempt
        ]
        self._unused = [each.attempt for each in empties]
        self._decide(now_s, job)
        if not self._is_late:
            self._send(now_s, job)
        return True

    def _run_inside(self, now_s: float, job: Job) -> None:
        self._master.do(now_s, "start_inside", self.job)
        self._wake(now_s, job.attempts[self._attempt].node.node)

    def _send(self, now_s: float, job: Job) -> None:
        """Send the numbers that have changed. The limit of running maps counts the containers granted by now."""
        most = self._spec.running_map_limit
        if most:
            self._unsent.pop(MAP, None)
            maps = min(self._numbers[MAP], max(0, most - job.maps.running))
            if maps != job.maps.unstarted:
                self._unsent[MAP] = maps
        for kind, asked in self._unsent.items():
            granted = job.stage(kind).grants - self._granted[kind]
            meant = None if kind is MAP else max(0, self._numbers[kind] - granted)
            self._master.do(now_s, "ask", self.job, kind, asked, meant)
        self._unsent = {}

    def _decide(self, now_s: float, job: Job) -> None:
        """Note what was granted, and the numbers to be sent."""
        maps, reduces = job.maps, job.reduces
        granted = {stage.kind: stage.grants - self._granted[stage.kind] for stage in (maps, reduces)}
        self._granted = {stage.kind: stage.grants for stage in (maps, reduces)}
        maps_left = _own(maps)
        scheduled = min(_own(reduces), max(0, self._numbers[REDUCE] - granted[REDUCE]))
        if reduces.total:
            scheduled = self._reduces_to_ask_for(now_s, job, maps_left, scheduled)
        for kind, number in ((MAP, maps_left), (REDUCE, scheduled)):
            if number != self._numbers[kind] or granted[kind]:
                self._numbers[kind] = self._unsent[kind] = number

    def _reduces_to_ask_for(self, now_s: float, job: Job, maps_left: int, scheduled: int) -> int:
        """Return the number of reduces (scheduleReduces, preemptReducesIfNeeded), and stop reduces for waiting maps."""
        maps, reduces = job.maps, job.reduces
        pending = _own(reduces) - scheduled
        room: Amount | None = None
        if not maps_left or _at_work(maps):
            self._waits_since_s = now_s
        else:
            room = self._free_room().plus(reduces.demand, reduces.killing)
            is_full = room.plus(reduces.demand, -scheduled).holds(maps.demand) <= 0
            if is_full or now_s - self._waits_since_s > WAIT_LIMIT_S:
                self._stop_reduces(now_s, job, maps_left, room)
                return 0
        if not pending:
            return scheduled
        if not self._reduces_begin:
            self._reduces_begin = maps.done >= math.ceil(self._slowstart * maps.total)
            if not self._reduces_begin:
                return scheduled
        if not maps_left:
            return scheduled + pending
        whole = self._whole_room(job, room or self._free_room())
        for_reduces = whole.times(min(maps.done / maps.total, RAMP_UP_LIMIT))
        for_maps = whole.plus(for_reduces, -1)
        wanted = maps_left + _at_work(maps)
        if for_maps.holds(maps.demand) >= wanted:
            for_reduces = whole.plus(maps.demand, -wanted)
        more = for_reduces.plus(reduces.demand, -scheduled - _at_work(reduces)).holds(reduces.demand)
        return scheduled + max(-scheduled, min(more, pending))

    def _stop_reduces(self, now_s: float, job: Job, maps_left: int, free: Amount) -> None:
        """Stop the reduces with the least progress, so that at least one map fits (preemptReducer)."""
        demand = job.reduces.demand
        one, every = (NOTHING.plus(job.maps.demand, count).takes(demand) for count in (1, maps_left))
        most = self._whole_room(job, free).times(PREEMPTION_LIMIT).takes(demand)
        count = min(max(one, most), every) - job.reduces.killing
        running = [
            each
            for each in job.attempts.values()
            if each.task.stage is job.reduces and each.state is not KILLING and not each.task.is_empty
        ]
        for attempt in sorted(running, key=lambda each: (each.progress, -each.serial))[: max(0, count)]:
            self._master.do(now_s, "stop", self.job, attempt.attempt, "the job's maps find no room")

    def _free_room(self) -> Amount:
        alive = [node for node in self._master.ledger.nodes.values() if node.alive]
        return Amount(sum(node.free_memory_bytes for node in alive), sum(node.free_vcores for node in alive))

    @staticmethod
    def _whole_room(job: Job, free: Amount) -> Amount:
        """Return the room that is free or holds maps and reduces of the job (getResourceLimit)."""
        return free.plus(job.maps.demand, _at_work(job.maps)).plus(job.reduces.demand, _at_work(job.reduces))


def _own(stage: Stage) -> int:
    """Return the number of unstarted tasks, asked for or not."""
    return stage.unstarted - stage.excess + stage.hidden


def _at_work(stage: Stage) -> int:
    """Return the number of attempts that run and are not being stopped."""
    return stage.running - stage.killing
