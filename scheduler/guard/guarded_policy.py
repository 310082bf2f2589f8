"""A user's policy as the core calls it: it sees faces, its answers are checked, its time and its errors are bounded.

The policies that are shipped go to the core without this; tests prove that both doors give the same rows.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from itertools import islice
from math import isfinite
from typing import Any

from schedbed.scheduler.core.entities import Attempt, Job, Node, Task
from schedbed.scheduler.core.ledger import Ledger
from schedbed.scheduler.core.snapshots import Unkept
from schedbed.scheduler.core.states import SUCCEEDED
from schedbed.scheduler.guard.answers import Answers
from schedbed.scheduler.guard.blame import Culprit
from schedbed.scheduler.guard.faces import Faces
from schedbed.scheduler.guard.guarded_calls import Guard
from schedbed.scheduler.guard.idle_watch import IdleWatch
from schedbed.scheduler.guard.read_only import clean, is_plain
from schedbed.scheduler.policies.keeper_choice import Keeping
from schedbed.scheduler.policy import Kill, Limits, Policy, Proposal, says
from schedbed.tasks.specs import TaskKind

REJECTS = 100
"""So many wrong proposals in a row end a run."""


class GuardedPolicy:
    """A policy around the user's own; it has the hooks and says what that one says."""

    def __init__(self, make: Callable[[], Any], culprit: Culprit, made: type) -> None:
        self._guard = Guard(culprit, made)
        self.own: Any = self._guard.call("__init__", make)
        self._faces = Faces()
        self._ledger: Ledger | None = None
        self._rejects = 0
        self._answers: Answers | None = None
        self._guard.call("__init__", self._take_over)

    # ------------------------------------------------------------- what it says

    def _take_over(self) -> None:
        """Look at what the policy has and says of itself."""
        own = self.own
        self._ask = self._guard.wrap("decide", _method(own, "decide"))
        if hasattr(own, "limits"):
            self.limits = _limits(own.limits)
        patience_s = getattr(own, "patience_s", 0.0)
        self._idle = IdleWatch(float(patience_s))
        self._own_ended = self._wrapped("ended")
        self._own_finished = self._wrapped("finished")
        for name in ("submitted", "beat", "changed", "tick"):
            if hasattr(own, name):
                setattr(self, name, self._hook(name, _method(own, name)))
        if hasattr(own, "preempt"):
            self._own_preempt = _method(own, "preempt")
            self._listing = self._guard.wrap("preempt", self._listed)
            self.preempt = self._preempt
        self._say(own)
        if getattr(own, "speculation", None) is not None:
            self.speculation = self._speculation_of(own.speculation)
        if getattr(own, "admission", None) is not None:
            self.admission = GuardedAdmission(own.admission, self._hook)

    def _wrapped(self, name: str) -> Callable[..., Any] | None:
        return self._guard.wrap(name, _method(self.own, name)) if hasattr(self.own, name) else None

    def _say(self, own: Any) -> None:
        if says(own, "elidable") is True:
            self.elidable = True
        ticks = getattr(own, "acts_on_ticks", None)
        if ticks is not None:
            self.acts_on_ticks = bool(ticks)
        keeping = getattr(own, "keeping", None) or getattr(getattr(own, "locality", None), "keeping", None)
        if keeping is not None:
            self.keeping = Keeping(*keeping)
        waiting = [part for part in (own, *getattr(own, "axes", ())) if hasattr(part, "awaits_beat")]
        if waiting:
            asked = [_method(part, "awaits_beat") for part in waiting]
            self.awaits_beat = self._guard.wrap(
                "awaits_beat", asked[0] if len(asked) == 1 else lambda: any(each() for each in asked)
            )
        if hasattr(own, "report"):
            self.report = self._guard.wrap("report", partial(_json_report, _method(own, "report")))

    def _speculation_of(self, own: Any) -> Any:
        if type(own).__module__.startswith("schedbed."):
            return own
        return GuardedSpeculation(own, self._hook, self._guard.wrap, self._answer)

    def _hook(self, name: str, method: Callable[..., Any]) -> Callable[..., Any]:
        """Return the method as the core calls it, those without a detour that are called most often."""
        call = self._guard.wrap(name, method)

        def hook(*arguments: Any) -> Any:
            return call(*[self._shown(each) for each in arguments])

        def of_view(view: Ledger) -> Any:
            faces = self._faces if view is self._ledger else self._met(view)
            return call(faces[view])

        def of_one(view: Ledger, about: Any) -> Any:
            faces = self._faces if view is self._ledger else self._met(view)
            return call(faces[view], faces[about])

        def of_kind(view: Ledger, job: Job, kind: TaskKind) -> Any:
            faces = self._faces if view is self._ledger else self._met(view)
            return call(faces[view], faces[job], kind)

        return {"tick": of_view, "submitted": of_one, "beat": of_one, "changed": of_kind}.get(name, hook)

    def _shown(self, argument: Any) -> Any:
        if argument is not self._ledger and isinstance(argument, Ledger):
            self._met(argument)
        return argument if isinstance(argument, TaskKind) else self._faces[argument]

    def _met(self, ledger: Ledger) -> Faces:
        """Return the faces of a ledger that this policy had not seen."""
        self._ledger = ledger
        self._faces = Faces(ledger.size_view, ledger.seed)
        return self._faces

    def keep_answers(self) -> Answers:
        """Keep all answers from now on, for a journal."""
        self._answers = Answers(self._guard.line_of)
        return self._answers

    def line_of(self, method: str) -> str:
        """Return the file and line of a method of the user's own."""
        return self._guard.line_of(method)

    def keep_state(self) -> Any:
        """Return what the policy's `state` gives, and what is known of the policy here, for a snapshot.

        Raises Unkept when the policy has no such method or gives more than plain values.
        """
        own = self.own
        if not (hasattr(own, "state") and hasattr(own, "restore")):
            raise Unkept(f"the policy has no state() and restore() ({self._guard.line_of('decide')})")
        speculation = getattr(self, "speculation", None)
        if speculation is not None and not isinstance(speculation, GuardedSpeculation):
            raise Unkept("a policy of one's own has copies made by speculation that is shipped")
        state = self._guard.call("state", _method(own, "state"))
        if not is_plain(state):
            raise Unkept(f"state() gives more than plain values ({self._guard.line_of('state')})")
        difference = "" if self._answers is None else self._answers.difference
        return state, self._rejects, self._idle, difference

    def restore_state(self, view: Ledger, kept: Any) -> None:
        """Have the policy go on from what `keep_state` has returned."""
        state, self._rejects, self._idle, difference = kept
        if self._answers is not None:
            self._answers.difference = difference
        self._guard.call("restore", _method(self.own, "restore"), self._shown(view), state)

    # -------------------------------------------------------------------- hooks

    def ended(self, view: Ledger, attempt: Attempt) -> None:
        """As in `Hooks`; the attempt is forgotten after it."""
        if attempt.state is SUCCEEDED:
            self._idle.succeeded()
        if self._own_ended is not None:
            self._own_ended(self._shown(view), self._faces[attempt])
        self._faces.pop(attempt, None)

    def finished(self, view: Ledger, job: Job) -> None:
        """As in `Hooks`; the job's tasks are forgotten after it."""
        if self._own_finished is not None:
            self._own_finished(self._shown(view), self._faces[job])
        self._faces.forget(job)

    def _preempt(self, view: Ledger) -> list[Kill]:
        """As in `Hooks`: what can be killed of what the policy wants killed."""
        most = view.live_attempts + REJECTS
        kills: list[Kill] = []
        for own in self._listing(self._shown(view), most):
            attempt: Attempt | None = self._faces.raw(getattr(own, "attempt", None), Attempt)
            if attempt is None or attempt.state not in ("assigned", "running"):
                self._reject_kill(view, own, attempt)
                continue
            if any(kill.attempt is attempt for kill in kills):
                continue
            kills.append(Kill(attempt, _text(own.reason)))
            trouble = self._idle.killed(view)
            if trouble:
                raise self._guard.failed(trouble, "preempt")
        return kills if self._answers is None else self._answers.kills(view, kills)

    def _reject_kill(self, view: Ledger, own: Any, attempt: Attempt | None) -> None:
        if attempt is None:
            fault = f"the {type(own).__name__} is no Kill of an attempt that lives"
            self._reject(view, "", None, "", fault, "preempt")
        else:
            fault = f"{attempt.attempt} is {attempt.state}, it cannot be pre-empted"
            self._reject(view, attempt.node.node, attempt.task, attempt.task.kind.value, fault, "preempt")

    def _listed(self, view: Any, most: int) -> list[Any]:
        answer: Iterable[Any] | None = self._own_preempt(view)
        return [] if answer is None else list(islice(answer, most))

    # ------------------------------------------------------------------- offers

    def decide(self, view: Ledger, node: Node, kind: TaskKind) -> Proposal | None:
        """As in `Policy`: the policy's first proposal that can be; the others are recorded, and it is asked again."""
        return self._answer(view, node, kind, "decide", self._ask)

    def _answer(
        self, view: Ledger, node: Node, kind: TaskKind, method: str, ask: Callable[..., Any]
    ) -> Proposal | None:
        """Return the answer that counts, which in a replay is the one of before the crash."""
        proposal = self._first_possible(view, node, kind, method, ask)
        return proposal if self._answers is None else self._answers.proposal(view, proposal, method)

    def _first_possible(
        self, view: Ledger, node: Node, kind: TaskKind, method: str, ask: Callable[..., Any]
    ) -> Proposal | None:
        faces = self._faces if view is self._ledger else self._met(view)
        if view.avoiding:
            faces.withheld = {job: None for job in view.avoiding if view.avoids(job, node, kind)}
        try:
            while True:
                answer = ask(faces[view], faces[node], kind)
                if answer is None:
                    trouble = self._idle.none(view) if method == "decide" else ""
                    if trouble:
                        raise self._guard.failed(trouble, method)
                    return None
                task, fault, proposal = self._checked(view, node, kind, answer)
                if proposal is not None:
                    self._rejects = 0
                    self._idle.launched()
                    return proposal
                self._reject(view, node.node, task, kind.value, fault, method)
                if task is None or task.stage.job in faces.withheld:
                    return None
                faces.withheld[task.stage.job] = None
        finally:
            if faces.withheld:
                faces.withheld = {}

    def _checked(
        self, view: Ledger, node: Node, kind: TaskKind, answer: Any
    ) -> tuple[Task | None, str, Proposal | None]:
        """Return the task, and either what is wrong with the proposal or the proposal as the core takes it."""
        if not isinstance(answer, Proposal):
            return None, f"the answer {type(answer).__name__} is neither a Proposal nor None", None
        task: Task | None = self._faces.raw(answer.task, Task)
        if task is None or view.jobs.get(task.stage.job.job) is not task.stage.job:
            return None, f"the proposed {type(answer.task).__name__} is not a task of a running job", None
        split: Any = answer.split
        if split is not None and not (isinstance(split, int | float) and isfinite(split)):
            return task, f"the split {type(split).__name__} is not a number between 0 and 1", None
        proposal = Proposal(task, _text(answer.reason), split, bool(answer.speculative))
        fault = view.why_not(node, kind, task, proposal)
        return task, fault or "", proposal if fault is None else None

    def _reject(self, view: Ledger, node: str, task: Task | None, kind: str, fault: str, method: str) -> None:
        self._rejects += 1
        view.reject(node, task, kind, fault)
        if self._rejects >= REJECTS:
            about = f"{task.task} on {node}: " if task is not None else ""
            text = f"{self._rejects} answers in a row were rejected, the last one: {about}{fault}"
            raise self._guard.failed(text, method)


