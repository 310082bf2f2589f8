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
from dataclasses import dataclass, replace
from importlib.util import find_spec
from urllib.parse import urlsplit

from schedbed.cluster.machines.machine import MachineFailed
from schedbed.cluster.machines.make import make_machine
from schedbed.cluster.run_config import RunConfig
from schedbed.deploy.doctor.achieved import nodes_alone
from schedbed.deploy.doctor.loads import LoadedNode, Message, connected, probe
from schedbed.deploy.doctor.trials import TRIALS, WANTED_BYTES, HostileTrial, LimitRow, TrialSeen, judge
from schedbed.deploy.doctor.witness import CounterReader, highest_rate, highest_value
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
    """Start at most three nodes, try to exceed each limit of the first node, and return the results.

    Each of `trials` is an attack on one limit and takes about `seconds`. `say` is called with progress
    messages. Raises BadInput if machines of the kind `machines` do not work on this host, RunFailed if a node
    does not start.
    """
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
    """A trial: an attempt tries to exceed a limit of the first node in `nodes`.

    Other nodes may run helpers meanwhile, such as a sender of data.
    """

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
        """Wait for the trial's attempts to end, and kill those that do not end in time.

        Return a dictionary from attempt id to the agent's report about the attempt's end.
        """
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
        """Read reports from the attempt's node into `found`, until it contains the report of this attempt.

        `found` is a dictionary from attempt id to report. Reports of other attempts are stored as well.
        """
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
        """Wait up to SETTLE_S seconds for the attempts' processes to end, and kill the rest.

        Return the number of killed processes. `witness` is the object that finds the processes.
        """
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
