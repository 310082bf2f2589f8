"""Limits that the host's kernel enforces on a node in a container: control groups of attempts, disk and NIC.

If this host or user cannot use one of these limits, the agent limits the resource in software, which works
for cooperating code only.
"""

from __future__ import annotations

import contextlib
import logging
from pathlib import Path
from typing import Any

from docker.errors import APIError, NotFound

from schedbed.cluster.agent.cgroup_find import CgroupError
from schedbed.cluster.agent.config import LOOPBACK, AgentConfig
from schedbed.cluster.agent.limits import with_modeled
from schedbed.cluster.machines.docker.attempt_groups import AttemptGroups
from schedbed.cluster.machines.docker.engine import Labels, run_name
from schedbed.cluster.machines.docker.loop_device import DEVICE
from schedbed.cluster.machines.docker.nic_shaper import NicShaper
from schedbed.cluster.machines.docker.node_disk import DiskError, NodeDisk
from schedbed.cluster.machines.kernel_counters import block_bytes, interface_bytes
from schedbed.cluster.machines.machine import KernelTotals, MachineFailed
from schedbed.tasks.errors import BadInput

log = logging.getLogger(__name__)


class HostLimits:
    """The limits that the host's kernel enforces on a node in a container, for one incarnation.

    Call `prepare` before the container is created, `hold` after its start, and `release` after its end.
    """

    def __init__(self, agent: AgentConfig, name: str, labels: Labels, user: str) -> None:
        self._node = agent.node
        self._run = run_name(agent.run_id)
        self._name = name
        self._labels = labels
        self._wanted = agent.limits in ("auto", "cgroup")
        self._must = agent.limits == "cgroup"
        self._published = agent.listen != LOOPBACK
        self._disk = NodeDisk(agent.root / "disk.img", agent.node.disk_bps, owner=user)
        self._groups = AttemptGroups(agent)
        self._nic: NicShaper | None = None
        self._pid = 0

    @property
    def groups(self) -> Path | None:
        """Return the path of the Unix socket from which the agent receives its attempts' control group files.

        Return None if there are no such groups.
        """
        return None if self._groups.counters is None else self._groups.socket

    def prepare(self, api: Any) -> None:
        """Create control groups for the attempts and a volume for the node's files.

        The volume is on a loop device with a limited rate if this host supports that, otherwise in a folder
        of the Docker engine. Raises BadInput if a required limit is impossible.
        """
        if self._wanted:
            try:
                self._groups.make()
            except CgroupError as error:
                self._refuse("CPU", str(error))
            try:
                self._disk.attach()
            except DiskError as error:
                self._refuse("disk", str(error))
        if not self._disk.name:
            api.create_volume(self._name, labels=self._labels)
            return
        with contextlib.suppress(NotFound):
            api.remove_volume(self._name)
        labels = self._labels | {DEVICE: self._disk.name}
        api.create_volume(self._name, driver="local", driver_opts=self._disk.volume, labels=labels)

    def hold(self, api: Any, image: str) -> dict[str, str]:
        """Apply the limits to the started container. Return a dictionary from resource to mechanism.

        A mechanism is a text such as `loop device` or `tc`. If tc must run in a helper container, the helper
        is created from `image`. Raises BadInput if a required limit is impossible.
        """
        held: dict[str, str] = {}
        self._pid = api.inspect_container(self._name)["State"]["Pid"]
        if self._disk.name:
            self._disk.settle(self._pid)
            held["disk"] = with_modeled("loop device", self._node) if self._wanted else "loop device"
        if not self._wanted:
            return held
        if self._published:
            self._refuse(
                "NIC", "what arrives on many hosts (--address) bears other addresses than the nodes'"
            )
            return held
        try:
            self._nic = NicShaper(api, self._name, image=image, labels=self._labels)
            self._nic.shape(self._node.network_bps, self._run)
            held["network"] = "tc"
        except MachineFailed as error:
            self._nic = None
            self._refuse("NIC", str(error))
        return held

    def set_rates(self, disk: float, network: float) -> None:
        """Inject a fault: set the rates of disk and NIC to the declared rates times these factors.

        Raises OSError or MachineFailed if a rate cannot be set.
        """
        if self._disk.name:
            self._disk.set_factor(disk)
        if self._nic is not None:
            self._nic.change(self._node.network_bps * network)

    def totals(self) -> KernelTotals:
        """Return the kernel's counters of the node.

        The counters of a resource are None if the kernel does not limit the resource for this node.
        """
        groups = self._groups.counters
        disk = block_bytes(self._disk.number) if self._disk.number else None
        nic = interface_bytes(self._pid) if self._nic is not None else None
        read, written = disk or (None, None)
        sent, received = nic or (None, None)
        return KernelTotals(
            cpu_s=None if groups is None else groups.cpu_s(),
            memory_bytes=None if groups is None else groups.memory_bytes(),
            disk_read_bytes=read,
            disk_write_bytes=written,
            sent_bytes=sent,
            received_bytes=received,
        )

    def release(self, api: Any) -> None:
        """Remove the control groups, the volume and the loop device. The disk image remains.

        Must be called after the end of the container.
        """
        self._groups.remove()
        if self._disk.name:
            with contextlib.suppress(APIError):  # Another cleanup removed the volume.
                api.remove_volume(self._name)
            self._disk.release()

    def _refuse(self, what: str, why: str) -> None:
        if self._must:
            raise BadInput(
                f"limits: cgroup: this host's kernel cannot hold a node's {what}: {why}; expected auto"
            )
        log.warning("%s: a software budget alone holds the %s: %s", self._node.node, what, why)
