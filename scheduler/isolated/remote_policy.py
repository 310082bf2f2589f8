"""A policy whose decisions come from a confined process, and the simulation's end of the pipe to it.

The simulation has a core of its own, which gets the same events and holds each answer to the same rules, and
makes all rows. The process has nothing to forge but answers.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NoReturn

import schedbed
from schedbed.cluster.own_python import module_command, search_path
from schedbed.cluster.wire.value_codec import codec_of, packed
from schedbed.scheduler.core.settings import CoreConfig
from schedbed.scheduler.guard.read_only import clean
from schedbed.scheduler.hooks import QUIET, Keeping, Kill, Limits, Proposal
from schedbed.scheduler.isolated import seam
from schedbed.scheduler.isolated.sandbox import others_can_read, unconfined
from schedbed.scheduler.isolated.seam import FramePipe, Silent
from schedbed.scheduler.policy import HeartbeatRead, HeartbeatWatch, HostedPolicy, KeptAnswers, PolicyFailed
from schedbed.scheduler.sizes import Sizes
from schedbed.tasks.chance import chance
from schedbed.tasks.specs import JobSpec, TaskKind

SOON_S, PATIENCE_S = 1.0, 30.0
"""Seconds of this clock for an answer. The process itself ends a call that takes 3 s of its own time."""
MEMORY_BYTES, CPU_S = 2 << 30, 3600
LIBRARIES = ("/lib", "/lib64", "/usr/lib", "/usr/lib64", "/etc/ld.so.cache", "/usr/share/zoneinfo")
"""Files outside Python's folders that compiled modules of packages load."""
FIRST_USER = 1 << 30
"""The first of the user ids that policies' processes have if root starts them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IsolatedSetup:
    """The settings of a policy's process: `given` with its file in `folder`, and the settings of the core."""

    given: Any
    folder: str
    scale: float
    speculation: Any
    config: CoreConfig
    seed: int

    def shown(self, job: JobSpec) -> JobSpec:
        """Return the job with the costs that `sizes` allows, which alone cross the pipe."""
        sizes = self.config.sizes
        if sizes.kind == "hidden":
            return replace(job, map_costs=(), reduce_costs=())
        return sizes.shown(job, self.seed)

    def begin(self) -> list[Any]:
        """Return the arguments of the request `begin`: estimates are made here, with a seed that stays here."""
        sizes, seed = self.config.sizes, self.seed
        if sizes.kind != "true":
            seed = chance(seed, "isolated").getrandbits(62)
        config = replace(self.config, sizes=Sizes(sizes.kind, 0.0))
        how = {"scale": self.scale, "speculation": self.speculation, "seed": seed}
        return [self.given, how | {"config": packed(codec_of(CoreConfig), config)}]


