"""The program of a policy's process: a core and the policy, confined, that follows a simulation's events.

It gets what a live JobTracker gets: registered nodes, submitted jobs, heartbeats. It decides and tells its
answers; what they lead to is computed by the simulation. Costs of tasks come only as `sizes` allows.
"""

from __future__ import annotations

import os
import sys
from typing import Any, NoReturn

from schedbed.cluster.wire.value_codec import codec_of, packed
from schedbed.scheduler.core.core import Core
from schedbed.scheduler.core.rows import DecisionRow, NoSink
from schedbed.scheduler.core.settings import CoreConfig
from schedbed.scheduler.guard.time_bound import TIME_BOUND
from schedbed.scheduler.isolated.sandbox import confine
from schedbed.scheduler.isolated.seam import (
    ANSWER,
    BEGIN,
    COPY,
    EVENTS,
    FAILED,
    KILLS,
    READ,
    REPORT,
    ROW,
    WATCH,
    FramePipe,
    Silent,
)
from schedbed.scheduler.policy import HeartbeatRead, HostedPolicy
from schedbed.scheduler.registry.registry import build_policy
from schedbed.scheduler.registry.speculation import with_speculation
from schedbed.scheduler.simulate.elision import acts_on_ticks, is_quiet
from schedbed.tasks.errors import BadInput

FLAGS = ("takes_containers", "hears_full_nodes")


class Told(NoSink):
    """Notes what a policy answers, and the rows that it makes itself, as entries."""

    def __init__(self) -> None:
        self.entries: list[list[Any]] = []

    def decision(self, row: DecisionRow) -> None:
        """Note a skip or a reject; the simulation makes the other rows itself."""
        if row.answer in ("skip", "reject"):
            self.entries.append([ROW, row.answer, row.node, row.job, row.task, row.kind, row.reason])

    def take(self) -> list[list[Any]]:
        entries, self.entries = self.entries, []
        return entries

    def watch(self, owner: Any, name: str, kind: str) -> None:
        """Note what the method `name` of `owner` answers from now on."""
        ask = getattr(owner, name)

        def noted(*arguments: Any) -> Any:
            answer = ask(*arguments)
            if kind == KILLS:
                answer = list(answer)
                self.entries.append([kind, [[each.attempt.attempt, each.reason] for each in answer]])
            else:
                self.entries.append([kind, None if answer is None else _plain(answer)])
            return answer

        setattr(owner, name, noted)


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
        policy = with_speculation(policy, how["speculation"], how["scale"])
        quiet = is_quiet(policy) and not hasattr(policy, "awaits_beat")
        made = {
            "limits": list(getattr(policy, "limits", ())),
            "elidable": quiet,
            "acts_on_ticks": acts_on_ticks(policy),
            "keeping": list(getattr(policy, "keeping", ())),
            "line": policy.line_of("decide"),
            "kills": hasattr(policy, "preempt"),
            "copies": getattr(policy, "speculation", None) is not None,
            **{flag: bool(getattr(policy, flag, False)) for flag in FLAGS},
        }
        self._told.watch(policy, "decide", ANSWER)
        if made["kills"]:
            self._told.watch(policy, "preempt", KILLS)
        if made["copies"]:
            self._told.watch(policy.speculation, "copy", COPY)
        config = codec_of(CoreConfig).take(how["config"])
        self._policy, self._core = policy, Core(config, policy, self._told, seed=how["seed"])
        self._told.take()
        return made

    def do(self, now_s: float, kind: str, arguments: Any) -> list[list[Any]]:
        """Apply an event, and return the entries of the policy."""
        getattr(self._core, kind)(now_s, *EVENTS[kind].take(arguments))
        self._core.take_effects()
        return self._told.take()

    def watch(self) -> None:
        self._policy.watch_heartbeats()

    def report(self) -> dict[str, Any]:
        report = getattr(self._policy, "report", None)
        return {} if report is None else report()


def _plain(proposal: Any) -> list[Any]:
    task: Any = proposal.task
    job, kind = task.stage.job.job, packed(EVENTS["ask"], (task.stage.job.job, task.stage.kind, 0, None))[1]
    split = None if proposal.split is None else float(proposal.split)
    return [job, kind, task.index, str(proposal.reason), split, bool(proposal.speculative)]


def _serve(pipe: FramePipe) -> None:
    process = PolicyProcess()

    def leave(text: str) -> NoReturn:
        pipe.send([-1, [FAILED, text]])
        pipe.flush()
        os._exit(1)

    TIME_BOUND.exit_with = leave
    while True:
        number, now_s, kind, arguments = pipe.receive()
        try:
            if kind == BEGIN:
                found: Any = process.begin(*arguments)
            elif kind == WATCH:
                found = process.watch()
            elif kind == REPORT:
                found = process.report()
            else:
                found = process.do(now_s, kind, arguments)
        except HeartbeatRead:
            found = [READ, ""]
        except Exception as error:
            found = [FAILED, str(error)]
        if found or kind in (BEGIN, REPORT, WATCH):
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
