"""The wrapper of a user's policy: read-only proxies, checked answers, time limits, and precise errors.

Shipped policies are called without it. Tests check that both ways give the same rows.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from itertools import islice
from math import inf, isfinite
from typing import Any

from schedbed.scheduler.core.entities import Attempt, Job, Node, Task
from schedbed.scheduler.core.ledger import Ledger
from schedbed.scheduler.core.snapshots import Unkept
from schedbed.scheduler.core.states import JOB_RUNNING, SUCCEEDED
from schedbed.scheduler.guard.blame import PolicySource
from schedbed.scheduler.guard.guarded_calls import Guard
from schedbed.scheduler.guard.idle_watch import IdleWatch
from schedbed.scheduler.guard.own_order import (
    HOOKS,
    MakeHook,
    composed,
    hears_each_heartbeat,
    is_shipped,
    method_of,
    promise_of,
    takes_core,
)
from schedbed.scheduler.guard.proxies import Proxies, TaskProxy, WatchedProxies
from schedbed.scheduler.guard.read_only import clean, is_plain, raw_of
from schedbed.scheduler.hooks import QUIET, Keeping, Kill, Limits, Proposal, Quiet, hook
from schedbed.scheduler.policy import HeartbeatWatch, HostedPolicy, Policy, PolicyFailed
from schedbed.tasks.specs import TaskKind, value

REJECTS = 100
"""The number of consecutive impossible answers that ends a run."""


REPORT_BYTES = 1 << 20
"""The most bytes of a policy's report as JSON, which run.json and summary.json store for each run."""


