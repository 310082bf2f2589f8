"""Enforcement of a node's CPU, memory, disk and network limits, by control groups or else by software."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from schedbed.cluster.agent.cgroups import (
    NODE_GROUP,
    CgroupError,
    GroupFiles,
    PathFiles,
    Quota,
    find_hierarchies,
    receive_files,
    slot_groups,
)
from schedbed.cluster.agent.config import AgentConfig
from schedbed.cluster.agent.folder import AgentDir
from schedbed.cluster.agent.link_budgets import LinkBudgets, disk_of
from schedbed.cluster.agent.node_groups import NodeGroups
from schedbed.cluster.agent.stopped_groups import StoppedGroups
from schedbed.cluster.agent.warm.fork import PLACES, can_drop
from schedbed.cluster.spec import NodeSpec
from schedbed.tasks.errors import BadInput
from schedbed.tasks.pacing import NAMES, WITHHELD, Budget, Stream

log = logging.getLogger(__name__)

COOPERATING = "(cooperating code only)"
"""Suffix of the name of an enforcement that does not limit uncooperative code."""


class Losses(NamedTuple):
    """Two counters of an attempt: processes that were killed for lack of memory, and refused forks."""

    oom_kills: int = 0
    refused_forks: int = 0


NO_LOSSES = Losses()


class NodeStream:
    """A transfer limited by several budgets at the same time. Each of `streams` charges one."""

    def __init__(self, streams: Sequence[Stream]) -> None:
        self._streams = streams

    async def pay(self, length: int) -> None:
        """Charge `length` bytes to all budgets of the transfer, and wait until all budgets permit them."""
        delay_s = max((stream.reserve(length) for stream in self._streams), default=0.0)
        if delay_s > 0:
            await asyncio.sleep(delay_s)


class NodeLimits:
    """The limits of one node. The mode `config.limits` is `cgroup`, `software`, `off`, or `auto` (groups if
    possible).

    `place` is the index of a group of processes, which runs one attempt at a time; there are two per slot.
    `report` maps each resource to what limits it. `pace_cpu` and `limit_memory` say whether attempts must
    limit themselves, and `drops` whether each runs as a separate user.
    """

    def __init__(self, config: AgentConfig, where: AgentDir) -> None:
        self._rates = _rates(config)
        self._where = where
        self.slots = config.node.map_slots + config.node.reduce_slots
        self._names = slot_groups(self.slots)
        self.places = len(self._names)
        self.drops = can_drop() and self.places <= PLACES
        self._files: PathFiles | None = None
        self._groups = self._open_groups(config) if config.limits in ("auto", "cgroup") else None
        self.limit_memory = config.limits != "off"
        self.pace_cpu = config.limits != "off" and self._groups is None
        self._stopped = (
            StoppedGroups(self._names, cores=config.node.cores, core_speed=config.node.core_speed)
            if self.pace_cpu
            else None
        )
        self._node, self._links_folder = config.node, config.links
        self._factors = dict.fromkeys(self._rates, 1.0)
        self._declared_bytes = 0
        seek = {"disk": 0.0 if config.node.shared_disk else config.node.seek}
        self.budget = None if config.limits == "off" else Budget.create(where.budget, self._rates, seek)
        if self.drops and self.budget is not None:
            where.budget.chmod(
                0o666
            )  # Attempts charge the budget. They could also not do so: no hard limit depends on it.
        self._links = None if config.links is None or self.budget is None else LinkBudgets(config.links)
        self.report = self._report()

    def join(self, place: int, pid: int) -> None:
        """Move a forked process into group `place`. May take some milliseconds. Raises OSError."""
        if self._enforcer is not None:
            self._enforcer.join(self._names[place], pid)

    def prepare(self, place: int, memory_bytes: int, scratch: Path) -> None:
        """Set the next attempt's memory limit. Call before its user owns the folder `scratch`."""
        name = self._names[place]
        try:
            if self._groups is not None:
                self._groups.limit_memory(name, memory_bytes)
            elif self._stopped is not None:
                self._stopped.prepare(name, memory_bytes, scratch / WITHHELD)
        except (CgroupError, OSError) as error:  # RLIMIT_DATA still limits the attempt.
            log.warning("%s", error)

    def hold(self, place: int) -> Quota | None:
        """Begin limiting a process. Return what it applies before its code. Raises CgroupError, OSError."""
        return None if self._enforcer is None else self._enforcer.hold(self._names[place])

    def begun(self, place: int, setup_cpu_s: float) -> None:
        """Note that the application's code runs. `setup_cpu_s`, used since `hold`, is not limited."""
        self._tell("begun", lambda groups: groups.begun(self._names[place], setup_cpu_s))

    def ease(self, place: int) -> None:
        """Loosen limits after the application's code, so that the attempt's report is written quickly."""
        self._tell("ease", lambda groups: groups.ease(self._names[place]))

    def free(self, place: int) -> None:
        """Remove the limits of group `place`. Call when all its processes have ended."""
        self._tell("free", lambda groups: groups.free(self._names[place]))

    def rebalance(self) -> None:
        """Divide the node's CPU among the running attempts. Call several times per second."""
        self._tell("rebalance", lambda groups: groups.rebalance())

    def kill(self, place: int) -> bool:
        """Kill all processes in the control group `place`. Return whether there were any."""
        return self._groups is not None and self._groups.kill(self._names[place])

    def cpu_s(self, place: int | None = None) -> float | None:
        """Return the CPU seconds of group `place`, without control groups of its current attempt.

        None as `place` means the whole node, which only control groups count. The result may be None.
        """
        if self._groups is not None:
            return self._groups.cpu_s(NODE_GROUP if place is None else self._names[place])
        return None if self._stopped is None or place is None else self._stopped.cpu_s(self._names[place])

    @property
    def kernel_counts(self) -> bool:
        """Return whether the kernel counts groups, which can differ from the sum of processes."""
        return self.cpu_s() is not None

    def count_memory(self, place: int) -> None:
        """Begin to measure the peak memory of the attempt that is about to start in group `place`."""
        if self._groups is not None:
            self._groups.memory.begin(self._names[place])

    def look_at_memory(self, place: int) -> None:
        """Sample the memory use of group `place`, for its peak. Call several times per second."""
        if self._groups is not None:
            self._groups.memory.look(self._names[place])

    def memory_peak_bytes(self, place: int) -> int | None:
        """End the measurement of an attempt's memory. Return its peak, or None if the kernel does not count."""
        return None if self._groups is None else self._groups.memory.end(self._names[place])

    def losses(self, place: int) -> Losses:
        name = self._names[place]
        if self._stopped is not None:
            return Losses(self._stopped.oom_kills(name))
        if self._groups is None:
            return NO_LOSSES
        return Losses(self._groups.oom_kills(name), self._groups.refused_forks(name))

    def set_factors(self, cpu: float, disk: float, network: float) -> None:
        """Inject a fault: set the rates to the declared ones times these factors (above 0)."""
        self._factors = {"cpu": cpu, "disk": disk, "tx": network, "rx": network}
        self._set_rates()
        self._tell(f"the CPU factor {cpu}", lambda groups: groups.set_cpu_factor(cpu))

    def declare_memory(self, declared_bytes: int) -> None:
        """Set what running attempts declare in total. Above the node's memory, the disk slows, modeling paging."""
        self._declared_bytes = declared_bytes
        if self._node.paging:
            self._set_rates()

    def _set_rates(self) -> None:
        if self.budget is not None:
            slowed = {"disk": self._node.paging_factor(self._declared_bytes)}
            for name, rate in self._rates.items():
                self.budget.set_rate(name, rate * self._factors[name] / slowed.get(name, 1.0))

    @property
    def shared_disk(self) -> Path | None:
        """Return the file that limits the disk that this node shares with others, or None."""
        name, folder = self._node.shared_disk, self._links_folder
        return folder / disk_of(name) if name and folder is not None and self.budget is not None else None

    @property
    def _enforcer(self) -> NodeGroups | StoppedGroups | None:
        return self._groups or self._stopped

    def _tell(self, what: str, change: Callable[[NodeGroups | StoppedGroups], None]) -> None:
        """Call `change` with the object that enforces limits, if any. Log errors with the text `what`."""
        if self._enforcer is None:
            return
        try:
            change(self._enforcer)
        except (CgroupError, OSError) as error:
            log.error("%s: %s", what, error)

    def stream(self, *names: str) -> NodeStream:
        """Return a stream limited by `disk`, `tx`, `rx` or rack links. `disk` includes a shared disk's budget."""
        if self.budget is None:
            return NodeStream(())
        streams = [self.budget.stream(name) for name in names if name in NAMES]
        if self._links is not None:
            links = [name for name in names if name not in NAMES]
            if self._node.shared_disk and "disk" in names:
                links.append(disk_of(self._node.shared_disk))
            streams += self._links.streams(links)
        return NodeStream(streams)

    def remove(self) -> None:
        """Remove the control groups and the file `budget`. Call after all attempts have ended."""
        if self._files is not None:
            self._files.remove()
        if self.budget is not None:
            self.budget.close()
            self.budget = None
            self._where.budget.unlink(missing_ok=True)
        if self._links is not None:
            self._links.close()
            self._links = None

    def _report(self) -> dict[str, str]:
        """Return {resource: what limits it}, such as `cgroup v2`, `software` or `off`."""
        soft = "off" if self.budget is None else f"software {COOPERATING}"
        report: dict[str, str] = dict.fromkeys(("cpu", "memory", "disk", "network"), soft)
        if self.budget is not None:
            report["disk"] = with_modeled(soft, self._node)
        # Stopping an attempt's processes limits most uncooperative code, but not all of it.
        if self._groups is not None:
            name = f"cgroup v{self._groups.version}" + ("" if self._out_of_reach else f" {COOPERATING}")
            report["cpu"] = name
            report["memory"] = name if "memory" in self._groups.controllers else soft
        return report

    @property
    def _out_of_reach(self) -> bool:
        return self.drops or self._files is None

    def _open_groups(self, config: AgentConfig) -> NodeGroups | None:
        """Return the node's control groups, or None if not permitted (BadInput if the mode is `cgroup`)."""
        node = config.node
        try:
            files = self._open_files(config)
            groups = NodeGroups(files, self._names, cores=node.cores, core_speed=node.core_speed)
            try:
                groups.open()
            except CgroupError:
                if self._files is not None:
                    self._files.remove()
                raise
        except CgroupError as error:
            self._files = None
            if config.limits == "cgroup":
                raise BadInput(f"limits: cgroup is impossible on this host: {error}") from error
            log.info("software limits: %s", error)
            return None
        return groups

    def _open_files(self, config: AgentConfig) -> GroupFiles:
        """Return the files of groups that another process sends, or else of new ones. Raises CgroupError."""
        if config.groups is not None:
            try:
                return receive_files(config.groups, config.token)
            except OSError as error:
                raise CgroupError(f"{config.groups}: {error}") from error
        self._files = PathFiles(find_hierarchies(), config.run_id, config.node.node, os.getpid())
        self._files.create(self._names)
        return self._files


def with_modeled(by: str, node: NodeSpec) -> str:
    """Return `by` plus the disk effects that software models: the kernel has neither seeks nor sharing."""
    parts = {"seeks": node.seek, "paging": node.paging, "sharing": node.shared_disk}
    modeled = ", ".join(name for name, value in parts.items() if value)
    return f"{by.removesuffix(COOPERATING).strip()}; {modeled} modeled {COOPERATING}" if modeled else by


def _rates(config: AgentConfig) -> dict[str, float]:
    """Return rates per second: cpu in core-seconds, disk, tx and rx in bytes. 0 means no limit."""
    node = config.node
    network = 0.0 if config.shaped else node.network_bps
    return {"cpu": node.cpu_rate, "disk": node.disk_bps, "tx": network, "rx": network}
