"""The attempts of a node, which run in processes that were forked in advance."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import math
import os
import shutil
import signal
import time
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from schedbed.cluster.agent.cgroups import CgroupError
from schedbed.cluster.agent.folder import AgentDir, BadRequest, open_plain
from schedbed.cluster.agent.limits import NO_LOSSES, Losses, NodeLimits
from schedbed.cluster.agent.node_groups import FIRST_LOOK_S, PROCESSES
from schedbed.cluster.agent.warm.spares import Spare, Spares
from schedbed.cluster.agent.warm.zygote_link import ZygoteDied, ZygoteLink
from schedbed.cluster.clock import RunClock
from schedbed.cluster.messages import Usage
from schedbed.cluster.spec import NodeSpec
from schedbed.tasks.own.silence import StatusFileAge, silence_of
from schedbed.tasks.pacing import Budget
from schedbed.tasks.specs import AttemptSpec, Counters, TaskKind

log = logging.getLogger(__name__)

LOOK_S = 0.25  # emulated seconds between two checks of the running attempts' usage and limits
LOOK_MAX_S = 1.0  # the same in real seconds, at most
STICKY = 0o1777  # Attempts that run as separate users add map outputs and can remove only their own.
_COUNTERS = frozenset(field.name for field in fields(Counters))


class Attempts:
    """The running attempts of a node. `publish` gets the AttemptReport of each; `on_fatal`, why no zygote starts."""

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
        self._waiting: deque[str] = deque()  # attempts that have no process yet
        self._met: Message = {}
        self._spares = Spares(
            limits, on_ready=self._dispatch, on_said=self._on_said, on_reaped=self._on_reaped
        )
        self._link: ZygoteLink | None = None
        self._ended_cpu_s = 0.0
        self._reviving: asyncio.Task[None] | None = None
        self._looking: asyncio.TimerHandle | None = None

    async def open(self, link: ZygoteLink) -> None:
        """Connect to a zygote that was just started, and request processes from it. Raises ZygoteDied."""
        if self._limits.drops:
            self._where.mapout.chmod(STICKY)
            self._where.programs.mkdir(exist_ok=True)
            self._where.programs.chmod(STICKY)
        await link.connect(self._setup(), self._spares.hear, self._on_zygote_end)
        self._link = link
        self._spares.begin(link)

    async def close(self) -> None:
        """End all attempts and the zygote, without reports."""
        self._running.clear()
        self._waiting.clear()
        if self._looking is not None:
            self._looking.cancel()
        if self._reviving is not None:
            self._reviving.cancel()
        if self._link is not None:
            await self._link.close()
        await self._spares.close()

    def launch(self, raw: Message) -> None:
        """Launch the AttemptSpec `raw`, unless it was launched before."""
        try:
            spec = AttemptSpec.from_json(raw)
        except (KeyError, TypeError, ValueError) as error:
            raise BadRequest(f"launch: not an AttemptSpec: {error!r}") from error
        scratch = self._where.attempt(spec.attempt)
        if spec.attempt in self._running or scratch.exists():
            return
        self._running[spec.attempt] = Running(spec, self._clock.now_s())
        self._declare_memory()
        try:
            scratch.mkdir()
            self._running[spec.attempt].silence = silence_of(spec, scratch / "status")
        except OSError as error:
            self._finish(spec.attempt, None, {}, f"could not be set up: {error}")
            return
        running = self._running[spec.attempt]
        if spec.wait_s > 0:
            asyncio.get_running_loop().call_later(spec.wait_s * self._clock.stretch, self._queue, running)
        else:
            self._queue(running)

    def _queue(self, running: Running) -> None:
        """Start the attempt in the next spare process, unless it was killed while it waited."""
        if self._running.get(running.spec.attempt) is running:
            self._waiting.append(running.spec.attempt)
            self._dispatch()

    def kill(self, attempt: str, reason: str) -> None:
        """Kill the attempt if it is running. Its report is published when the process has ended."""
        if running := self._running.get(attempt):
            running.kill_reason = running.kill_reason or reason
            self._end(running)

    def crash(self, attempt: str) -> None:
        """Inject a fault: kill the attempt's process. The attempt's report has the state failed, not killed."""
        if running := self._running.get(attempt):
            running.retried = True
            self._end(running)

    def end_silent(self, now_s: float) -> None:
        """Fail attempts of a user's code that were silent for too long. `now_s` is in emulated seconds."""
        for running in list(self._running.values()):
            if (
                running.silence is not None
                and running.silence.too_long(now_s)
                and running.fail_reason is None
            ):
                running.fail_reason = running.silence.reason
                self._end(running)

    def meet(self, peers: Message, racks: Message, epoch_s: float) -> None:
        """Store nodes' URLs (`peers`), racks and the run's start, for attempts started later."""
        self._met = {"peers": dict(peers), "racks": dict(racks), "epoch_s": epoch_s}

    def statuses(self) -> list[Message]:
        return [status_of(running, self._where.attempt(name)) for name, running in self._running.items()]

    def pids(self) -> list[int]:
        spares = (running.spare for running in self._running.values())
        return [spare.pid for spare in spares if spare is not None and spare.pid is not None]

    def cpu_s(self) -> float:
        """Return the core-seconds of the host used by applications' code of all attempts, running and ended."""
        for running in self._running.values():
            self._note_cpu(running)
        return self._ended_cpu_s + sum(running.worked_s for running in self._running.values())

    def launch_cpu_s(self) -> float:
        """Return the CPU seconds outside the applications' code, or 0 if the kernel does not count groups."""
        used_s = self._limits.cpu_s()
        return 0.0 if used_s is None else max(0.0, used_s - self.cpu_s())

    def _declare_memory(self) -> None:
        self._limits.declare_memory(sum(running.spec.memory_bytes for running in self._running.values()))

    # ---------------------------------------------------------------- usage

    def _used_s(self, spare: Spare) -> float:
        used_s = self._limits.cpu_s(spare.place)
        if used_s is not None:
            return used_s
        return 0.0 if spare.pid is None else process_cpu_s(spare.pid)

    def _note_cpu(self, running: Running, at_least_s: float = 0.0) -> None:
        """Update an attempt's CPU time. `at_least_s` is its process's total at the exit, when none can be read."""
        if running.spare is not None and running.begun and not running.done:
            used_s = max(at_least_s, self._used_s(running.spare))
            running.worked_s = max(running.worked_s, used_s - running.begun_s)

    def _look(self) -> None:
        """Rebalance the CPU among running attempts, and kill attempts that have exceeded a kernel limit."""
        self._looking = None
        self._limits.rebalance()
        self._spares.kill_strays()
        for running in list(self._running.values()):
            if running.spare is None:
                continue
            self._limits.look_at_memory(running.spare.place)
            if over := running.over_limit(self._limits.losses(running.spare.place)):
                running.fail_reason = over
                self._end(running)
        if self._running:
            self._look_later()

    def _share_again(self) -> None:
        if self._running:
            self._limits.rebalance()

    def _look_later(self) -> None:
        """Schedule the next `_look`, later with the stretch: frequent checks of 200 nodes use half a core."""
        after_s = min(LOOK_S * self._clock.stretch, LOOK_MAX_S)
        self._looking = asyncio.get_running_loop().call_later(after_s, self._look)

    # ---------------------------------------------------------- life cycle

    def _dispatch(self) -> None:
        """Start queued attempts in the spare processes that are ready."""
        while self._waiting and (spare := self._spares.take()):
            running = self._running[self._waiting.popleft()]
            running.spare = spare
            running.losses = self._limits.losses(spare.place)
            attempt = running.spec.attempt
            self._limits.prepare(spare.place, running.spec.memory_bytes, self._where.attempt(attempt))
            if spare.uid is not None:
                os.chown(self._where.attempt(attempt), spare.uid, spare.uid)
            running.begun_s = self._used_s(spare)
            try:
                quota = self._limits.hold(spare.place)
                self._limits.count_memory(spare.place)
            except (CgroupError, OSError) as error:
                spare.attempt, running.fail_reason = attempt, f"could not be limited: {error}"
                self._end(running)
                continue
            spare.order(attempt, {"spec": running.spec.to_json(), "met": self._met}, quota)
            if self._looking is None:
                self._look_later()

    def _on_said(self, spare: Spare, message: Message) -> None:
        running = self._running.get(spare.attempt or "")
        if running is None or running.spare is not spare:
            return
        match message["type"]:
            case "begin":
                setup_cpu_s = setup_of(message)
                running.begun_s, running.begun = running.begun_s + setup_cpu_s, True
                self._limits.begun(spare.place, setup_cpu_s)
                asyncio.get_running_loop().call_later(FIRST_LOOK_S, self._share_again)
            case "done":
                self._note_cpu(running)
                running.done = True
                self._limits.ease(spare.place)
            case "broke":
                running.exception = str(message.get("error", ""))
            case _:
                self._note_cpu(running)
                self._finish(running.spec.attempt, 0, peak_bytes(message), "")
                self._spares.kill(spare)

    def _end(self, running: Running) -> None:
        """Kill the attempt's processes. Without a process yet, it is reported immediately."""
        if running.spare is not None:
            self._spares.kill(running.spare)
        else:
            with contextlib.suppress(ValueError):  # It may wait for its time.
                self._waiting.remove(running.spec.attempt)
            self._finish(running.spec.attempt, None, {}, "killed before it began")

    def _on_reaped(self, spare: Spare, message: Message) -> None:
        if spare.attempt is None:
            if spare.error and self._waiting:
                self._finish(self._waiting.popleft(), None, {}, spare.error)
            return
        running = self._running.get(spare.attempt)
        if running is None or running.spare is not spare:
            return
        began = "begin" in spare.said
        if not (began or running.retried or running.kill_reason or running.fail_reason):
            running.spare, running.retried = None, True  # The process died before the application's code.
            self._waiting.append(spare.attempt)
            self._dispatch()
            return
        self._note_cpu(running, 0.0 if self._limits.kernel_counts else message["cpu_s"])
        code = os.waitstatus_to_exitcode(message["status"])
        self._finish(spare.attempt, code, peak_bytes(message), "")

    def _on_zygote_end(self) -> None:
        """Report all started attempts as failed because the zygote died, and start another zygote."""
        self._link = None
        for attempt in [name for name, running in self._running.items() if running.spare is not None]:
            self._finish(attempt, None, {}, "the node's warm process died")
        self._spares.lost()
        self._reviving = asyncio.get_running_loop().create_task(self._revive())

    async def _revive(self) -> None:
        log.warning("the warm process died, starting another")
        try:
            await self.open(self._start_zygote())
        except (ZygoteDied, OSError) as error:
            self._on_fatal(str(error))

    # -------------------------------------------------------------- reports

    def _counted_peak(self, running: Running, over: str | None) -> Message:
        """Return {"memory_peak_bytes": n}, at most the limit unless the attempt exceeded it (`over`)."""
        peak = None if running.spare is None else self._limits.memory_peak_bytes(running.spare.place)
        if peak is None:
            return {}
        return {"memory_peak_bytes": peak if over else min(peak, running.spec.memory_bytes)}

    def _finish(self, attempt: str, code: int | None, used: Message, error: str) -> None:
        """Publish an ended attempt's report, then delete its files. `code` is the exit code, `error` the reason."""
        running = self._running.pop(attempt, None)
        if running is None:
            return
        self._declare_memory()
        self._ended_cpu_s += running.worked_s
        over = running.fail_reason
        if over is None and running.spare is not None:
            over = running.over_limit(self._limits.losses(running.spare.place))
        folder, now_s = self._where.attempt(attempt), self._clock.now_s()
        report = report_of(running, folder, code, error, over=over, now_s=now_s)
        counters: Message = {name: value for name, value in report["counters"].items() if name in _COUNTERS}
        counters |= used | {"cpu_s": running.worked_s} | self._counted_peak(running, over)
        report["counters"] = asdict(Counters(**counters))
        if self._limits.drops and report["state"] == "succeeded":
            self._where.seal_output(attempt)
        self._publish(report)
        if report["state"] != "succeeded":
            shutil.rmtree(self._where.map_output(attempt), ignore_errors=True)
        if report["state"] != "failed":  # The log of a failed attempt is kept until its job is forgotten.
            shutil.rmtree(self._where.attempt(attempt), ignore_errors=True)


