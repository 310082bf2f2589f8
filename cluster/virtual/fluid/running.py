"""The common part of simulated maps and reduces with contention.

A phase is a set of concurrent streams (CPU, reads, writes). Since a live attempt alternates between them in
small steps (`tasks.pacing`), they end together with the slowest: maximum rates are set so that this holds
without contention.
"""

from __future__ import annotations

from schedbed.cluster.messages import AttemptReport, AttemptStatus
from schedbed.cluster.virtual.agenda import Item
from schedbed.cluster.virtual.fluid.max_min import Flow, Resource
from schedbed.cluster.virtual.fluid.shared_nodes import SharedCluster, SharedNode, pipeline_way
from schedbed.cluster.virtual.node_model import AttemptPlan
from schedbed.cluster.virtual.plan_arithmetic import (
    block_lengths,
    fails_at,
    no_room,
    not_stored,
    spilled_bytes,
    write_file,
)
from schedbed.tasks.errors import DISK_FULL
from schedbed.tasks.specs import Counters

START, CPU, KNOWN, OWN_DISK, READ, WRITE, FETCH, COPY, WAIT, END = range(10)
"""The role of an agenda item for its attempt."""


class RunningAttempt:
    """A simulated attempt, from launch to report. `share` is the part of its planned work that it does."""

    __slots__ = (
        "began_s",
        "cpu_s",
        "failure",
        "flows",
        "host",
        "lengths",
        "output_bytes",
        "pace_s",
        "phase",
        "phase_bytes",
        "phase_moved",
        "plan",
        "read_local",
        "read_remote",
        "report",
        "share",
        "shuffle_bytes",
        "shuffle_end",
        "sort_end",
        "spill_bytes",
        "started_s",
        "streams",
        "targets",
        "timer",
        "world",
    )

    def __init__(self, world: SharedCluster, host: SharedNode, plan: AttemptPlan) -> None:
        self.world = world
        self.host = host
        self.plan = plan
        self.began_s = world.agenda.now_s
        self.started_s: float | None = None
        self.phase = ""
        self.report: AttemptReport | None = None  # Set at the end.
        self.flows: dict[Flow, None] = {}
        self.streams = 0  # Number of running streams of the phase.
        self.pace_s = 0.0  # Duration of the phase without contention.
        self.phase_bytes = self.phase_moved = 0.0
        self.cpu_s = 0.0
        self.read_local = self.read_remote = self.shuffle_bytes = self.spill_bytes = self.output_bytes = 0.0
        self.shuffle_end: float | None = None
        self.sort_end: float | None = None
        self.lengths: list[int] = []  # Lengths of the output's blocks.
        self.targets: list[int] = []  # Lengths of the blocks still to write, in reverse order.
        self.share, self.failure = fails_at(plan) or (1.0, "")
        self.timer = Item(self, START)
        world.agenda.at(self.began_s + plan.start_s, self.timer)

    # --------------------------------------------------------------- events

    def fire(self, item: Item) -> None:
        """Process the end of one of the attempt's flows, or of the attempt's timer."""
        role = item.role
        if isinstance(item, Flow):
            self.drop(item)
            self.credit(item, item.total)
            if role == WRITE:
                self._write_next()
            else:
                self.over(item)
        elif role == START:
            self.started_s = self.world.agenda.now_s
            self.start()
        elif role == END:
            self._tell()
        else:
            self.waited()

    def start(self) -> None:
        raise NotImplementedError

    def phase_over(self) -> None:
        """Start the next phase, because all streams of the current phase have ended, or end the attempt."""
        raise NotImplementedError

    def source_lost(self, flow: Flow) -> None:
        """Handle the loss of the node that sends a read or fetch."""
        raise NotImplementedError

    def waited(self) -> None:
        """Continue when the attempt's timer is due, which ends a pause."""

    def over(self, flow: Flow) -> None:
        """Process a flow's end, by default that of a stream of the phase."""
        self.stream_over()

    def stream_over(self) -> None:
        """Process the end of a stream. When the last stream ends, the current phase ends."""
        self.streams -= 1
        if not self.streams:
            self.phase_over()

    # ---------------------------------------------------------------- flows

    def flow(
        self,
        role: int,
        total: float,
        cap: float,
        way: tuple[Resource, ...] | list[Resource],
        detail: object = None,
    ) -> Flow:
        """Start a flow of `total` units through `way` at up to `cap` units/s, or slower after faults."""
        if (lag_s := self.world.lag_s(self.host, detail)) and total:
            cap = total / (total / cap + lag_s)
        return self._start(Flow(self, role, total, cap, way, detail))

    def drop(self, flow: Flow) -> None:
        """Stop a flow and remove it from the attempt."""
        self.world.sharing.stop(flow)
        del self.flows[flow]
        if flow.role == KNOWN:
            del self.host.free_running[flow]

    def cap(self, stream_bytes: float, way: tuple[Resource, ...] | list[Resource]) -> float:
        """Return the highest rate (bytes/s) of a stream along `way`."""
        cap = way[0].declared if len(way) == 1 else min(resource.declared for resource in way)
        return min(cap, stream_bytes / self.pace_s) if self.pace_s else cap

    def core_seconds(self, cpu_s: float) -> float:
        return cpu_s / self.world.latencies.core_share

    def compute(self, cpu_s: float) -> None:
        """Start a stream that uses `cpu_s` of CPU time on one emulated core. Do nothing if it is 0."""
        if cpu_s > 0:
            self.streams += 1
            self.compute_at(cpu_s, cpu_s / self.pace_s)

    def compute_at(self, cpu_s: float, rate: float, role: int = CPU) -> Flow:
        """Start a flow of `cpu_s` CPU seconds at up to `rate` cores. Only the role `CPU` has contention."""
        flow = Flow(self, role, cpu_s, rate, (self.host.cpu,) if role == CPU else ())
        flow.cap *= self.host.cpu_factor
        return self._start(flow)

    def take_known(self, seconds: float) -> None:
        """Start a stream that lasts `seconds`, longer only if a fault slowed the CPU."""
        self.streams += 1
        self.host.free_running[self.compute_at(max(seconds, 1e-9), 1.0, KNOWN)] = None

    def _start(self, flow: Flow) -> Flow:
        self.flows[flow] = None
        self.world.sharing.start(flow)
        return flow

    def use_disk(self, read_bytes: float, write_bytes: float, back_bytes: float = 0.0) -> None:
        """Start a stream of local disk I/O. `back_bytes` (read for merging) are not added to the counters."""
        total = read_bytes + write_bytes + back_bytes
        if write_bytes and self.host.full:
            self.fail(DISK_FULL)
        elif total > 0:
            self.streams += 1
            way = self.host.drive
            self.phase_bytes += total
            self.flow(OWN_DISK, total, self.cap(total, way), way, (read_bytes, write_bytes))

    # --------------------------------------------------------------- output

    def write_seconds(self) -> float:
        """Return the disk's seconds for the output file, without contention."""
        written = self.plan.cost.output_bytes * self.share
        return 0.0 if self.plan.output is None else written / self.host.spec.disk_bps

    def send_seconds(self) -> float:
        """Return the NIC's seconds for the output file's other replicas."""
        alone = self.plan.output is None or self.plan.replication < 2
        return 0.0 if alone else self.plan.cost.output_bytes * self.share / self.host.spec.network_bps

    def write_output(self) -> None:
        """Start a stream that writes the output file, one block after another."""
        if self.plan.output is None or self.report is not None:
            return
        total = int(self.plan.cost.output_bytes * self.share)
        self.lengths = block_lengths(total, self.plan.block_bytes)
        self.targets = self.lengths[::-1]
        self.phase_bytes += total
        self.streams += 1
        self._write_next()

    def _write_next(self) -> None:
        if not self.targets:
            self.stream_over()
            return
        plan, world, length = self.plan, self.world, self.targets.pop()
        assert plan.output is not None
        names = world.store.allocate(
            world.agenda.now_s, self.host.name, plan.output, plan.replication, length
        )
        chain = world.pipeline(names, self.host) if names else []
        if self.host.full:
            self.fail(DISK_FULL)
        elif chain:
            self._write(length, chain)
        else:
            self.fail(not_stored(plan.output) if names else no_room(plan.output))

    def _write(self, left: float, chain: list[SharedNode]) -> None:
        way = pipeline_way(self.host, chain)
        cap = self.cap(sum(self.lengths), way)
        latency_s = self.world.latencies.block(self.host.spec.core_speed)
        self.flow(WRITE, left, min(cap, left / latency_s) if latency_s else cap, way, chain)

    def pipeline_broke(self, flow: Flow, gone: SharedNode) -> None:
        """Write the rest of a block to the nodes before the lost node `gone`, or fail if `gone` is first."""
        chain = flow.detail
        assert isinstance(chain, list)
        left = flow.left_at(self.world.agenda.now_s)
        self.drop(flow)
        self.credit(flow, flow.total - left)
        if gone is chain[0]:
            self.fail(not_stored(self.plan.output or ""))
        else:
            self._write(left, chain[: chain.index(gone)])

    def writes_on(self, flow: Flow, host: SharedNode) -> bool:
        """Return whether a flow of this attempt writes to the disk of the node `host`."""
        if flow.role == WRITE:
            return host in flow.detail  # pyright: ignore[reportOperatorIssue]
        if flow.role == OWN_DISK:
            return bool(flow.detail[1])  # pyright: ignore[reportOptionalSubscript, reportIndexIssue]
        return flow.role == COPY

    def disk_filled(self, flow: Flow, host: SharedNode) -> None:
        """Handle the full disk of `host`, to which `flow` writes: drop the node as a target, or fail."""
        if flow.role == WRITE and flow.detail[0] is not host:  # pyright: ignore[reportOptionalSubscript, reportIndexIssue]
            self.pipeline_broke(flow, host)
        else:
            self.fail(DISK_FULL)

    # ------------------------------------------------------------- accounts

    def credit(self, flow: Flow, moved: float) -> None:
        """Add the `moved` units of a flow (bytes or CPU seconds) to the attempt's counters."""
        role = flow.role
        if role == CPU:
            self.cpu_s += moved
        elif role == KNOWN:
            cost = self.plan.cost
            self.cpu_s += (cost.cpu_s + cost.sort_cpu_s) * self.share * moved / flow.total
        else:
            self.phase_moved += moved
        if role == OWN_DISK:
            read_bytes, write_bytes = flow.detail  # pyright: ignore[reportGeneralTypeIssues]
            self.read_local += read_bytes * moved / flow.total
            self.spill_bytes += write_bytes * moved / flow.total
        elif role == READ and flow.detail is self.host:
            self.read_local += moved
        elif role == READ:
            self.read_remote += moved
        elif role == WRITE:
            self.output_bytes += moved
        elif role == COPY:
            self.spill_bytes += moved

    def done(self, now_s: float) -> float:
        """Return the completed share (0 to 1) of the phase's CPU time or of its bytes, whichever is lower."""
        share, moved = 1.0, self.phase_moved
        for flow in self.flows:
            if flow.role in (CPU, KNOWN):
                share = 1.0 - flow.left_at(now_s) / flow.total
            else:
                moved += flow.total - flow.left_at(now_s)
        return min(share, moved / self.phase_bytes) if self.phase_bytes else share

    def progress(self, now_s: float) -> float:
        """Return the progress from 0 to 1, defined as in live runs."""
        raise NotImplementedError

    def status(self, now_s: float) -> AttemptStatus:
        """Return the status of the running attempt for the node's heartbeat."""
        progress = 0.0 if self.started_s is None else self.progress(now_s)
        return AttemptStatus(
            attempt=self.plan.attempt, progress=progress, phase=self.phase, started_s=self.started_s
        )

    def memory_bytes(self, now_s: float) -> int:
        """Return the attempt's memory in bytes, which is assumed to grow with the progress."""
        if self.report is not None or self.started_s is None:
            return 0
        return int(self.plan.cost.memory_peak_bytes * self.progress(now_s) * self.share)

    # ------------------------------------------------------------------ end

    def fail(self, reason: str) -> None:
        """End as failed, which the node reports after a short latency."""
        self._end("failed", reason)
        self._tell_later(self.world.agenda.now_s)

    def succeed(self) -> None:
        """End the attempt as succeeded, or as failed if that is planned. The node reports this later."""
        world, plan, now_s = self.world, self.plan, self.world.agenda.now_s
        if self.failure or (self.host.full and (plan.output is not None or spilled_bytes(plan))):
            self.fail(self.failure or DISK_FULL)
            return
        if plan.output is None:
            self.output_bytes = plan.cost.output_bytes
        elif plan.cost.duration_s is None:
            world.store.written(now_s, self.host.name, plan.output, self.lengths)
        elif reason := write_file(world.store, now_s, self.host.name, plan):
            self.fail(reason)
            return
        else:
            self.output_bytes = plan.cost.output_bytes
        self._end("succeeded", "")
        self._tell_later(now_s)

    def kill(self, reason: str) -> None:
        """Kill the attempt and report that immediately. Do nothing if the attempt has already ended."""
        if self.report is None:
            self._end("killed", reason)
            self._tell()

    def vanish(self) -> None:
        """Remove the attempt without a report, because its node is lost."""
        self.world.agenda.cancel(self.timer)
        self.clear()

    def clear(self) -> None:
        """Stop all flows, and add the units that they have moved to the attempt's counters."""
        for flow in list(self.flows):
            self.drop(flow)
            self.credit(flow, flow.total - flow.left)

    def partitions(self) -> tuple[int, ...]:
        """Return the output's bytes for each reduce, of a map."""
        return ()

    def _end(self, state: str, reason: str) -> None:
        now_s, succeeded = self.world.agenda.now_s, state == "succeeded"
        self.clear()
        cost, limit = self.plan.cost, self.plan.memory_bytes
        counters = Counters(
            cpu_s=self.cpu_s * self.host.spec.core_speed,
            read_local_bytes=round(self.read_local),
            read_remote_bytes=round(self.read_remote),
            shuffle_bytes=round(self.shuffle_bytes),
            spill_bytes=round(self.spill_bytes),
            output_bytes=round(self.output_bytes),
            shuffle_end=self.shuffle_end,
            sort_end=self.sort_end,
            records_in=cost.records_in if succeeded else 0,
            records_out=cost.records_out if succeeded else 0,
            memory_peak_bytes=min(cost.memory_peak_bytes, limit) if limit else cost.memory_peak_bytes,
        )
        self.report = AttemptReport(
            attempt=self.plan.attempt,
            state=state,
            reason=reason,
            start_s=self.began_s if self.started_s is None else self.started_s,
            end_s=now_s,
            counters=counters,
            partitions=self.partitions() if succeeded else (),
        )

    def _tell_later(self, now_s: float) -> None:
        latency_s = self.world.latencies.end(self.host.spec.core_speed)
        self.timer.role = END
        self.world.agenda.at(now_s + latency_s, self.timer)

    def _tell(self) -> None:
        assert self.report is not None
        self.world.agenda.cancel(self.timer)
        self.world.leave(self.host, self)
        self.world.told.append((self.host.name, self.report))
