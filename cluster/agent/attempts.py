"""The attempts of a node: launched through the zygote, killed on demand, reported with what they used."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import shutil
from collections.abc import Callable
from dataclasses import asdict, fields

from schedbed.cluster.agent.attempt_reports import Message, Running, read_json, report_of
from schedbed.cluster.agent.cgroup_find import CgroupError
from schedbed.cluster.agent.folder import AgentDir, BadRequest
from schedbed.cluster.agent.limits import NodeLimits
from schedbed.cluster.agent.usage import process_cpu_s
from schedbed.cluster.agent.zygote_link import ZygoteDied, ZygoteLink
from schedbed.cluster.clock import RunClock
from schedbed.tasks.specs import AttemptSpec, Counters, TaskKind

log = logging.getLogger(__name__)

_COUNTERS = frozenset(field.name for field in fields(Counters))


class Attempts:
    """Launches, kills and watches. `publish` gets each attempt's report (fields of AttemptReport) once."""

    def __init__(
        self,
        where: AgentDir,
        limits: NodeLimits,
        clock: RunClock,
        *,
        start_zygote: Callable[[], ZygoteLink],
        setup: Callable[[], Message],
        publish: Callable[[Message], None],
        on_fatal: Callable[[str], None],
    ) -> None:
        self._where = where
        self._limits = limits
        self._clock = clock
        self._start_zygote = start_zygote
        self._setup = setup
        self._publish = publish
        self._on_fatal = on_fatal
        self._running: dict[str, Running] = {}
        self._link: ZygoteLink | None = None
        self._waiting: list[Message] = []  # for the zygote, while there is none
        self._ended_cpu_s = 0.0
        self._reviving: asyncio.Task[None] | None = None

    async def open(self, link: ZygoteLink) -> None:
        """Begins with a zygote that was just started. Raises ZygoteDied."""
        await link.connect(self._setup(), self._on_message, self._on_zygote_end)
        self._link = link
        for slot, procs in enumerate(self._limits.expected_slots()):
            self._send({"type": "park", "slot": slot, "procs": procs})
        waiting, self._waiting = self._waiting, []
        for message in waiting:
            self._send(message)

    async def close(self) -> None:
        """Ends everything that runs; reports nothing."""
        self._running.clear()
        if self._reviving is not None:
            self._reviving.cancel()
        if self._link is not None:
            await self._link.close()

    def launch(self, raw: Message) -> None:
        """Starts the attempt of this AttemptSpec; one that was launched before is left alone."""
        try:
            spec = AttemptSpec.from_json(raw)
        except (KeyError, TypeError, ValueError) as error:
            raise BadRequest(f"launch: not an AttemptSpec: {error!r}") from error
        scratch = self._where.attempt(spec.attempt)
        if spec.attempt in self._running or scratch.exists():
            return
        slot = next(index for index in range(len(self._running) + 1) if index not in self._slots())
        running = Running(spec, slot, self._clock.now_s(), self._limits.oom_kills(slot))
        self._running[spec.attempt] = running
        try:
            scratch.mkdir()
            (scratch / "spec.json").write_text(json.dumps(raw))
            self._limits.crowd(len(self._running))
            procs, gate = self._limits.slot(slot, spec.memory_bytes)
        except (OSError, CgroupError) as error:
            self._finish(spec.attempt, None, {}, f"could not be set up: {error}")
        else:
            self._send({"type": "launch", "spec": raw, "slot": slot, "procs": procs, "gate": gate})

    def kill(self, attempt: str, reason: str) -> None:
        """Kills the attempt, if it still runs; its report follows."""
        if running := self._running.get(attempt):
            running.kill_reason = running.kill_reason or reason
            self._send({"type": "kill", "attempt": attempt})

    def crash(self, attempt: str) -> None:
        """Kill the attempt's process as an accident would: the report says failed, not killed."""
        if attempt in self._running:
            self._send({"type": "kill", "attempt": attempt})

    def meet(self, peers: Message, racks: Message, epoch_s: float) -> None:
        """Tells future attempts where the other nodes are and when the run began."""
        self._send({"type": "peers", "peers": peers, "racks": racks, "epoch_s": epoch_s})

    def statuses(self) -> list[Message]:
        """Fields of AttemptStatus for each running attempt."""
        return [self._status(attempt) for attempt in self._running]

    def pids(self) -> list[int]:
        """The processes of running attempts."""
        return [running.pid for running in self._running.values() if running.pid is not None]

    def cpu_s(self) -> float:
        """CPU time of all attempts so far, running and ended, in core-seconds of the host; without what starting them
        took, which no limit holds."""
        for running in self._running.values():
            if running.pid is not None:
                self._note_cpu(running, process_cpu_s(running.pid))
        return self._ended_cpu_s + sum(running.worked_s for running in self._running.values())

    def _note_cpu(self, running: Running, cpu_s: float) -> None:
        """Of an attempt's CPU time so far keeps what its own code has used, nothing when that has not begun. A process
        that has exited has none any more, and keeps what it had until its report comes."""
        if running.setup_cpu_s is None:  # told once, when its own code begins
            said = read_json(self._where.attempt(running.spec.attempt) / "status")
            running.setup_cpu_s = said.get("setup_cpu_s", 0.0) if said else None
        if running.setup_cpu_s is not None:
            running.worked_s = max(running.worked_s, cpu_s - running.setup_cpu_s)

    def _slots(self) -> list[int]:
        return [running.slot for running in self._running.values()]

    def _status(self, attempt: str) -> Message:
        phase = "map" if self._running[attempt].spec.kind is TaskKind.MAP else "shuffle"
        status = {"attempt": attempt, "progress": 0.0, "phase": phase, "started_s": None}
        said = read_json(self._where.attempt(attempt) / "status")
        return status | {name: said[name] for name in ("progress", "phase", "started_s") if name in said}

    # ----------------------------------------------------------- the zygote

    def _send(self, message: Message) -> None:
        if self._link is None:
            self._waiting.append(message)
        else:
            self._link.send(message)

    def _on_message(self, message: Message) -> None:
        attempt = message["attempt"]
        if attempt not in self._running:
            return  # it was given up
        if message["type"] == "started":
            self._running[attempt].pid = message["pid"]
        elif message["type"] == "ended":
            used = {name: message[name] for name in ("cpu_s", "memory_peak_bytes")}
            self._note_cpu(self._running[attempt], used["cpu_s"])
            self._finish(attempt, message["status"], used, message["error"])

    def _on_zygote_end(self) -> None:
        """The warm process has died and its forks with it: report them, start another."""
        self._link = None
        for attempt in list(self._running):
            self._finish(attempt, None, {}, "the node's warm process died")
        self._reviving = asyncio.get_running_loop().create_task(self._revive())

    async def _revive(self) -> None:
        log.warning("the warm process died, starting another")
        try:
            await self.open(self._start_zygote())
        except (ZygoteDied, OSError) as error:
            self._on_fatal(str(error))

    # -------------------------------------------------------------- reports

    def _finish(self, attempt: str, status: int | None, used: Message, error: str) -> None:
        """Publishes the report of an attempt that has ended, then clears up after it."""
        running = self._running.pop(attempt, None)
        if running is None:
            return
        self._ended_cpu_s += running.worked_s
        with contextlib.suppress(CgroupError):
            self._limits.crowd(len(self._running))
        over_memory = self._limits.oom_kills(running.slot) > running.oom_kills
        folder, now_s = self._where.attempt(attempt), self._clock.now_s()
        report = report_of(running, folder, status, error, over_memory=over_memory, now_s=now_s)
        counters = {name: value for name, value in report["counters"].items() if name in _COUNTERS}
        report["counters"] = asdict(Counters(**counters | used))
        self._publish(report)
        if report["state"] != "succeeded":
            shutil.rmtree(self._where.map_output(attempt), ignore_errors=True)
        if report["state"] != "failed":  # a failed one's log stays until its job is forgotten
            shutil.rmtree(self._where.attempt(attempt), ignore_errors=True)