# The report of an ended attempt, from the attempt's report file or, without a file, from its exit code.

Message = dict[str, Any]
LOG_TAIL_BYTES = 4096
REPORT_BYTES = 4 * 2**20  # an attempt's report holds a number for each reduce
REASON_CHARS = 2000
BYTES_MAX = 2**60
SETUP_MAX_S = 1.0


@dataclass(slots=True)
class Running:
    """The agent's record of one attempt, from its launch until its report."""

    spec: AttemptSpec
    launched_s: float
    spare: Spare | None = None  # the forked process that runs the attempt
    losses: Losses = NO_LOSSES  # kernel counters of its group before the attempt
    kill_reason: str | None = None
    fail_reason: str | None = None  # why the agent itself kills the attempt
    silence: StatusFileAge | None = None  # detects inactivity; only for attempts with user code
    retried: bool = False
    begun: bool = False  # whether its own code has begun
    begun_s: float = 0.0  # CPU time of its group when its own code began
    done: bool = False  # whether its own code has ended
    worked_s: float = 0.0  # known CPU time of its own code
    exception: str = ""  # the exception that ended its process, in one line

    def over_limit(self, losses: Losses) -> str | None:
        """Return the limit that the attempt has exceeded, or None. `losses` are its group's counters now."""
        if losses.oom_kills > self.losses.oom_kills:
            return f"over its memory limit of {self.spec.memory_bytes / 2**20:.0f} MiB"
        if losses.refused_forks > self.losses.refused_forks:
            return f"over its limit of {PROCESSES} processes and threads"
        return None