class GuardedPolicy(HostedPolicy):
    """A wrapper that the core calls instead of a user's policy. It has the same hooks and attributes."""

    def __init__(self, make: Callable[[], Any], source: PolicySource, made: type) -> None:
        self._guard = Guard(source, made)
        self.own: Any = self._guard.call("__init__", make)
        self._proxies = Proxies()
        self._make_proxies: Callable[..., Proxies] = Proxies
        self._ledger: Ledger | None = None
        self._rejects = 0
        self._answers: Answers | None = None
        self._own_ended: Callable[..., Any] | None = None
        self._own_finished: Callable[..., Any] | None = None
        self._ask: Callable[..., Any]
        self._propose: Callable[[Ledger, Node, TaskKind], Proposal | None]
        self._last_reason: tuple[Any, str] = ("", "")  # As given, and as cleaned for tables.
        self._guard.call("__init__", self._take_over)
        self.decide = self._propose
        """See `Policy.decide`. Impossible proposals are recorded, and the policy is asked again."""

    # ------------------------------------------------------ hooks and attributes

    def _take_over(self) -> None:
        """Give this wrapper the limits, hooks, speculation and other attributes of the user's policy."""
        own = self.own
        if hook(own, "limits") is not None:
            self.limits = _limits(own.limits)
        patience_s = float(hook(own, "patience_s") or 0.0)
        if not 0.0 <= patience_s < inf:
            raise ValueError(f"patience_s is {patience_s:g}, expected a finite number of seconds from 0 on")
        self._idle = IdleWatch(patience_s)
        if takes_core(own):
            self._take_core(own)
        else:
            self._take_proxies(own)
        self._say(own)
        if hook(own, "speculation") is not None:
            self.speculation = self._speculation_of(own.speculation)
        if getattr(own, "admission", None) is not None:
            self.admission = GuardedAdmission(own.admission, self._hook)

    def _take_proxies(self, own: Any) -> None:
        """Add hooks to this wrapper that call the policy `own` with read-only proxies."""
        self._ask = self._guard.wrap("decide", method_of(own, "decide"))
        self._propose = self._first_possible
        for name in HOOKS:
            if hook(own, name) is not None:
                self._set_hook(name, self._hook(name, method_of(own, name)))
        if hook(own, "preempt") is not None:
            self._own_preempt = method_of(own, "preempt")
            self._listing = self._guard.wrap("preempt", self._listed)
            self.preempt = self._preempt

    def _take_core(self, own: Any) -> None:
        """Add hooks that call the policy `own` with core objects. Only a user's order receives proxies."""
        core: Any = composed(own, self._guard, self._hook, self._proxies_of)
        self._core_decide = core.decide
        self.takes_containers = True
        self._propose = self._propose_core
        for name in HOOKS:
            if hook(core, name) is not None:
                self._set_hook(name, method_of(core, name))
        if hook(core, "preempt") is not None:
            self._core_preempt = core.preempt
            self.preempt = self._preempt_core

    def _set_hook(self, name: str, hook: Callable[..., Any]) -> None:
        """Store `hook` as `name`, or `_own_NAME` for `ended` and `finished`."""
        setattr(self, {"ended": "_own_ended", "finished": "_own_finished"}.get(name, name), hook)

    def _say(self, own: Any) -> None:
        self.quiet = None if hears_each_heartbeat(own) else self._quiet_of(own)
        keeping = hook(own, "keeping") or hook(getattr(own, "locality", None), "keeping")
        if keeping is not None:
            self.keeping = Keeping(*keeping)
        if hook(own, "report") is not None:
            self.report = self._guard.wrap("report", partial(_json_report, method_of(own, "report")))

    def _quiet_of(self, own: Any) -> Quiet:
        """Return what the policy or its axes promise, of which only a shipped axis is asked unguarded."""
        waiting = [
            (part, said.awaits_beat)
            for part in (own, *getattr(own, "axes", ()))
            if (said := promise_of(part)) is not None and said.awaits_beat is not None
        ]
        if not waiting:
            return QUIET
        if all(is_shipped(part) for part, _ in waiting):
            return Quiet(awaits_beat=lambda: any(ask() for _, ask in waiting))
        return Quiet(awaits_beat=self._guard.wrap("quiet", lambda: any(ask() for _, ask in waiting)))

    def _speculation_of(self, own: Any) -> Any:
        if type(own).__module__.startswith("schedbed."):
            return own
        return GuardedSpeculation(
            own, self._hook, partial(self._copy, self._guard.wrap("copy", method_of(own, "copy")))
        )

    def _hook(self, name: str, method: Callable[..., Any]) -> Callable[..., Any]:
        """Return a function for the core that calls the policy's method with proxies of the arguments."""
        call = self._guard.wrap(name, method)

        def hook(*arguments: Any) -> Any:
            return call(*[self._shown(each) for each in arguments])

        return hook

    def _proxies_of(self, view: Ledger) -> Proxies:
        return self._proxies if view is self._ledger else self._met(view)

    def _shown(self, argument: Any) -> Any:
        if argument is not self._ledger and isinstance(argument, Ledger):
            self._met(argument)
        return argument if isinstance(argument, TaskKind) else self._proxies[argument]

    def _met(self, ledger: Ledger) -> Proxies:
        """Store a new ledger, and return new proxies."""
        self._ledger = ledger
        self._proxies = self._make_proxies(ledger.size_view, ledger.seed)
        return self._proxies

    def watch_heartbeats(self) -> HeartbeatWatch:
        """Return the record of reads that heartbeats can outdate. Call before the first event."""
        self._make_proxies = partial(WatchedProxies, self._guard.watch)
        return self._guard.watch

    def keep_answers(self) -> Answers:
        """Return a record of all later answers, for a journal. Call this before the first `decide`."""
        self._answers = Answers(self._guard.line_of)
        self.decide = self._decide_kept
        return self._answers

    def line_of(self, method: str) -> str:
        """Return a method's file and line."""
        return self._guard.line_of(method)

    def keep_state(self) -> Any:
        """Return the states of the policy (`state`) and this wrapper. Raises Unkept if it has none, or not plain."""
        own = self.own
        if not (hook(own, "state") and hook(own, "restore")):
            raise Unkept(f"the policy has no state() and restore() ({self._guard.line_of('decide')})")
        speculation = getattr(self, "speculation", None)
        if speculation is not None and not isinstance(speculation, GuardedSpeculation):
            raise Unkept("a policy of one's own has copies made by speculation that is shipped")
        state = self._guard.call("state", method_of(own, "state"))
        if not is_plain(state):
            raise Unkept(f"state() gives more than plain values ({self._guard.line_of('state')})")
        difference = "" if self._answers is None else self._answers.difference
        return state, self._rejects, self._idle, difference

    def restore_state(self, view: Ledger, kept: Any) -> None:
        """Restore what `keep_state` returned, the policy's part by `restore`."""
        state, self._rejects, self._idle, difference = kept
        if self._answers is not None:
            self._answers.difference = difference
        self._guard.call("restore", method_of(self.own, "restore"), self._shown(view), state)

    # -------------------------------------------------------------------- hooks

    def ended(self, view: Ledger, attempt: Attempt) -> None:
        """Implement `Hooks.ended`: call the policy's hook, then drop the proxy of the attempt."""
        if attempt.state is SUCCEEDED:
            self._idle.succeeded()
        if self._own_ended is not None:
            self._own_ended(view, attempt)
        self._proxies.pop(attempt, None)

    def finished(self, view: Ledger, job: Job) -> None:
        """Implement `Hooks.finished`: call the policy's hook, then drop the proxies of the job's tasks."""
        if self._own_finished is not None:
            self._own_finished(view, job)
        self._proxies.forget(job)

    def _preempt(self, view: Ledger) -> list[Kill]:
        """Implement `Hooks.preempt`: return those kills of the policy that the core can carry out."""
        most = view.live_attempts + REJECTS
        kills: list[Kill] = []
        for own in self._listing(self._shown(view), most):
            attempt: Attempt | None = self._proxies.raw(getattr(own, "attempt", None), Attempt)
            if attempt is None or attempt.state not in ("assigned", "running"):
                self._reject_kill(view, own, attempt)
                continue
            if any(kill.attempt is attempt for kill in kills):
                continue
            kills.append(Kill(attempt, _text(own.reason)))
            trouble = self._idle.killed(view)
            if trouble:
                raise self._guard.failed(trouble, "preempt")
        return self._counting_kills(view, kills)

    def _preempt_core(self, view: Ledger) -> list[Kill]:
        return self._counting_kills(view, list(self._core_preempt(view)))

    def _counting_kills(self, view: Ledger, kills: list[Kill]) -> list[Kill]:
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

    def _decide_kept(self, view: Ledger, node: Node, kind: TaskKind) -> Proposal | None:
        """Implement `Policy.decide` with the answer recorded or, in a replay, given before."""
        return self._counting(view, self._propose(view, node, kind), "decide")

    def _copy(self, ask: Callable[..., Any], view: Ledger, node: Node, kind: TaskKind) -> Proposal | None:
        """Return a speculation's first answer that the core can carry out, or None."""
        return self._counting(view, self._first_possible(view, node, kind, "copy", ask), "copy")

    def _counting(self, view: Ledger, proposal: Proposal | None, method: str) -> Proposal | None:
        return proposal if self._answers is None else self._answers.proposal(view, proposal, method)

    def _propose_core(self, view: Ledger, node: Node, kind: TaskKind) -> Proposal | None:
        proxies = self._proxies if view is self._ledger else self._met(view)
        if view.avoiding:
            self._withhold(proxies, view, node, kind)
        try:
            proposal = self._core_decide(view, node, kind)
        except PolicyFailed:
            raise
        except Exception as error:
            raise self._guard.blamed("decide", error) from error
        if proxies.withheld:
            proxies.offer_all()
        if proposal is not None:
            self._idle.launched()
        elif trouble := self._idle.none(view):
            raise self._guard.failed(trouble, "decide")
        return proposal

    @staticmethod
    def _withhold(proxies: Proxies, view: Ledger, node: Node, kind: TaskKind) -> None:
        for job in view.avoiding:
            if view.avoids(job, node, kind):
                proxies.withhold(job)

    def _first_possible(
        self,
        view: Ledger,
        node: Node,
        kind: TaskKind,
        method: str = "decide",
        ask: Callable[..., Any] | None = None,
    ) -> Proposal | None:
        ask = ask or self._ask
        proxies = self._proxies if view is self._ledger else self._met(view)
        if view.avoiding:
            self._withhold(proxies, view, node, kind)
        try:
            while True:
                answer = ask(proxies[view], proxies[node], kind)
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
                if task is None or task.stage.job in proxies.withheld:
                    return None
                proxies.withhold(task.stage.job)
        finally:
            if proxies.withheld:
                proxies.offer_all()

    def _checked(
        self, view: Ledger, node: Node, kind: TaskKind, answer: Any
    ) -> tuple[Task | None, str, Proposal | None]:
        """Return the proposed task, an error message, and the proposal with core objects, None with an error."""
        if not isinstance(answer, Proposal):
            return None, f"the answer {type(answer).__name__} is neither a Proposal nor None", None
        proxy: Any = answer.task
        task: Task | None = raw_of(proxy) if type(proxy) is TaskProxy else None
        if task is None or self._proxies.get(task) is not proxy or task.stage.job.state is not JOB_RUNNING:
            return None, f"the proposed {type(answer.task).__name__} is not a task of a running job", None
        split: Any = answer.split
        if split is not None and not (isinstance(split, int | float) and isfinite(split)):
            return task, f"the split {type(split).__name__} is not a number between 0 and 1", None
        given, reason = self._last_reason
        if answer.reason is not given or type(given) is not str:
            given = answer.reason
            reason = _text(given)
            self._last_reason = given, reason
        proposal = Proposal(task, reason, split, bool(answer.speculative))
        fault = view.why_not(node, kind, task, proposal)
        return task, fault or "", proposal if fault is None else None

    def _reject(self, view: Ledger, node: str, task: Task | None, kind: str, fault: str, method: str) -> None:
        self._rejects += 1
        view.reject(node, task, kind, fault)
        if self._rejects >= REJECTS:
            about = f"{task.task} on {node}: " if task is not None else ""
            text = f"{self._rejects} answers in a row were rejected, the last one: {about}{fault}"
            raise self._guard.failed(text, method)


