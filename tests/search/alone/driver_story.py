"""A random test of the driver alone: jobs share input files, replicas move, and the JobTracker crashes."""

from __future__ import annotations

from functools import partial
from math import inf
from random import Random
from typing import Any

from schedbed.cluster.spec import NodeSpec
from schedbed.scheduler.core.rows import JobEnded, NodeLost, NoSink
from schedbed.scheduler.core.settings import CoreConfig
from schedbed.scheduler.driver import Driver, Plan
from schedbed.scheduler.event_log import ANSWERED, EventList
from schedbed.scheduler.hooks import Limits
from schedbed.scheduler.policy import HeartbeatWatch, HostedPolicy
from schedbed.scheduler.registry.registry import build_policy
from schedbed.tasks.chance import chance
from schedbed.tasks.specs import BlockRange, Demand, JobSpec, Split
from tests.search.violation import hold

CHECK = "the driver knows the files of jobs that have not ended"
AGAIN = "what may not have been done is done again"


class Impure(HostedPolicy):
    """A user's policy that draws random numbers outside the seed; a recovery must restore the same numbers.

    The policy keeps its answers for the journal, as `scheduler.guard` does for such policies.
    """

    limits = Limits(slots=True)

    def __init__(self, lots: Random) -> None:
        self._lots = lots
        self.drawn: list[float] = []
        self.difference = ""
        self._given: list[float] = []
        self._known: list[float] = []

    def decide(self, view: Any, node: Any, kind: Any) -> None:
        """Leave the slot free: no node of this test has slots."""

    def submitted(self, view: Any, job: Any) -> None:
        """Implement `Hooks`: draw a number, or take the recorded one during a replay."""
        if self._known:
            self.drawn.append(self._known.pop(0))
        else:
            self.drawn.append(self._lots.random())
            self._given.append(self.drawn[-1])

    def watch_heartbeats(self) -> HeartbeatWatch:
        """Implement `HostedPolicy`: nothing is read."""
        return HeartbeatWatch()

    def line_of(self, method: str) -> str:
        """Implement `HostedPolicy`."""
        return method

    def keep_answers(self) -> Impure:
        """Implement `KeptAnswers`: return this policy, which records the numbers itself."""
        return self

    def take(self) -> tuple[float, ...] | None:
        """Implement `KeptAnswers`: return the numbers drawn since the last call; None if there are none."""
        given, self._given = tuple(self._given), []
        return given or None

    def replay(self, replies: Any) -> None:
        """Implement `KeptAnswers`: use the recorded numbers for the next event."""
        self._known = list(replies or ())

    def keep_state(self) -> tuple[float, ...]:
        """Return the drawn numbers for a snapshot."""
        return tuple(self.drawn)

    def restore_state(self, view: Any, kept: tuple[float, ...]) -> None:
        """Restore the drawn numbers from a snapshot."""
        self.drawn = list(kept)