class ConfinedProcess:
    """A policy's process. Frames are numbered; the answer to an event is read when the core asks for it."""

    def __init__(self, setup: IsolatedSetup) -> None:
        self.setup = setup
        self._process = subprocess.Popen(
            module_command("schedbed.scheduler.isolated.policy_process"),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={"PYTHONPATH": os.pathsep.join(search_path()), "PYTHONHASHSEED": "0", "LC_ALL": "C.UTF-8"},
            cwd="/",
        )
        assert self._process.stdin is not None and self._process.stdout is not None
        self._pipe = FramePipe(self._process.stdout.fileno(), self._process.stdin.fileno())
        self._number, self._why = 0, ""
        self._entries: deque[Any] = deque()
        folders = python_folders()
        user = FIRST_USER + os.getpid() if takes_user() else None
        how = {
            "readable": [*folders, *LIBRARIES, setup.folder],
            "memory_bytes": MEMORY_BYTES,
            "cpu_s": CPU_S,
            "user": user,
        }
        self._pipe.send(how)
        self._receive()

    def ask(self, kind: str, arguments: Any = None) -> Any:
        """Return the answer to a request."""
        self._entries.clear()
        self._number += 1
        self._send([self._number, 0.0, kind, arguments])
        return self._answer()

    def _send(self, message: list[Any]) -> None:
        if self._why:
            raise PolicyFailed(self._why)
        try:
            self._pipe.send(message)
        except Silent:
            self._ended()

    def tell(self, now_s: float, kind: str, arguments: Sequence[Any]) -> None:
        """Send an event. Its answers are those of `next_entry`."""
        codec = seam.EVENTS.get(kind)
        if codec is None:
            return
        if kind == "submit":
            arguments = (self.setup.shown(arguments[0]),)
        if kind == "ask" and len(arguments) == 3:
            arguments = (*arguments, None)
        self._entries.clear()
        self._number += 1
        self._send([self._number, now_s, kind, packed(codec, arguments)])

    def next_entry(self) -> Any:
        """Return the next entry of the last event. Raises PolicyFailed if there is none."""
        if not self._entries:
            found = self._answer()
            if not isinstance(found, list):
                raise PolicyFailed(
                    "the policy's process has another state of the JobTracker: it gave no answer"
                )
            self._entries.extend(found)
        return self._entries.popleft()

    def _answer(self) -> Any:
        """Return the answer to the last frame. Raises what the process raised, also for an earlier event."""
        try:
            self._pipe.flush()
            while True:
                match self._receive():
                    case [int(), [str(kind), str(text)]] if kind == seam.READ:
                        raise HeartbeatRead
                    case [int(), [str(kind), str(text)]] if kind == seam.FAILED:
                        raise PolicyFailed(clean(text))
                    case [int(number), found]:
                        if number == self._number:
                            return found
                        if number > self._number:
                            self._strange(number)
                    case strange:
                        self._strange(strange)
        except Silent:
            self._ended()

    def _receive(self) -> Any:
        try:
            self._pipe.flush()
            try:
                return self._pipe.receive(SOON_S)
            except Silent:  # Perhaps its core has nothing to answer, unlike the one here.
                self._pipe.send([self._number, 0.0, seam.PING, None])
                self._pipe.flush()
                return self._pipe.receive(PATIENCE_S)
        except Silent:
            self._ended()
        except (ValueError, RecursionError) as error:
            self._strange(error)

    def _ended(self) -> NoReturn:
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(SOON_S)
        code = self._process.returncode
        how = f"has not answered for {PATIENCE_S:g} s" if code is None else f"ended with exit code {code}"
        self._why = self._why or f"the policy's process {how}"
        self.close()
        raise PolicyFailed(self._why) from None

    def _strange(self, what: object) -> NoReturn:
        raise PolicyFailed(f"the policy's process sent what is no answer: {clean(str(what))[:100]}")

    def close(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout):
            assert stream is not None
            with suppress(BrokenPipeError):
                stream.close()


def takes_user() -> bool:
    """Return whether a policy's process can have a user id of its own: root gives it, and all users read Python."""
    return os.getuid() == 0 and all(map(others_can_read, (sys.executable, *python_folders())))


def missing_promises() -> list[str]:
    """Return a line for each promise of isolation that this host cannot keep."""
    why = "Python is readable by you only" if os.getuid() == 0 else "only root can give it another"
    kept = [] if takes_user() else [f"the policy's process has your user id, since {why}"]
    return [*kept, *unconfined()]


def python_folders() -> list[str]:
    """Return the folders from which Python imports: its library, installed packages, schedbed's packages."""
    top = Path(schedbed.__file__).resolve().parent
    floors = [(top / name).resolve() for name in ("cluster", "tasks", "scheduler", "deploy")]
    found = [Path(each).resolve() for each in sys.path if "python" in each and Path(each).is_dir()]
    return list(dict.fromkeys(map(str, [*found, top, *floors])))