def guarded(make: Callable[[], Any], made: type, file: str | None = None) -> Policy:
    """Wrap the policy that `make` returns. Raises PolicyFailed in one line if it fails."""
    source = PolicySource(file) if file is not None else PolicySource.of_class(made)
    policy: Any = GuardedPolicy(make, source, made)
    return policy


def _limits(own: Any) -> Limits:
    limits = Limits(*own)
    if not all(isinstance(each, bool) for each in limits):
        raise TypeError(f"limits is {own!r:.100}, expected Limits of true and false")
    return limits


def _json_report(own: Callable[[], Any]) -> dict[str, Any]:
    """Return the policy's report as JSON. Raises TypeError or ValueError."""
    report = own()
    if not isinstance(report, Mapping):
        raise TypeError(f"report gives a {type(report).__name__}, expected a mapping of JSON values")
    text = json.dumps(dict(report))
    if len(text) > REPORT_BYTES:
        raise ValueError(f"report gives {len(text)} bytes of JSON, expected at most {REPORT_BYTES}")
    return json.loads(text)


def _text(reason: Any) -> str:
    return clean(reason) if type(reason) is str else clean(f"{reason!r:.100}")


# The recorded answers of a user's policy, for the journal.
#
# When a restarted JobTracker replays its journal, it uses the recorded answers even if the policy answers
# differently now. The policy is nevertheless called, so that the policy's own state, including random
# numbers, becomes the same as before the restart.