class DriverStory:
    """Gives random events to a driver, and compares it with a model of its jobs and their input files."""

    def __init__(self, seed: int, steps: int) -> None:
        luck = self._luck = chance(seed, "driver alone")
        self._steps, self._now_s = steps, 0.0
        files = {f"/in{at}": luck.randint(1, 3) for at in range(4)}
        self._jobs = {
            job.job: job for job in (self._job(number, files) for number in range(luck.randint(2, 8)))
        }
        self._ranges = {
            name: tuple(self._range(name, place, ("n0",)) for place in range(count))
            for name, count in files.items()
            if any(split.file == name for job in self._jobs.values() for split in job.splits)
        }
        self._every = luck.choice((2, 7, 1000))
        lots = chance(seed, "an impure policy")
        self._policy: Any = partial(Impure, lots) if lots.random() < 0.6 else partial(build_policy, "fifo")
        self._journal = EventList(self._every)
        self._driver = Driver(CoreConfig(), self._policy, NoSink(), seed=seed, journal=self._journal)
        self._submitted: set[str] = set()
        self._ended: set[str] = set()
        self._open: list[Any] = []
        self._lives = 0

    @staticmethod
    def _range(name: str, place: int, nodes: tuple[str, ...]) -> BlockRange:
        return BlockRange(block=f"{name}:{place}", offset=10 * place, length=10, nodes=nodes)

    def _job(self, number: int, files: dict[str, int]) -> JobSpec:
        luck = self._luck
        read = luck.sample(list(files), luck.choice((0, 1, 1, 2)))
        ranges = [(name, place) for name in read for place in range(files[name])]
        splits = tuple(
            Split(index=at, file=name, offset=10 * place, length=10, block=f"{name}:{place}", hosts=("n0",))
            for at, (name, place) in enumerate(ranges)
        )
        demand, name = Demand(memory_bytes=1, vcores=1), f"job_{number:04d}"
        return JobSpec(
            job=name,
            name=name,
            app="any",
            user="ana",
            submit_s=luck.choice((0.0, 1.0, 1.0, 5.0)),
            splits=splits,
            reduces=0,
            map_demand=demand,
            reduce_demand=demand,
        )

    def run(self) -> None:
        """Run random steps with checks, then end all jobs. Raises Violation if a check fails."""
        self._driver.do(0.0, "plan", Plan(jobs=tuple(self._jobs.values()), files=self._ranges))
        self._check()
        for _ in range(self._steps):
            self._now_s += self._luck.choice((0.0, 0.1, 0.4))
            self._luck.choice(
                (self._due, self._due, self._kill, self._move, self._node, self._crash, self._done)
            )()
            self._check()
        self._driver.kill(self._now_s, None, "the end")
        self._submitted = set(self._jobs)
        self._take()
        self._check()
        hold(self._ended == set(self._jobs), "every job ends once", self._ended)
        snapshot, _ = next(iter(self._journal.beginnings()))
        kept = snapshot is not None or self._every > 2 or self._steps < 20
        hold(kept and not self._driver.report().get("journal"), "snapshots are kept", self._driver.report())
        hold(not self._driver.core.ledger.moved, CHECK, f"{self._driver.core.ledger.moved} is still known")

    def _due(self) -> None:
        due = {name for name, job in self._jobs.items() if job.submit_s <= self._now_s} - self._submitted
        hold(self._driver.submit_due(self._now_s) == len(due), "jobs come at their times", due)
        self._submitted |= due
        self._take()

    def _kill(self) -> None:
        if self._luck.random() < 0.3:
            name = self._luck.choice([*self._jobs, "job_9999"])
            self._driver.kill(self._now_s, [name], "by order")
            self._submitted |= {name} & self._jobs.keys()
            self._take()
            hold(name not in self._jobs or name in self._ended, "a job that is killed ends", name)

    def _move(self) -> None:
        """Move a block's replica to another node."""
        name = self._luck.choice([*self._ranges, "/of nobody"])
        place = self._luck.randrange(len(self._ranges.get(name, "x")))
        nodes = (f"n{self._luck.randrange(4)}",)
        if name in self._files():
            self._driver.do(self._now_s, "replicas_changed", f"{name}:{place}", nodes)
            known = list(self._ranges[name])
            known[place] = self._range(name, place, nodes)
            self._ranges[name] = tuple(known)

    def _node(self) -> None:
        self._lives += 1
        spec = NodeSpec(
            node="n0",
            rack="r0",
            cores=1,
            core_speed=1.0,
            memory_bytes=1,
            disk_bps=1e8,
            network_bps=1e8,
            map_slots=0,
            reduce_slots=0,
        )
        self._driver.do(self._now_s, "register", spec, self._lives)
        if self._luck.random() < 0.6:
            self._driver.do(self._now_s, "node_lost", "n0")
            self._take()

    def _done(self) -> None:
        """Report about half of the open effects as carried out."""
        for effect in [each for each in self._open if self._luck.random() < 0.5]:
            self._driver.carried_out(effect)
            self._open.remove(effect)

    def _take(self) -> None:
        for effect in self._driver.take_effects():
            hold(
                effect not in self._open or isinstance(effect, NodeLost),
                "effects are handed out once",
                effect,
            )
            if effect not in self._open:
                self._open.append(effect)
            if isinstance(effect, JobEnded):
                self._ended.add(effect.job)
        hold(not self._driver.take_effects(), "effects are handed out once", "and again")

    def _crash(self) -> None:
        """Recover after a crash, and check that open effects are returned again."""
        if self._luck.random() < 0.5:
            before = list(getattr(self._driver.policy, "drawn", ()))
            unheard = self._lose_answers()
            effects = self._driver.recover(self._now_s)
            after = list(getattr(self._driver.policy, "drawn", ()))
            same = len(before) - unheard
            answers = f"{after} instead of {before}, {unheard} unheard"
            hold(
                after[:same] == before[:same] and len(after) == len(before),
                "answers stay as they were",
                answers,
            )
            node = self._driver.core.ledger.nodes.get("n0")
            there = node is not None and node.alive
            hold(
                not (there and any(isinstance(each, NodeLost) for each in effects)),
                AGAIN,
                "n0 is lost and lives",
            )
            open_now = [each for each in self._open if not (there and isinstance(each, NodeLost))]
            hold(all(each in effects for each in open_now), AGAIN, f"{open_now} are not all of {effects}")
            hold(
                all(each.job in self._ended for each in effects if isinstance(each, JobEnded)), AGAIN, effects
            )
            self._open = list(effects)
            hold(not self._driver.take_effects(), "effects are handed out once", "after a crash")

    def _lose_answers(self) -> int:
        """Drop the last event's answers from the journal, sometimes; return the number of lost answers."""
        journal = self._journal
        last = journal._forgotten + len(journal._events)
        kept = journal._snapshots[-1][0] if journal._snapshots else 0
        if (
            journal._events
            and journal._events[-1][1] == ANSWERED
            and kept < last
            and self._luck.random() < 0.5
        ):
            return len(journal._events.pop()[2][0])
        return 0

    def _files(self) -> set[str]:
        left = [job for name, job in self._jobs.items() if name not in self._ended]
        return {str(split.file) for job in left for split in job.splits}

    def _check(self) -> None:
        driver, files = self._driver, self._files()
        left = {name: job for name, job in self._jobs.items() if name not in self._ended}
        hold(driver.jobs == left, CHECK, f"{set(driver.jobs)} instead of {set(left)}")
        wanted = {name: ranges for name, ranges in self._ranges.items() if name in files}
        hold(driver.files == wanted, CHECK, f"{driver.files} instead of {wanted}")
        blocks = {each.block: name for name in wanted for each in wanted[name]}
        hold(driver._file_of == blocks, CHECK, f"{driver._file_of} instead of {blocks}")
        stays = driver.core.ledger.moved.keys() - blocks.keys()
        hold(not stays, CHECK, f"{stays} of no file")
        waiting = [job for name, job in self._jobs.items() if name not in self._submitted]
        order = sorted(waiting, key=lambda job: (job.submit_s, job.job))
        hold(
            list(driver.waiting) == order,
            "jobs come at their times",
            f"{[job.job for job in driver.waiting]}",
        )
        hold(
            driver.next_due_s == (order[0].submit_s if order else inf),
            "jobs come at their times",
            driver.next_due_s,
        )
        hold(driver.submit_times_s == {n: j.submit_s for n, j in self._jobs.items()}, CHECK, "times")
        for job in left.values():
            for split in job.splits[:1]:
                hold(driver.blocks_of(split) == wanted[str(split.file)], CHECK, f"{split}")