def report_of(
    running: Running, folder: Path, code: int | None, error: str, *, over: str | None, now_s: float
) -> Message:
    """Return the AttemptReport's fields. `now_s` is the end if the file has none; a negative `code` is a signal."""
    said = read_json(folder / "report.json")
    started_s = _number(said.get("start_s")) or _number(read_json(folder / "status").get("started_s"))
    ended_s = _number(said.get("end_s"))
    counters, partitions = said.get("counters"), said.get("partitions")
    report = {
        "attempt": running.spec.attempt,
        "state": "failed",
        "reason": "",
        "start_s": running.launched_s if started_s is None else started_s,
        "end_s": now_s if ended_s is None else ended_s,
        "counters": _plain(counters) if isinstance(counters, dict) else {},
        "partitions": [],
    }
    if over is not None and running.kill_reason is None:
        return report | {"reason": over}
    if code is not None and code >= 0 and said.get("state") in ("succeeded", "failed"):
        whole = isinstance(partitions, list) and all(type(size) is int and size >= 0 for size in partitions)
        told = {"state": said["state"], "reason": str(said.get("reason", ""))[:REASON_CHARS]}
        return report | told | {"partitions": partitions if whole else []}
    if running.kill_reason is not None:
        return report | {"state": "killed", "reason": running.kill_reason}
    return report | {"reason": error or _why(code, folder / "log", running.exception)}


