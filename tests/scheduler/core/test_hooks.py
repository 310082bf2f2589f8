"""The optional hooks of a policy: their arguments and order of calls, and that `Composed` forwards them to
its axes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from schedbed.scheduler.admission.slots import Slots
from schedbed.scheduler.hooks import Kill
from schedbed.scheduler.locality.greedy import Greedy
from schedbed.scheduler.order.fifo import Fifo
from schedbed.scheduler.policy import Composed
from schedbed.scheduler.view import AttemptView, JobView, NodeView, View
from schedbed.tasks.specs import TaskKind
from tests.harness.world import World, job, node


class Diary:
    """Appends one line to `pages` at each call of a hook.

    Each line begins with `who`, the name of the axis.
    """

    def __init__(self, pages: list[str], who: str = "") -> None:
        super().__init__()
        self.pages = pages
        self.who = who

    def submitted(self, view: View, job: JobView) -> None:
        """Append the job's id and its numbers of maps and reduces."""
        self.pages.append(f"{self.who}submitted {job.job} {len(job.maps.tasks)}+{len(job.reduces.tasks)}")

    def finished(self, view: View, job: JobView) -> None:
        """Append the job's id and final state."""
        assert job.finish_s == view.now_s and not job.active
        self.pages.append(f"{self.who}finished {job.job} {job.state}")

    def ended(self, view: View, attempt: AttemptView) -> None:
        """Append the attempt, its final state, the state of its task and the reason."""
        state, task = attempt.state, attempt.task
        assert attempt.end_s > 0 and attempt not in task.attempts
        self.pages.append(f"{self.who}ended {attempt.attempt} {state} {task.state} {attempt.reason}".rstrip())


class DiaryOrder(Diary, Fifo):
    """The order FIFO with hooks that write a diary."""


class DiaryLocality(Diary, Greedy):
    """The greedy locality with hooks that write a diary."""

    def beat(self, view: View, node: NodeView) -> None:
        """Append a line for each heartbeat."""
        self.pages.append("beat")

    def tick(self, view: View) -> None:
        """Append a line for each tick."""
        self.pages.append("tick")

    def preempt(self, view: View) -> Sequence[Kill]:
        """Kill the newest attempt at 20 s."""
        if view.now_s != 20:
            return ()
        newest = max((a for job in view.jobs.values() for a in job.attempts.values()), key=lambda a: a.serial)
        return [Kill(newest, "on a whim")]


def events(pages: list[str]) -> list[str]:
    """Return the lines of a diary without those of heartbeats and ticks."""
    return [page for page in pages if page not in ("beat", "tick")]


def test_the_life_of_a_job_as_its_policy_hears_it():
    """The hooks are called in the order of events.

    A reduce has succeeded only after its commit, and a kill, failure or failed commit is reported before the
    next attempt.
    """
    pages: list[str] = []
    policy = Composed(DiaryOrder(pages), Greedy(), Slots())
    world = World(policy, [node("n1")])
    world.failing = lambda attempt, _: "bad luck" if attempt == "job_1_m_000000_0" else None
    world.commit_fails = lambda attempt: attempt == "job_1_r_000000_0"
    world.submit(job("job_1", 1, reduces=1)).submit(job("job_2", 1, submit_s=40))
    world.at(43, lambda: world.core.kill_job(world.now_s, "job_2", "enough")).run()
    assert events(pages) == [
        "submitted job_1 1+1",
        "ended job_1_m_000000_0 failed running bad luck",
        "ended job_1_m_000000_1 succeeded done",
        "ended job_1_r_000000_0 failed committing output unreadable",
        "ended job_1_r_000000_1 succeeded done",
        "finished job_1 succeeded",
        "submitted job_2 1+0",
        "finished job_2 killed",
        "ended job_2_m_000000_0 killed running job killed",
    ]


def test_each_axis_hears_all_and_may_kill():
    """Each event is reported to the order first and then to the locality, which may kill attempts.

    Ticks occur without heartbeats, and the admission, which has no hooks, is not called.
    """
    pages: list[str] = []
    policy = Composed(DiaryOrder(pages, "order "), DiaryLocality(pages, "locality "), Slots())
    world = World(policy, [node("n1")], task_ms=15_000)
    world.submit(job("job_1", 2)).run()
    heard = events(pages)
    assert heard[::2] == [page.replace("locality", "order") for page in heard[1::2]]
    assert [page for page in heard if page.startswith("order")] == [
        "order submitted job_1 2+0",
        "order ended job_1_m_000000_0 succeeded done",
        "order ended job_1_m_000001_0 killed running on a whim",
        "order ended job_1_m_000001_1 succeeded done",
        "order finished job_1 succeeded",
    ]
    assert pages.count("beat") > 60 and pages.count("tick") == int(world.now_s / 0.5)


def test_a_tick_comes_after_what_has_changed():
    """At each tick the order's lists of ready jobs equal those of the core.

    They contain no job that has ended.
    """

    class Looking(Fifo):
        """The order FIFO, which checks its lists of ready jobs at each tick."""

        def tick(self, view: View) -> None:
            """Assert that the order's lists of ready jobs equal those of the core."""
            for kind in TaskKind:
                ready = [job.job for job in view.jobs.values() if job.stage(kind).ready]
                assert sorted(job.job for job in self._ready[kind]) == sorted(ready)

    world = World(Composed(Looking(), Greedy(), Slots()), [node("n1")])
    world.submit(job("job_1", 0, reduces=2, submit_s=0.6)).submit(job("job_2", 2))
    world.at(20.6, lambda: world.core.kill_job(world.now_s, "job_1", "enough")).run()


def test_what_no_axis_has_the_policy_does_not_have():
    """A composed policy has only the hooks that one of its axes has, so the core calls no others.

    A subclass may override a hook.
    """

    class Own(Composed):
        """A composed policy that defines the hook `tick` itself."""

        def tick(self, view: View) -> None:
            """Replace the hooks of the axes."""

    policy: Any = Composed(Fifo(), Greedy(), Slots())
    names = ("submitted", "finished", "ended", "beat", "tick", "preempt")
    assert not any(hasattr(policy, name) for name in names)
    own: Any = Own(Fifo(), DiaryLocality([]), Slots())
    assert own.tick.__func__ is Own.tick and own.beat.__func__ is DiaryLocality.beat
