"""Runs attempts that try to exceed their limits on a scenario's first nodes, and measures what they use."""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import signal
import socket
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import urlsplit

from schedbed.cluster.machines.docker.network import HEADERS
from schedbed.cluster.machines.kernel_counters import interface_bytes
from schedbed.cluster.machines.machine import KernelTotals, Machine, MachineFailed
from schedbed.cluster.machines.make import make_machine
from schedbed.cluster.run_config import RunConfig
from schedbed.deploy.doctor.achieved import nodes_alone
from schedbed.deploy.doctor.host_load import ahead_of_others
from schedbed.deploy.doctor.loads import LoadedNode, Message, connected, probe
from schedbed.deploy.doctor.rate_fit import FittedRate, steady_rate
from schedbed.deploy.doctor.trials import TRIALS, WANTED_BYTES, HostileTrial, LimitRow, TrialSeen, judge
from schedbed.deploy.failures import RunFailed
from schedbed.deploy.scenario.resolved import ResolvedScenario
from schedbed.tasks.errors import BadInput
from schedbed.tasks.specs import AttemptSpec, Cost

HOSTILE_NODES = 3
HOSTILE_S = 4.0
LOOK_S = 0.1
CPU_LOOK_S = 0.02  # Close to a quota's period, so that the fitted line averages over periods.
PATIENCE_S = 20.0  # Wait for an end in addition to the program's own duration.
KILLED_S = 10.0
LIVES_S = 15.0  # Longest wait for a heartbeat of a live node.
SETTLE_S = 3.0  # A killed process with a small quota needs time to end.
# Limits of the data written where no limit is enforced: 8 times the declared rate.
DISK_TIMES, DISK_MOST_BYTES = 8, 2**30

TIMES = {
    "memory": 0.4,
    "processes": 0.7,
    "disk": 1.5,
}  # Factors on the duration: no rate is needed for the first two, and disk traffic is uneven.

PROGRAMS_PACKAGE = "schedbed.tasks.hostile"
Say = Callable[[str], None]


def check_programs() -> None:
    """Raise BadInput if the hostile programs are not there, as in an installation from a wheel."""
    if find_spec(PROGRAMS_PACKAGE) is None:
        raise BadInput(
            "--hostile: this installation lacks the hostile programs, run it in a clone of the repository"
        )


def measure_hostile(
    scenario: ResolvedScenario,
    machines: str,
    say: Say,
    seconds: float = HOSTILE_S,
    trials: Sequence[HostileTrial] = TRIALS,
) -> list[LimitRow]:
    """Start at most three nodes, attack each limit of the first, and return results. Raises BadInput, RunFailed."""
    cluster = replace(scenario.cluster, nodes=scenario.cluster.nodes[:HOSTILE_NODES])
    with nodes_alone(cluster, machines) as config:
        try:
            return asyncio.run(_measure(config, say, seconds, trials))
        except MachineFailed as error:
            raise RunFailed(str(error)) from None


async def _measure(
    config: RunConfig, say: Say, seconds: float, trials: Sequence[HostileTrial]
) -> list[LimitRow]:
    from schedbed.tasks.hostile.hostile_runner import HOSTILE_RUNNER

    specs = config.cluster.nodes
    machines = [make_machine(config, spec, config.epoch_s, HOSTILE_RUNNER) for spec in specs]
    rows: list[LimitRow] = []
    async with connected(machines, specs, config.token, seconds) as loads:
        for number, trial in enumerate(trials):
            say(f"{number + 1} of {len(trials)}: {trial.resource}, {trial.about}")
            if trial.helpers and len(loads.nodes) < 2:
                say("  left out: the scenario has one node")
                continue
            rows.append(await _Run(trial, loads.nodes, seconds).row())
    return rows


@dataclass(frozen=True, slots=True)
class _Attempt:
    node: LoadedNode
    spec: AttemptSpec