def status_of(running: Running, folder: Path) -> Message:
    """Return the fields of an AttemptStatus for the attempt `running`, from the status file in `folder`."""
    said = read_json(folder / "status")
    progress, phase = _number(said.get("progress")), said.get("phase")
    first = "map" if running.spec.kind is TaskKind.MAP else "shuffle"
    return {
        "attempt": running.spec.attempt,
        "progress": 0.0 if progress is None else min(1.0, max(0.0, progress)),
        "phase": phase[:REASON_CHARS] if isinstance(phase, str) else first,
        "started_s": _number(said.get("started_s")),
    }


def peak_bytes(message: Message) -> Message:
    """Return {"memory_peak_bytes": n} of a process's message, with 0 for a missing or impossible number."""
    told = message.get("memory_peak_bytes")
    return {"memory_peak_bytes": told if type(told) is int and 0 <= told < BYTES_MAX else 0}


def setup_of(message: Message) -> float:
    """Return the setup's CPU seconds from an attempt's message, limited because the message may be wrong."""
    return min(SETUP_MAX_S, max(0.0, _number(message.get("setup_cpu_s")) or 0.0))


def read_json(path: Path) -> Message:
    """Return the JSON object in a file that an attempt wrote, or {} if the file is missing or invalid."""
    try:
        value = json.loads(read_tail(path, REPORT_BYTES))
    except (OSError, ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def read_tail(path: Path, length: int) -> bytes:
    """Return the last `length` bytes of a regular file. Links are not followed, and pipes do not block."""
    with open_plain(path) as file:
        file.seek(max(0, os.fstat(file.fileno()).st_size - length))
        return file.read(length)


def _number(value: Any) -> float | None:
    return float(value) if type(value) in (int, float) and math.isfinite(value) else None


def _plain(counters: Message) -> Message:
    return {name: value for name, value in counters.items() if value is None or _number(value) is not None}


def _why(code: int | None, log: Path, exception: str) -> str:
    """Return the reason why a process ended without a report. `exception` is used if the log is empty."""
    if code is not None and code < 0:
        with contextlib.suppress(ValueError):
            return f"killed by signal {-code} ({signal.Signals(-code).name})"
        return f"killed by signal {-code}"
    last = _last_line(log) or exception
    shown = "unknown" if code is None else code
    return f"ended with status {shown} and no report" + (f": {last}" if last else "")


def _last_line(path: Path) -> str:
    try:
        lines = read_tail(path, LOG_TAIL_BYTES).decode(errors="replace").split("\n")
    except OSError:
        return ""
    return next((line.strip() for line in reversed(lines) if line.strip()), "")


# A node's resource usage as fractions of its declared rates.
#
# CPU and memory are measured from /proc, disk and network from the bytes charged to the node's rate limits.

_TICK_S = 1.0 / os.sysconf("SC_CLK_TCK")
_CLOCK_SCHED = 2  # part of the id of a process's CPU clock: clock_getcpuclockid(3)
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


def process_cpu_s(pid: int) -> float:
    """Return the CPU seconds of a process and the children that it waited for. Return 0 if the process has ended."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        own_s = time.clock_gettime(~pid << 3 | _CLOCK_SCHED)  # more precise than the ticks in stat
    except OSError:
        return 0.0
    return own_s + sum(map(int, fields[13:15])) * _TICK_S


def process_rss_bytes(pid: int) -> int:
    """Return the resident memory of a process in bytes, or 0 if the process has ended."""
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * _PAGE_BYTES
    except OSError:
        return 0


class UsageMeter:
    """Computes a node's resource usage from differences between readings of CPU time, disk and network bytes."""

    def __init__(self, node: NodeSpec, budget: Budget | None) -> None:
        self._node = node
        self._budget = budget
        self._last: tuple[float, dict[str, float]] | None = None

    def read(self, now_s: float, cpu_s: float, pids: Iterable[int]) -> Usage:
        """Return the usage since the last call as fractions of the declared rates. `cpu_s` is the total so far."""
        names = ("disk", "tx", "rx")
        totals = {name: self._budget.paid(name) if self._budget else 0.0 for name in names} | {"cpu": cpu_s}
        last_s, before = self._last or (now_s, totals)
        self._last = (now_s, totals)
        elapsed_s = max(now_s - last_s, 1e-6)
        rate = {name: max(0.0, totals[name] - before[name]) / elapsed_s for name in totals}
        return Usage(
            cpu_util=_share(rate["cpu"], self._node.cpu_rate),
            disk_util=_share(rate["disk"], self._node.disk_bps),
            net_util=_share(max(rate["tx"], rate["rx"]), self._node.network_bps),
            memory_bytes=sum(map(process_rss_bytes, pids)),
        )


def _share(rate: float, declared: float) -> float:
    return rate / declared if declared else 0.0
