"""A live run of a policy: start the cluster, upload the inputs, follow the jobs, and stop the cluster."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Protocol, TypeVar

from schedbed.cluster.blocks.block_errors import BlockStoreError
from schedbed.cluster.blocks.dataplane import DataPlane
from schedbed.cluster.blocks.loader import upload_all
from schedbed.cluster.checksum_chain import JournalDamaged
from schedbed.cluster.clock import RunClock
from schedbed.cluster.machines.machine import MachineFailed
from schedbed.cluster.machines.make import KINDS
from schedbed.cluster.masters import MasterGone, NameNodeDoor, Send, make_stub
from schedbed.cluster.run_config import RunConfig
from schedbed.deploy.failures import RunFailed, port_told
from schedbed.deploy.hostwatch import HostWatch
from schedbed.deploy.live.driver_door import DriverDoor
from schedbed.deploy.live.fault_injector import FaultInjector, Held, injecting
from schedbed.deploy.live.job_outputs import Outputs
from schedbed.deploy.live.ray_cluster import RayCluster
from schedbed.deploy.scenario.resolved import ResolvedScenario
from schedbed.scheduler.core.states import AS_PLANNED
from schedbed.scheduler.driver import Plan, PolicyChange
from schedbed.scheduler.guard.call_record import LAST_CALL, LAST_WORDS
from schedbed.scheduler.guard.stuck_watch import StuckWatch
from schedbed.scheduler.history import COLUMNS, History, places_of
from schedbed.tasks.appkit.app_catalogue import app_of
from schedbed.tasks.specs import BlockRange, JobSpec, NodeId
from schedbed.tasks.workloads.planned import InputFile, PlannedJob, build_job

T = TypeVar("T")
POLL_S = 0.5
UPLOADS = 3
LOOK_S = 3.0  # Interval of checks of replicas and addresses, which call actors.
LAST_POLL_S = 2.0
QUIET_LIMIT_S = 60.0
"""A run ends if for this time no node is alive and no fault is planned, or the masters do not answer."""

BLOCKS = tuple(COLUMNS["blocks"])
JOB, STATE = places_of("jobs", "job", "state")
OnStatus = Callable[[dict[str, Any]], None]
Over = Callable[[bool], bool]
"""Called repeatedly with whether all jobs have ended; returns whether the cluster must shut down now."""


Condition = tuple[Held, dict[str, float | None]]
"""The faults in force by node, and the masters that are down with the end of the fault, if one is the cause."""


class RunFollower(Protocol):
    """An object that receives the progress of a run: the new rows of each table, and the latest status.

    `take_condition` gets changes of the faults in force by node, and of the masters that are down, with ends.
    """

    def take_rows(self, table: str, rows: Iterable[tuple[Any, ...]]) -> None: ...
    def take_status(self, status: Mapping[str, Any]) -> None: ...
    def take_condition(self, now_s: float, held: Held, down: Mapping[str, float | None]) -> None: ...


class Session:
    """A live run: call `start`, then `follow`, and always `stop`.

    Rows go to `history`, which writes files, and to `followers`, such as the live page.
    """

    def __init__(
        self,
        cluster: RayCluster,
        scenario: ResolvedScenario,
        config: RunConfig,
        history: History,
        followers: Sequence[RunFollower] = (),
    ) -> None:
        self._cluster = cluster
        self._followers = followers
        self._names = cluster.masters.name_node
        self._scenario = scenario
        self._config = config
        self._history = history
        self.clock = config.clock()
        self._peers: dict[str, str] = {}  # Changed in place, since running uploads read it.
        self._loader = JobLoader(cluster, config, self._peers)
        self.jobs = list(scenario.jobs)
        self.ended: dict[str, str] = {}  # States of all ended jobs; a status has only the latest.
        self.reasons: dict[str, str] = {}  # Why jobs did not succeed, if known.
        self._stuck = StuckWatch(config.work / LAST_CALL, every_s=POLL_S)
        self._is_killed = False  # Whether a blocked JobTracker was killed.
        self._cursors: dict[str, int] = {}
        self._block_cursor = 0
        self.limits: dict[str, str] = {}  # How limits are enforced, by resource.
        self.counted: dict[str, str] = {}  # Who counts the use, by resource.
        self.watch = HostWatch(self.clock)
        self.last_status: dict[str, Any] = {"jobs": [], "nodes": [], "recent": []}
        self.findings: dict[str, Any] = {}  # The policy's report at the end.

    @property
    def duration_s(self) -> float:
        """Return emulated seconds since the run's start, or 0 before."""
        return self.clock.now_s() if self._config.epoch_s else 0.0

    # ----------------------------------------------------------------- start

    @property
    def agents(self) -> Mapping[str, str]:
        """Return each agent's last known URL."""
        return self._peers

    def start(self, when_up: Callable[[], None] = lambda: None) -> RunConfig:
        """Start masters and nodes, upload inputs, start the clock, and submit the jobs. Raises RunFailed.

        `when_up` is called between nodes and upload. Return the configuration with the start time.
        """
        self._cluster.announce(self._config)
        self._cluster.begin_name_node()
        try:
            hellos = self._cluster.begin_nodes()
        except MachineFailed as error:
            raise RunFailed(str(error)) from None
        self._peers.update({hello["node"]: hello["url"] for hello in hellos})
        self.limits = _together(hello["limits"] for hello in hellos)
        self.counted = _together(hello["counted"] for hello in hellos)
        when_up()
        self._introduce()
        self._loader.upload(self._scenario.inputs)
        plan = self._loader.plan(self.jobs, [file.path for file in self._scenario.inputs])
        plan = replace(plan, changes=self._scenario.changes)
        asyncio.run(self._names.take_replica_changes())  # The plan includes these changes already.
        self._begin_clock()
        asyncio.run(self._watched(self._cluster.masters.job_tracker.start(plan)))
        self._introduce()
        return self._config

    def serve_web(self, port: int) -> str:
        """Serve WebHDFS on the port until the run ends. Return the URL. Raises RunFailed if the port is taken."""
        with port_told("--webhdfs", port):
            return self._cluster.serve_web(port)

    def _begin_clock(self) -> None:
        """Set the run's start to the current time, and send this time to all processes of the run."""
        self.clock = RunClock.start(self._config.cluster.stretch)
        self._config = replace(self._config, epoch_s=self.clock.epoch_s)
        self._cluster.announce(self._config)
        asyncio.run(self._names.begin_clock(self.clock.epoch_s))
        self.watch = HostWatch(self.clock)

    def _introduce(self) -> None:
        racks = {node.node: node.rack for node in self._config.cluster.nodes}
        self._cluster.introduce(self._peers, racks, self._config.epoch_s)

    # ------------------------------------------------------- jobs that come later

    def upload(self, file: InputFile) -> None:
        """Upload another input, again if a node dies meanwhile. Any thread may call this.

        Raises BadInput, BlockStoreError, or MasterGone if the NameNode is down.
        """
        for left in reversed(range(UPLOADS)):
            try:
                self._loader.upload([file])
                return
            except BlockStoreError:
                if not left:
                    raise
                time.sleep(LOOK_S)  # Until the NameNode has noticed the loss.

    def submit(self, jobs: Sequence[PlannedJob]) -> dict[str, float]:
        """Submit jobs, whose times count from now, after the upload of their inputs. For any thread.

        Return submit times since the run's start. Raises MasterGone or BlockStoreError.
        """
        plan = self._loader.plan(jobs, {path for job in jobs for path in job.reads})
        submitted = asyncio.run(self._loader.job_tracker.submit(plan))
        self.jobs.extend(jobs)
        return submitted

    def change(self, given: Mapping[str, Any]) -> None:
        """Give the policy new values of its parameters now. For any thread. Raises MasterGone."""
        plan = Plan(jobs=(), files={}, changes=(PolicyChange(0.0, dict(given)),))
        asyncio.run(self._loader.job_tracker.submit(plan))

    def forget(self, path: str) -> None:
        """Delete an input that no job needs, unless the NameNode is down."""
        with contextlib.suppress(MasterGone):
            asyncio.run(self._names.delete(path))

    def kill(self, jobs: Sequence[str] | None, reason: str) -> None:
        """Kill jobs, all by default, for `reason`. For any thread. Raises MasterGone."""
        asyncio.run(self._loader.job_tracker.kill(jobs, reason))

    # ---------------------------------------------------------------- follow

    def follow(self, faults: FaultInjector, on_status: OnStatus, over: Over | None = None) -> None:
        """Inject faults, read rows, and call `on_status`, until all jobs have ended. Raises RunFailed.

        With `over`, called with whether they have, the cluster stays up until it returns True, even without
        nodes.
        """
        alive_s = looked_s = time.monotonic()
        silent: set[str] = set()
        condition: Condition = ({}, {})
        with injecting(faults, self.clock.now_s) as begun:
            while True:
                now_s = time.monotonic()
                self.watch.look()
                self._append("faults", begun())
                self._check_going()
                try:
                    ended = self._poll(on_status)
                    silent.discard("jobtracker")
                except MasterGone:
                    ended = False
                    silent.add("jobtracker")
                    alive_s = now_s if faults.more_to_come else alive_s
                else:
                    alive = any(node["state"] == "alive" for node in self.last_status["nodes"])
                    if over or alive or faults.more_to_come:
                        alive_s = now_s
                if ended if over is None else over(ended):
                    return
                if now_s - alive_s > QUIET_LIMIT_S:
                    raise RunFailed(f"no node is alive since {QUIET_LIMIT_S:.0f} s and none is to come back")
                if now_s - looked_s > LOOK_S:
                    looked_s = now_s
                    faults.renew(self._follow_addresses())
                    silent.add("namenode")
                    with contextlib.suppress(MasterGone):
                        self._take_block_rows()
                        silent.discard("namenode")
                condition = self._tell_condition(faults, silent, condition)
                time.sleep(POLL_S)

    def _tell_condition(self, faults: FaultInjector, silent: Iterable[str], before: Condition) -> Condition:
        """Tell followers, if it has changed, what faults do to nodes and which masters are down. Return both."""
        held, down = faults.held()
        condition = held, dict.fromkeys(sorted(silent)) | down
        for follower in self._followers if condition != before else ():
            follower.take_condition(self.clock.now_s(), *condition)
        return condition

    def _poll(self, on_status: OnStatus, patience_s: float | None = None) -> bool:
        """Fetch rows and status. Return whether all jobs have ended. TimeoutError after `patience_s`."""

        poll = self._cluster.masters.job_tracker.poll(self._cursors)
        answer = asyncio.run(
            self._watched(poll) if patience_s is None else asyncio.wait_for(poll, patience_s)
        )
        for table, rows in answer["rows"].items():
            self._append(table, rows)
            if table == "jobs":
                self.ended.update((row[JOB], row[STATE]) for row in rows)
            self._cursors[table] = self._cursors.get(table, 0) + len(rows)
        self._history.flush()
        self.last_status = answer["status"]
        for follower in self._followers:
            follower.take_status(self.last_status)
        self.reasons.update(
            (job["job"], job["reason"]) for job in self.last_status["jobs"] if job.get("reason")
        )
        self.findings = answer["report"] or self.findings
        on_status(answer["status"])
        if answer["failure"]:
            raise RunFailed(answer["failure"])
        return answer["ended"]

    def _append(self, table: str, rows: Sequence[tuple[Any, ...]]) -> None:
        self._history.append(table, rows)
        for follower in self._followers:
            follower.take_rows(table, rows)

    async def _watched(self, call: Awaitable[T]) -> T:
        """Await a call to the JobTracker. Raises RunFailed if Ray ends, or the policy blocks it for too long."""
        task = asyncio.ensure_future(call)
        try:
            while not (await asyncio.wait([task], timeout=POLL_S))[0]:
                self._check_going()
            return task.result()
        finally:
            task.cancel()

    def _check_going(self) -> None:
        """Raise RunFailed if Ray has ended, or if one call of the policy blocks the JobTracker for too long."""
        self._cluster.check_ray_runs()
        words = self._config.work / LAST_WORDS
        trouble = self._stuck.look()
        if trouble:
            words.write_text(trouble)  # A restarted JobTracker must not call the policy again.
            self._is_killed = True
            self._cluster.kill_master("jobtracker")
        elif words.is_file():
            trouble = words.read_text()
        if trouble:
            raise RunFailed(trouble)

    def _take_block_rows(self) -> None:
        answer = asyncio.run(self._names.poll(self._block_cursor))
        self._block_cursor = answer["cursor"]
        self._history.append("blocks", [tuple(row[name] for name in BLOCKS) for row in answer["rows"]])

    def _follow_addresses(self) -> list[str]:
        """Restart nodes with a dead TaskTracker, unless their host is lost; tell all, and return them."""
        self._cluster.look_at_hosts()
        found = self._peers | self._cluster.addresses()
        moved = [node for node, url in found.items() if url != self._peers.get(node)]
        if moved:
            self._peers.update(found)
            self._introduce()
        return moved

    # ------------------------------------------------------------------ stop

    def save_outputs(self, folder: Path) -> None:
        """Copy successful jobs' committed outputs to `folder`/<job>/part-NNNNN."""
        self._peers.update(self._cluster.addresses())
        self.outputs().save(self._succeeded(), folder)

    def check_outputs(self) -> list[str]:
        """Return a line for each successful job with a wrong output. Reads are not rate-limited."""
        self._peers.update(self._cluster.addresses())
        return self.outputs().check(self._succeeded(), self._config.work / "check")

    def outputs(self) -> Outputs:
        """Return a reader of what jobs have written."""
        config = self._config
        run_apart = KINDS[config.machines]().run_apart
        apart = None if run_apart is None else partial(run_apart, config.run_id)
        return Outputs(self._loader.name_node, self._peers, config.token, config.tls, apart)

    def _succeeded(self) -> list[PlannedJob]:
        return [job for job in self.jobs if self.ended.get(job.job) == "succeeded"]

    def unsuccessful(self) -> list[str]:
        """Return a line with the state and reason for each planned job that makes the run fail."""
        states = [(job.job, self.ended.get(job.job, "has no row")) for job in self.jobs]
        return [
            f"{job} {state}: {self.reasons.get(job, 'reason not known')}"
            for job, state in states
            if state not in AS_PLANNED
        ]

    def stop(self) -> None:
        """Fetch the last rows, and stop the nodes and masters. Errors of actors that are down are ignored."""
        self._loader.close()
        if not self._is_killed:
            with contextlib.suppress(MasterGone, RunFailed, TimeoutError):
                self._poll(lambda _: None, LAST_POLL_S)  # A policy may block the JobTracker.
        with contextlib.suppress(MasterGone, JournalDamaged):
            asyncio.run(self._names.close())
            self._take_block_rows()
        self._cluster.end_run()