class _Run:
    """A trial: an attempt tries to exceed a limit of the first node. Others may run helpers."""

    def __init__(self, trial: HostileTrial, nodes: Sequence[LoadedNode], seconds: float) -> None:
        self._trial = trial
        self._seconds = seconds
        self._node = nodes[0]
        self._job = f"job_{secrets.token_hex(4)}"  # Unique, since others may run the same test on this host.
        self._port = _free_port()
        helpers = nodes[1 : 1 + trial.helpers]
        node = self._node.spec
        count = trial.count or node.map_slots + node.reduce_slots
        receiver = self._node if trial.program == "receive" else helpers[0] if helpers else self._node
        self._peer = urlsplit(receiver.hello.url).hostname or ""
        self._tried = [self._attempt(self._node, trial.program, number) for number in range(count)]
        self._helping = [
            self._attempt(helper, trial.helper, count + number) for number, helper in enumerate(helpers)
        ]

    async def row(self) -> LimitRow:
        """Run the trial and return a row with the result and its verdict."""
        from schedbed.tasks.hostile.fork_bomb import PROCESSES

        names = [attempt.spec.attempt for attempt in self._tried]
        witness = CounterReader(self._node.machine, names, self._trial.counter)
        pause_s = CPU_LOOK_S if self._trial.resource == "cpu" else LOOK_S
        over = threading.Event()
        watching = asyncio.create_task(asyncio.to_thread(witness.watch, over, pause_s))
        try:
            for attempt in (*self._tried, *self._helping):
                await attempt.node.send("launch", spec=attempt.spec.to_json())
            report = (await self._reports())[names[0]]
        finally:
            over.set()
            await watching
        lives = await self._lives()
        return judge(
            self._trial,
            self._node.spec,
            self._node.hello.limits.get(self._trial.resource, ""),
            self._seen(witness, report, lives, await self._left_behind(witness)),
            PROCESSES,
        )

    def _attempt(self, node: LoadedNode, program: str, number: int) -> _Attempt:
        from schedbed.tasks.hostile.hostile_runner import HOSTILE_APP

        rate = node.spec.disk_bps * DISK_TIMES * self._seconds
        sizes = {"memory": WANTED_BYTES, "disk": min(DISK_MOST_BYTES, int(rate))}
        orders = {
            "attack": program,
            "seconds": self._seconds * TIMES.get(self._trial.resource, 1.0),
            "size_bytes": sizes.get(self._trial.resource, 0),
            "peer": self._peer,
            "port": self._port,
            # The attempt itself must end, not only a child, to show that the memory limit works.
            "vanish": self._trial.resource != "memory",
        }
        spec = probe(node.spec, self._job, number, Cost(), None)
        return _Attempt(node, replace(spec, app=HOSTILE_APP, params=orders))

    async def _reports(self) -> dict[str, Message]:
        """Wait for the trial's attempts, killing late ones. Return {attempt: agent's report}."""
        attempts = [*self._tried, *self._helping]
        found: dict[str, Message] = {}
        reason = "it did not end by itself"
        for patience_s in (self._seconds + PATIENCE_S, KILLED_S):
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(patience_s):
                    await asyncio.gather(*(self._hear(attempt, found) for attempt in attempts))
            for attempt in attempts:
                if attempt.spec.attempt not in found:
                    await attempt.node.send("kill", attempt=attempt.spec.attempt, reason=reason)
        for node in {id(attempt.node): attempt.node for attempt in attempts}.values():
            await node.send("forget_job", job=self._job)
        hung = {"state": "hung", "reason": reason}
        return {attempt.spec.attempt: found.get(attempt.spec.attempt, hung) for attempt in attempts}

    @staticmethod
    async def _hear(attempt: _Attempt, found: dict[str, Message]) -> None:
        """Read reports into `found`, until this attempt's is there."""
        while attempt.spec.attempt not in found:
            try:
                report = await asyncio.wait_for(attempt.node.reports.get(), LOOK_S)
            except TimeoutError:
                continue  # A concurrent call for another attempt may have read the report.
            found[report["attempt"]] = report

    async def _lives(self) -> bool:
        """Return whether the node's machine is alive and still sends heartbeats."""
        self._node.heartbeats.clear()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LIVES_S):
                while self._node.machine.is_alive() and not self._node.heartbeats:
                    await asyncio.sleep(LOOK_S)
        return self._node.machine.is_alive() and bool(self._node.heartbeats)

    async def _left_behind(self, witness: CounterReader) -> int:
        """Wait for processes up to SETTLE_S seconds, kill the rest, and return their number."""
        give_up_s = time.monotonic() + SETTLE_S
        while True:
            await asyncio.to_thread(witness.processes.search)
            await asyncio.to_thread(witness.processes.look)
            left = list(witness.processes.alive)
            if not left or time.monotonic() > give_up_s:
                break
            await asyncio.sleep(LOOK_S)
        for pid in left:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        return len(left)

    def _seen(self, witness: CounterReader, report: Message, lives: bool, left: int) -> TrialSeen:
        achieved, resolution, by = None, 0.0, "none"
        if self._trial.resource in ("memory", "processes"):
            achieved, by = highest_value(witness.readings, self._trial.counter) or (None, by)
        elif found := highest_rate(witness.readings, self._trial.counter):
            achieved, resolution, by = found[0].per_s, found[0].resolution, found[1]
        return TrialSeen(
            achieved=achieved,
            resolution=resolution,
            witness=by,
            state=report["state"],
            reason=report["reason"],
            node_lives=lives,
            pids_limit=witness.pids_limit,
            left_behind=left,
        )


