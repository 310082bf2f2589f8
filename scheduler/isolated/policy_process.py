"""The program of a policy's process: a core and the policy, confined, that follows a simulation's events.

It gets what a live JobTracker gets: registered nodes, submitted jobs, heartbeats. It decides and tells its
answers; what they lead to is computed by the simulation. Costs of tasks come only as `sizes` allows.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Any, NoReturn, cast

from schedbed.cluster.wire.value_codec import codec_of
from schedbed.scheduler.core.core import Core
from schedbed.scheduler.core.rows import DecisionRow, NoSink
from schedbed.scheduler.core.settings import CoreConfig
from schedbed.scheduler.guard.time_bound import TIME_BOUND
from schedbed.scheduler.hooks import acts_on_ticks, hook, quiet_of
from schedbed.scheduler.isolated import seam
from schedbed.scheduler.isolated.sandbox import confine
from schedbed.scheduler.isolated.seam import FramePipe, Silent
from schedbed.scheduler.policy import HeartbeatRead, HostedPolicy
from schedbed.scheduler.registry.registry import build_policy
from schedbed.scheduler.registry.speculation import with_speculation
from schedbed.tasks.errors import BadInput


class Told(NoSink):
    """Notes what a policy answers, and the rows that it makes itself, as entries."""

    def __init__(self) -> None:
        self.entries: list[list[Any]] = []

    def decision(self, row: DecisionRow) -> None:
        """Note a skip or a reject; the simulation makes the other rows itself."""
        if row.answer in ("skip", "reject"):
            self.entries.append([seam.ROW, row.answer, row.node, row.job, row.task, row.kind, row.reason])

    def take(self) -> list[list[Any]]:
        entries, self.entries = self.entries, []
        return entries

    def noting(self, kind: str, ask: Callable[..., Any]) -> Callable[..., Any]:
        """Return a function that does the same as `ask`, and notes the answers as entries of this kind."""

        def noted(*arguments: Any) -> Any:
            answer = ask(*arguments)
            if kind == seam.KILLS:
                answer = list(answer)
                self.entries.append([kind, [[each.attempt.attempt, each.reason] for each in answer]])
            else:
                self.entries.append([kind, None if answer is None else _plain(answer)])
            return answer

        return noted


class PolicyProcess:
    """The core and policy of one simulation, made by the request `begin`."""

    def __init__(self) -> None:
        self._told = Told()
        self._core: Core
        self._policy: Any = None

    def begin(self, given: Any, how: dict[str, Any]) -> dict[str, Any]:
        """Make the policy and a core, and return what the simulation must know of the policy."""
        policy: Any = build_policy(given, scale=how["scale"], store="none")
        if not isinstance(policy, HostedPolicy):
            raise BadInput(f"{given!r} is no policy of a file")
        policy = with_speculation(cast(Any, policy), how["speculation"], how["scale"])
        quiet = quiet_of(policy)
        made = {
            "limits": list(hook(policy, "limits") or ()),
            "quiet": quiet is not None and not quiet.counts and quiet.awaits_beat is None,
            "acts_on_ticks": acts_on_ticks(policy),
            "keeping": list(hook(policy, "keeping") or ()),
            "line": policy.line_of("decide"),
            "kills": hook(policy, "preempt") is not None,
            "copies": hook(policy, "speculation") is not None,
            "takes_containers": bool(hook(policy, "takes_containers")),
            "hears_full_nodes": bool(hook(policy, "hears_full_nodes")),
        }
        policy.decide = self._told.noting(seam.ANSWER, policy.decide)
        if made["kills"]:
            policy.preempt = self._told.noting(seam.KILLS, policy.preempt)
        if made["copies"]:
            policy.speculation.copy = self._told.noting(seam.COPY, policy.speculation.copy)
        config = codec_of(CoreConfig).take(how["config"])
        self._policy, self._core = policy, Core(config, policy, self._told, seed=how["seed"])
        self._told.take()
        return made

    def do(self, now_s: float, kind: str, arguments: Any) -> list[list[Any]]:
        """Apply an event, and return the entries of the policy."""
        core = self._core
        events: dict[str, Callable[..., Any]] = {
            "register": core.register,
            "heartbeat": core.heartbeat,
            "submit": core.submit,
            "kill_job": core.kill_job,
            "node_lost": core.node_lost,
            "heard": self._heard,
            "tick": core.tick,
            "replicas_changed": core.replicas_changed,
            "committed": core.committed,
            "commit_failed": core.commit_failed,
            "ask": core.ask,
            "release": core.release,
            "stop": core.stop,
            "start_inside": core.start_inside,
        }
        events[kind](now_s, *seam.EVENTS[kind].take(arguments))
        self._core.take_effects()
        return self._told.take()

    def _heard(self, now_s: float, silent: tuple[str, ...]) -> None:
        """Lose the silent nodes, and count all others as heard."""
        for node in silent:
            self._core.node_lost(now_s, node)
        for node in self._core.ledger.nodes.values():
            node.heard_s = now_s

    def watch(self) -> None:
        self._policy.watch_heartbeats()

    def report(self) -> dict[str, Any]:
        report = getattr(self._policy, "report", None)
        return {} if report is None else report()


def _plain(proposal: Any) -> list[Any]:
    stage, split = proposal.task.stage, proposal.split
    return [
        stage.job.job,
        stage.kind.value,
        proposal.task.index,
        proposal.reason,
        None if split is None else float(split),
        proposal.speculative,
    ]


def _last_words(pipe: FramePipe) -> Callable[[str], NoReturn]:
    def leave(text: str) -> NoReturn:
        pipe.send([-1, [seam.FAILED, text]])
        pipe.flush()
        os._exit(1)

    return leave


def _serve(pipe: FramePipe) -> None:
    process = PolicyProcess()
    TIME_BOUND.exit_with = _last_words(pipe)
    while True:
        number, now_s, kind, arguments = pipe.receive()
        try:
            if kind == seam.BEGIN:
                found: Any = process.begin(*arguments)
            elif kind == seam.WATCH:
                found = process.watch()
            elif kind == seam.PING:
                found = None
            elif kind == seam.REPORT:
                found = process.report()
            else:
                found = process.do(now_s, kind, arguments)
        except HeartbeatRead:
            found = [seam.READ, ""]
        except Exception as error:
            found = [seam.FAILED, str(error)]
        if found or kind in (seam.BEGIN, seam.WATCH, seam.REPORT, seam.PING):
            pipe.send([number, found])
            pipe.flush()


def main() -> None:
    """Confine this process as the first frame says, then answer until the pipe closes."""
    pipe = FramePipe(os.dup(0), os.dup(1))
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(2, 1)
    sys.dont_write_bytecode = True
    how = pipe.receive()
    confine(how["readable"], memory_bytes=how["memory_bytes"], cpu_s=how["cpu_s"], user=how["user"])
    pipe.send(True)
    pipe.flush()
    try:
        _serve(pipe)
    except Silent:
        os._exit(0)


if __name__ == "__main__":
    main()