Answer = tuple[Any, ...]
"""An answer: (job, kind, index, reason, split, speculative), pairs (attempt, reason), or () for None."""


@value
class Replies:
    """The policy's answers to all calls during one event of the journal, in order."""

    answers: tuple[Answer, ...]


class Answers:
    """Records a user's policy's answers, and gives them again in a replay.

    Copies by a shipped speculation are not recorded, because a replay computes them again.
    """

    def __init__(self, line_of: Callable[[str], str]) -> None:
        self._line_of = line_of
        self._given: list[Answer] = []
        self._known: list[Answer] | None = None
        self.difference = ""
        """A line about the first answer in a replay that differs from the record; empty if none differs."""

    def take(self) -> Replies | None:
        """Return the answers recorded since the last call, or None."""
        given, self._given = self._given, []
        return Replies(tuple(given)) if given else None

    def replay(self, replies: Replies | None) -> None:
        """Set the answers of the next event. With None, the new ones are safe: no node has received others."""
        self._known = None if replies is None else list(reversed(replies.answers))

    def proposal(self, view: Ledger, proposal: Proposal | None, method: str) -> Proposal | None:
        """Record and return a proposal, or return the recorded one in a replay."""
        now = _plain(proposal)
        answer = self._counts(view, now, method)
        return proposal if answer is now else _proposal(view, answer)

    def kills(self, view: Ledger, kills: list[Kill]) -> list[Kill]:
        """Record the policy's kills and return them. In a replay, return the recorded kills instead."""
        now = tuple((kill.attempt.attempt, kill.reason) for kill in kills)
        answer = self._counts(view, now, "preempt")
        return kills if answer is now else _kills(view, answer)

    def _counts(self, view: Ledger, now: Answer, method: str) -> Answer:
        """Return the answer to use, recorded first. At the first difference in a replay, set `difference`."""
        if not self._known:
            self._given.append(now)
            return now
        before = self._known.pop()
        if before != now and not self.difference:
            self.difference = (
                f"the policy answers otherwise than before the JobTracker's restart ({self._line_of(method)}): "
                f"{_shown(before)} at {view.now_s:.1f} s, now {_shown(now)}; the first answer holds, "
                "chance belongs to view.random"
            )
        return before