def _free_port() -> int:
    with socket.create_server(("", 0)) as door:
        return int(door.getsockname()[1])


# Measures an uncooperative attempt from outside, by the kernel's counters on the host.
#
# Two sources are used. The first is the node's own counters (`Machine.totals`: control group, block device,
# network interface). The second is the counters of each process that writes to the attempt's log, even if
# the process has left its control group, its session or its parent. Neither source includes the work of
# other nodes, so the higher value is the true one.

PROC = Path("/proc")
GROUPS = Path("/sys/fs/cgroup")
SEARCH_S = 0.1
PROMPT_S, TRIES = 0.003, 3
IO_FIELDS = {
    "read_bytes": "read_bytes:",
    "write_bytes": "write_bytes:",
    "sent_bytes": "wchar:",
    "received_bytes": "rchar:",
}
KERNEL_GROUP, DEVICE, NIC = "control group", "block device", "interface"
CLOCKS, PROCESS_IO, PSS, COUNTED = "process clocks", "process I/O", "process memory", "processes"


@dataclass(frozen=True, slots=True)
class Reading:
    """All counters at one time, by (resource, counter), such as ("cpu_s", "control group").

    Resources are cpu_s, memory_bytes, read_bytes, write_bytes, sent_bytes, received_bytes and processes.
    """

    at_s: float
    values: dict[tuple[str, str], float]


@dataclass(slots=True)
class AttemptProcesses:
    """The attempts' processes, also ended ones, found by their output, which goes to an attempt's log.

    Fewer `wanted` resources (see `Reading`) are faster. `counts` has each process's last values.
    """

    attempts: Sequence[str]
    wanted: frozenset[str]
    counts: dict[int, dict[str, float]] = field(default_factory=dict)
    alive: set[int] = field(default_factory=set)

    def search(self) -> None:
        """Search /proc for processes of the attempts that are not known yet. This takes some milliseconds."""
        for pid in _numbers(PROC):
            if pid not in self.counts and self._is_theirs(pid):
                self.counts[pid] = {}
                self.alive.add(pid)

    def look(self) -> None:
        """Read the counters of each known process. Ended processes keep their last values, except memory."""
        for pid in list(self.alive):
            if _has_ended(pid):
                self.alive.discard(pid)
                self.counts[pid].pop("memory_bytes", None)
            else:
                with contextlib.suppress(OSError):
                    self.counts[pid] |= _read_process(pid, self.wanted)

    def totals(self) -> dict[tuple[str, str], float]:
        """Return the sum of each counter over all processes, none while no process is known."""
        if not self.counts:
            return {}
        found = {
            (name, instrument): sum(counts.get(name, 0.0) for counts in self.counts.values())
            for name, instrument in PROCESS_INSTRUMENTS.items()
            if name in self.wanted
        }
        return {**found, ("processes", COUNTED): float(len(self.alive))}

    def _is_theirs(self, pid: int) -> bool:
        for descriptor in (1, 2):
            with contextlib.suppress(OSError):
                target = str((PROC / str(pid) / "fd" / str(descriptor)).readlink())
                if any(f"/attempts/{attempt}/" in target for attempt in self.attempts):
                    return True
        return False


class CounterReader:
    """Reads the counters of one node, and of the processes of its attempts, while the attempts run."""

    def __init__(self, machine: Machine, attempts: Sequence[str], *wanted: str) -> None:
        self._machine = machine
        self.processes = AttemptProcesses(attempts, frozenset(wanted))
        self.readings: list[Reading] = []
        self.pids_limit: int | None = None
        self._searched_s = 0.0

    def watch(self, over: threading.Event, pause_s: float) -> None:
        """Take a reading every `pause_s` seconds with high priority, until `over` is set. Call this in a thread."""
        with ahead_of_others():
            while not over.wait(pause_s):
                self.look()

    def look(self) -> None:
        """Append a reading, and search for new processes every SEARCH_S seconds."""
        if time.monotonic() >= self._searched_s + SEARCH_S:
            self._searched_s = time.monotonic()
            self.processes.search()
            for pid in list(self.processes.alive)[:1]:
                self.pids_limit = self.pids_limit or pids_limit(pid)
        self.readings.append(self._prompt())

    def _prompt(self) -> Reading:
        """Return a reading that took less than PROMPT_S seconds, as its time is uncertain, or the last try."""
        tries = 0
        while True:
            tries, began_s = tries + 1, time.monotonic()
            self.processes.look()
            values = totals_of(self._machine.totals()) | self.processes.totals()
            for pid in list(self.processes.alive)[:1]:
                values |= _interface(pid)
            took_s = time.monotonic() - began_s
            if took_s < PROMPT_S or tries == TRIES:
                return Reading(began_s + took_s / 2, values)


