"""What holds a node to its declared rates: control groups where the host lets us, software budgets elsewhere."""

from __future__ import annotations

import asyncio
import logging
import os
from pathlib import Path

from schedbed.cluster.agent.cgroup_find import CgroupError, find_hierarchies
from schedbed.cluster.agent.cgroups import CpuGate, NodeCgroups
from schedbed.cluster.agent.config import AgentConfig
from schedbed.cluster.agent.folder import AgentDir
from schedbed.tasks.errors import BadInput
from schedbed.tasks.pacing import Budget

log = logging.getLogger(__name__)

UPLINK_BUCKET = "tx"  # of a file like a node's, which the nodes of a rack share


def make_uplink(path: Path, rate_bps: float) -> None:
    """The budget of a rack's uplink, for the agents of its nodes on this host."""
    Budget.create(path, {UPLINK_BUCKET: rate_bps}).close()


class NodeLimits:
    """The limits of one node in the mode asked for.

    `report` says per resource what enforces it; `pace_cpu` and `limit_memory` what attempts must do themselves.
    Raises BadInput when `cgroup` is asked for and impossible.
    """

    def __init__(self, config: AgentConfig, where: AgentDir) -> None:
        self._node = config.node
        self._rates = _rates(config)
        self._where = where
        self._group = _open_group(config) if config.limits in ("auto", "cgroup") else None
        self.limit_memory = config.limits != "off"
        self.pace_cpu = config.limits != "off" and self._group is None
        self.budget = None if config.limits == "off" else Budget.create(where.budget, self._rates)
        self._uplink = None if config.uplink is None or self.budget is None else Budget.open(config.uplink)
        self.report = self._report()

    def expected_slots(self) -> list[tuple[str, ...]]:
        """The `cgroup.procs` files of each declared slot, for processes that wait in it; none without groups."""
        slots = range(self._node.map_slots + self._node.reduce_slots)
        return [self._group.slot(index) if self._group else () for index in slots]

    def slot(self, index: int, memory_bytes: int) -> tuple[tuple[str, ...], CpuGate | None]:
        """Prepares slot `index` for an attempt of this size: the `cgroup.procs` files that it is to join, and how it
        limits its CPU from its first line on, so that launching it costs the emulated node nothing."""
        if self._group is None:
            return (), None
        procs = self._group.slot(index)
        try:
            self._group.limit_memory(index, memory_bytes)
        except CgroupError as error:  # RLIMIT_DATA still holds the attempt
            log.warning("slot %d: %s", index, error)
        return procs, self._group.cpu_gate(index)

    def crowd(self, attempts: int) -> None:
        """Says how many attempts run on the node. Raises CgroupError."""
        if self._group is not None:
            self._group.crowd(attempts)

    def oom_kills(self, index: int) -> int:
        """How often the kernel killed in this slot for want of memory; 0 without groups."""
        return self._group.oom_kills(index) if self._group else 0

    def set_factors(self, cpu: float, disk: float, network: float) -> None:
        """A fault: multiplies the declared rates from now on; factors are 0 < f, 1 is as declared."""
        factors = {"cpu": cpu, "disk": disk, "tx": network, "rx": network}
        if self.budget is not None:
            for name, rate in self._rates.items():
                self.budget.set_rate(name, rate * factors[name])
        if self._group is not None:
            try:
                self._group.set_cpu_factor(cpu)
            except (CgroupError, OSError) as error:
                log.error("the CPU factor %s did not take: %s", cpu, error)

    async def pay(self, length: int, *names: str) -> None:
        """Charges bytes to each of `disk`, `tx`, `rx` and the rack's `uplink` named, and waits until all are paid."""
        if self.budget is None:
            return
        delay_s = max((self._reserve(name, length) for name in names), default=0.0)
        if delay_s > 0:
            await asyncio.sleep(delay_s)

    def _reserve(self, name: str, length: int) -> float:
        if name == "uplink":
            return self._uplink.reserve(UPLINK_BUCKET, length) if self._uplink is not None else 0.0
        assert self.budget is not None
        return self.budget.reserve(name, length)

    def remove(self) -> None:
        """Removes groups and budget; call when no attempt runs any more."""
        if self._group is not None:
            self._group.remove()
        if self.budget is not None:
            self.budget.close()
            self.budget = None
            self._where.budget.unlink(missing_ok=True)
        if self._uplink is not None:
            self._uplink.close()
            self._uplink = None

    def _report(self) -> dict[str, str]:
        soft = "off" if self.budget is None else "software"
        report: dict[str, str] = dict.fromkeys(("cpu", "memory", "disk", "network"), soft)
        if self._group is not None:
            name = f"cgroup v{self._group.where.version}"
            report["cpu"] = name
            report["memory"] = name if self._group.where.memory else soft
        return report


def _rates(config: AgentConfig) -> dict[str, float]:
    """Of each bucket; 0 is without limit."""
    node = config.node
    network = 0.0 if config.shaped else node.network_bps
    return {"cpu": node.cpu_rate, "disk": node.disk_bps, "tx": network, "rx": network}


def _open_group(config: AgentConfig) -> NodeCgroups | None:
    """The node's control group; None when the host does not allow one and `limits: auto` accepts that."""
    node = config.node
    try:
        group = NodeCgroups(
            find_hierarchies(),
            config.run_id,
            node.node,
            cores=node.cores,
            core_speed=node.core_speed,
            owner_pid=os.getpid(),
        )
        group.create(node.map_slots + node.reduce_slots)
    except CgroupError as error:
        if config.limits == "cgroup":
            raise BadInput(f"limits: cgroup is impossible on this host: {error}") from error
        log.info("software limits: %s", error)
        return None
    return group