def _plain(proposal: Proposal | None) -> Answer:
    if proposal is None:
        return ()
    task: Any = proposal.task
    job = task.stage.job.job
    return (job, task.stage.kind, task.index, proposal.reason, proposal.split, proposal.speculative)


def _proposal(view: Ledger, answer: Answer) -> Proposal | None:
    if not answer:
        return None
    job, kind, index, reason, split, speculative = answer
    task: Task = view.jobs[job].stage(kind).tasks[index]
    return Proposal(task, reason, split, speculative)


def _kills(view: Ledger, answer: Answer) -> list[Kill]:
    live = {name: attempt for job in view.jobs.values() for name, attempt in job.attempts.items()}
    return [Kill(live[name], reason) for name, reason in answer]


def _shown(answer: Answer) -> str:
    if not answer:
        return "nothing"
    if isinstance(answer[0], tuple):
        return "kill " + ", ".join(name for name, _ in answer)
    return f"{answer[1].value} {answer[2]} of {answer[0]}"


# Wrappers of a user's admission and speculation, which pass read-only proxies to the user's code.


class GuardedAdmission:
    """Wraps a user's admission, with proxies, for the shipped speculation's checks."""

    def __init__(self, own: Any, hook: MakeHook) -> None:
        self.room = hook("room", method_of(own, "room"))
        self.refuses = hook("refuses", method_of(own, "refuses"))


class GuardedSpeculation:
    """A wrapper of a user's speculation, which the core calls. A hook that the user left out does nothing."""

    def __init__(self, own: Any, hook: MakeHook, copy: Callable[..., Proposal | None]) -> None:
        self.copy = copy  # See `Speculation.copy`.
        for name in ("tick", "ended", "finished"):
            setattr(self, name, hook(name, getattr(own, name, _nothing)))


def _nothing(*_: Any) -> None:
    """Do nothing. This function replaces a hook that a user's speculation lacks."""