def _together(told: Iterable[Mapping[str, str]]) -> dict[str, str]:
    """Merge the nodes' texts by resource; different ones are joined by commas."""
    answers: dict[str, set[str]] = {}
    for each in told:
        for resource, answer in each.items():
            answers.setdefault(resource, set()).add(answer)
    return {resource: ", ".join(sorted(found)) for resource, found in answers.items()}


# Preparation of jobs for a live cluster: upload of input files, and specifications with block locations.

RETRY_S = 0.5
PATIENCE_S = 60.0
"""Seconds after which a call to a master that does not answer fails."""


class JobLoader:
    """Uploads inputs, without rate limit, and makes jobs' specifications, for several threads.

    `peers` may change. Calls to a master that is down are repeated until `close`.
    """

    def __init__(self, cluster: RayCluster, config: RunConfig, peers: Mapping[NodeId, str]) -> None:
        self._config = config
        self._peers = peers
        self._closed = False
        self.name_node = make_stub(NameNodeDoor, self._patient(cluster.masters.to_name_node))
        self.job_tracker = make_stub(DriverDoor, self._patient(cluster.masters.to_job_tracker))

    def close(self) -> None:
        """Stop repeating calls to masters that are down, which then raise MasterGone."""
        self._closed = True

    def _patient(self, send: Send) -> Send:
        """Repeat calls while the master is down; MasterGone after `PATIENCE_S` seconds or `close`."""

        async def send_again(method: str, args: Sequence[Any], named: Mapping[str, Any]) -> Any:
            give_up_s = time.monotonic() + PATIENCE_S
            while True:
                try:
                    return await send(method, args, named)
                except MasterGone:
                    if self._closed or time.monotonic() > give_up_s:
                        raise
                    await asyncio.sleep(RETRY_S)

        return send_again

    def upload(self, files: Sequence[InputFile]) -> None:
        """Upload inputs over the nodes. Raises BadInput, BlockStoreError, or MasterGone."""
        settings = self._config.cluster.blocks
        asyncio.run(
            upload_all(files, self.name_node, self._peers, self._config.token, settings, self._config.tls)
        )

    def plan(self, jobs: Iterable[PlannedJob], paths: Iterable[str]) -> Plan:
        """Return specifications with the blocks of the files that the jobs read."""
        raw = {path: asyncio.run(self.name_node.locate(path)) for path in paths}
        files = {
            path: tuple(BlockRange(**{**block, "nodes": tuple(block["nodes"])}) for block in blocks)
            for path, blocks in raw.items()
        }

        def built(planned: PlannedJob) -> JobSpec:
            derived = self._derived(planned, raw.get(planned.input or "", []))
            return build_job(planned, files.__getitem__, derived)

        return Plan(jobs=tuple(built(planned) for planned in jobs), files=files)

    def _derived(self, planned: PlannedJob, blocks: list[dict[str, Any]]) -> Mapping[str, Any]:
        """Return what the application computes from the input, such as a sort's key ranges."""
        derive = app_of(planned).derive
        if derive is None:
            return {}
        length = sum(block["length"] for block in blocks)
        return derive(
            lambda at, size: self._read(blocks, at, size), length, planned.reduces, self._config.seed
        )

    def _read(self, blocks: list[dict[str, Any]], offset: int, size: int) -> bytes:
        async def read() -> bytes:
            async with DataPlane(self._peers, self._config.token, self._config.tls) as plane:
                return b"".join([piece async for piece in plane.read(blocks, offset, offset + size)])

        return asyncio.run(read())