PROCESS_INSTRUMENTS = {
    "cpu_s": CLOCKS,
    "memory_bytes": PSS,
    "read_bytes": PROCESS_IO,
    "write_bytes": PROCESS_IO,
    "sent_bytes": PROCESS_IO,
    "received_bytes": PROCESS_IO,
}


def totals_of(totals: KernelTotals) -> dict[tuple[str, str], float]:
    """Return a node's own counters that the host has, by (resource, counter)."""
    found = {
        ("cpu_s", KERNEL_GROUP): totals.cpu_s,
        ("memory_bytes", KERNEL_GROUP): totals.memory_bytes,
        ("read_bytes", DEVICE): totals.disk_read_bytes,
        ("write_bytes", DEVICE): totals.disk_write_bytes,
        ("sent_bytes", NIC): None if totals.sent_bytes is None else totals.sent_bytes / HEADERS,
        ("received_bytes", NIC): None if totals.received_bytes is None else totals.received_bytes / HEADERS,
    }
    return {name: float(value) for name, value in found.items() if value is not None}


def highest_rate(readings: Sequence[Reading], resource: str) -> tuple[FittedRate, str] | None:
    """Return the highest rate by any counter, with its name, or None if none grows."""
    rates: list[tuple[FittedRate, str]] = []
    for name in _instruments(readings, resource):
        rate = steady_rate(
            [(r.at_s, r.values[resource, name]) for r in readings if (resource, name) in r.values]
        )
        if rate is not None:
            rates.append((rate, name))
    return max(rates, default=None)


def highest_value(readings: Sequence[Reading], resource: str) -> tuple[float, str] | None:
    """Return the largest value of any counter, with its name, or None."""
    found = [
        (max(r.values[resource, name] for r in readings if (resource, name) in r.values), name)
        for name in _instruments(readings, resource)
    ]
    return max(found, default=None)


def pids_limit(pid: int, groups: Path = GROUPS, proc: Path = PROC) -> int | None:
    """Return the lowest limit on processes in a process's control groups, or None."""
    limits: list[int] = []
    with contextlib.suppress(OSError):
        for line in (proc / str(pid) / "cgroup").read_text().splitlines():
            _, names, path = line.split(":", 2)
            if names not in ("pids", ""):
                continue
            for top in (groups / names, groups / "unified") if names == "" else (groups / names,):
                inside = top / path.lstrip("/")
                for group in (inside, *inside.parents):
                    if group.is_relative_to(top):
                        limits += _limit_in(group / "pids.max")
    return min(limits, default=None)


def _instruments(readings: Sequence[Reading], resource: str) -> list[str]:
    return sorted({name for reading in readings for each, name in reading.values if each == resource})


def _read_process(pid: int, wanted: frozenset[str]) -> dict[str, float]:
    """Return a process's wanted counters. Raises OSError if it has ended or is not readable."""
    found: dict[str, float] = {}
    if "cpu_s" in wanted:
        # The CPU clock of a process includes ended threads and has a resolution of 1 ns.
        found["cpu_s"] = time.clock_gettime(~pid << 3 | 2)
    if "memory_bytes" in wanted:
        found["memory_bytes"] = _fields(pid, "smaps_rollup")["Pss:"] * 1024
    if wanted & IO_FIELDS.keys():
        fields = _fields(pid, "io")
        found |= {name: fields[field] for name, field in IO_FIELDS.items()}
    return found


def _fields(pid: int, file: str) -> dict[str, float]:
    lines = [line.split() for line in (PROC / str(pid) / file).read_text().splitlines()]
    return {words[0]: float(words[1]) for words in lines if len(words) > 1 and words[1].isdigit()}


def _has_ended(pid: int) -> bool:
    try:
        return (PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()[0] in "ZX"
    except OSError:
        return True


def _interface(pid: int) -> dict[tuple[str, str], float]:
    """Return a process's network bytes without headers, none on the host's own interface, used by others."""
    with contextlib.suppress(OSError):
        if _namespace(pid) != _namespace(
            os.getpid()
        ):  # The host's own interface also serves other processes.
            moved = interface_bytes(pid)
            if moved is not None:
                return {("sent_bytes", NIC): moved[0] / HEADERS, ("received_bytes", NIC): moved[1] / HEADERS}
    return {}


def _namespace(pid: int) -> str:
    return str((PROC / str(pid) / "ns" / "net").readlink())


def _limit_in(path: Path) -> list[int]:
    with contextlib.suppress(OSError, ValueError):
        return [int(path.read_text())]
    return []


def _numbers(folder: Path) -> list[int]:
    return [int(path.name) for path in folder.iterdir() if path.name.isdigit()]