class RemotePolicy(HostedPolicy):
    """A policy that the core asks as any other, and that gives the answers of a confined process."""

    def __init__(self, process: ConfinedProcess) -> None:
        self._process = process
        self.relay = process.tell
        try:
            said: dict[str, Any] = dict(process.ask(seam.BEGIN, process.setup.begin()))
            self._line = str(said["line"])
            if said["limits"]:
                self.limits = Limits(*map(bool, said["limits"]))
            if said["keeping"]:
                self.keeping = Keeping(*said["keeping"])
            self.quiet = QUIET if said["quiet"] else None
            if said["acts_on_ticks"]:
                self.tick = self._tick
            self.takes_containers = bool(said["takes_containers"])
            self.hears_full_nodes = bool(said["hears_full_nodes"])
            if said["kills"]:
                self.preempt = self._preempt
            if said["copies"]:
                self.speculation = RemoteSpeculation(self._copy)
        except (KeyError, TypeError, ValueError) as error:
            raise PolicyFailed(f"the policy's process says nothing of its policy: {error}") from None

    def decide(self, view: Any, node: Any, kind: TaskKind) -> Proposal | None:
        """Implement `Policy.decide`."""
        return self._proposal(view, seam.ANSWER)

    def _tick(self, view: Any) -> None:
        """Do nothing here: the policy in the other process is told of the tick as of each event."""

    def _copy(self, view: Any, node: Any, kind: TaskKind) -> Proposal | None:
        return self._proposal(view, seam.COPY)

    def _preempt(self, view: Any) -> list[Kill]:
        live = {name: attempt for job in view.jobs.values() for name, attempt in job.attempts.items()}
        try:
            return [Kill(live[name], clean(reason)) for name, reason in self._answer(view, seam.KILLS)]
        except (LookupError, TypeError, ValueError) as error:
            raise self._wrong(error) from None

    def _proposal(self, view: Any, wanted: str) -> Proposal | None:
        answer = self._answer(view, wanted)
        try:
            if answer is None:
                return None
            job, kind, index, reason, split, speculative = answer
            task = view.jobs[job].stage(TaskKind(kind)).tasks[index]
            share = None if split is None else float(split)
            return Proposal(task, clean(reason), share, bool(speculative))
        except (LookupError, TypeError, ValueError) as error:
            raise self._wrong(error) from None

    def _answer(self, view: Any, wanted: str) -> Any:
        """Write the rows that the policy made before this answer, and return the answer."""
        while True:
            match self._process.next_entry():
                case [str(kind), answer] if kind == wanted:
                    return answer
                case [str(kind), answer, node, job, task, label, reason] if kind == seam.ROW:
                    self._write(view, answer, (node, job, task, label, reason))
                case entry:
                    raise self._wrong(entry)

    def _write(self, view: Any, answer: Any, about: tuple[Any, ...]) -> None:
        node, job, task, label, reason = map(str, about)
        try:
            if answer == "skip":
                view.skip(view.nodes[node], view.jobs[job], TaskKind(label), clean(reason))
                return
            known = None if not task else _task(view.jobs[job], task)
            view.reject(view.nodes[node].node, known, TaskKind(label).value, clean(reason))
        except (LookupError, ValueError) as error:
            raise self._wrong(error) from None

    def _wrong(self, what: object) -> PolicyFailed:
        return PolicyFailed(
            f"the policy's process gave an impossible answer ({clean(str(what))[:100]}, {self._line})"
        )

    def report(self) -> dict[str, Any]:
        """Return what the policy reports."""
        try:
            found = self._process.ask(seam.REPORT)
        except HeartbeatRead:  # After the last decision.
            found = self._process.ask(seam.REPORT)
        return found if isinstance(found, dict) else {}

    def watch_heartbeats(self) -> HeartbeatWatch:
        """Implement `HostedPolicy.watch_heartbeats`: the process watches, and HeartbeatRead comes with its answer."""
        self._process.ask(seam.WATCH)
        return HeartbeatWatch()

    def keep_answers(self) -> KeptAnswers:
        """Implement `HostedPolicy.keep_answers`."""
        raise PolicyFailed("an isolated policy has no journal")

    def keep_state(self) -> Any:
        """Implement `HostedPolicy.keep_state`."""
        raise PolicyFailed("an isolated policy has no snapshots")

    def restore_state(self, view: Any, kept: Any) -> None:
        """Implement `HostedPolicy.restore_state`."""
        raise PolicyFailed("an isolated policy has no snapshots")

    def line_of(self, method: str) -> str:
        """Implement `HostedPolicy.line_of`, with the line of `decide` for every method."""
        return self._line


class RemoteSpeculation:
    """The speculation of a confined policy. Its hooks run in the process, which gets the same events."""

    def __init__(self, copy: Callable[..., Proposal | None]) -> None:
        self.copy = copy

    def tick(self, view: Any) -> None:
        """Implement `Speculation.tick`: do nothing here."""

    def ended(self, view: Any, attempt: Any) -> None:
        """Implement `Speculation.ended`: do nothing here."""

    def finished(self, view: Any, job: Any) -> None:
        """Implement `Speculation.finished`: do nothing here."""


def _task(job: Any, name: str) -> Any:
    for stage in job.stages:
        for task in stage.tasks:
            if task.task == name:
                return task
    raise KeyError(name)