MakeHook = Callable[[str, Callable[..., Any]], Callable[..., Any]]


class GuardedAdmission:
    """A user's admission as copies of running tasks ask it."""

    def __init__(self, own: Any, hook: MakeHook) -> None:
        self.room = hook("room", _method(own, "room"))
        self.refuses = hook("refuses", _method(own, "refuses"))


class GuardedSpeculation:
    """A user's own speculation."""

    def __init__(
        self, own: Any, hook: MakeHook, wrap: MakeHook, answer: Callable[..., Proposal | None]
    ) -> None:
        self._own_copy = wrap("copy", _method(own, "copy"))
        self._answer = answer
        for name in ("tick", "ended", "finished"):
            setattr(self, name, hook(name, getattr(own, name, _nothing)))

    def copy(self, view: Ledger, node: Node, kind: TaskKind) -> Proposal | None:
        """As in `Speculation`: the first copy that can be."""
        return self._answer(view, node, kind, "copy", self._own_copy)


def guarded(make: Callable[[], Any], made: type, file: str | None = None) -> Policy:
    """Return the policy that `make` makes, of the class `made` in a user's file, as the core may call it.

    Raises PolicyFailed in one line when it cannot be made.
    """
    culprit = Culprit(file) if file is not None else Culprit.of_class(made)
    policy: Any = GuardedPolicy(make, culprit, made)
    return policy


def _method(own: Any, name: str) -> Callable[..., Any]:
    method = getattr(own, name)
    if not callable(method):
        raise TypeError(f"{name} is a {type(method).__name__}, expected a method")
    return method


def _limits(own: Any) -> Limits:
    limits = Limits(*own)
    if not all(isinstance(each, bool) for each in limits):
        raise TypeError(f"limits is {own!r:.100}, expected Limits of true and false")
    return limits


def _json_report(own: Callable[[], Any]) -> dict[str, Any]:
    """Return the policy's report as plain values; TypeError or ValueError when it cannot be kept."""
    report = own()
    if not isinstance(report, Mapping):
        raise TypeError(f"report gives a {type(report).__name__}, expected a mapping of JSON values")
    return json.loads(json.dumps(dict(report)))


def _text(reason: Any) -> str:
    return clean(reason) if type(reason) is str else clean(f"{reason!r:.100}")


def _nothing(*_: Any) -> None:
    """Do nothing."""
