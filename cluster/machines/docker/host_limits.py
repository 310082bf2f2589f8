"""Limits that the host's kernel enforces on a node in a container: control groups of attempts, disk and NIC.

Without one of them, the agent limits the resource in software, for cooperating code only.
"""

from __future__ import annotations

import contextlib
import hmac
import logging
import os
import socket
import threading
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from docker.errors import APIError, NotFound

from schedbed.cluster.agent.cgroups import (
    MOVE,
    NODE_GROUP,
    CgroupError,
    GroupFiles,
    PathFiles,
    find_hierarchies,
    group_name,
    node_folders,
    send_files,
    slot_groups,
)
from schedbed.cluster.agent.config import LOOPBACK, AgentConfig
from schedbed.cluster.agent.limits import with_modeled
from schedbed.cluster.agent.node_groups import SLACK_BYTES
from schedbed.cluster.machines.docker.engine import Labels, run_name
from schedbed.cluster.machines.docker.loop_device import DEVICE
from schedbed.cluster.machines.docker.network import NicShaper
from schedbed.cluster.machines.docker.node_disk import DiskError, NodeDisk
from schedbed.cluster.machines.kernel_counters import GroupCounters, block_bytes, interface_bytes
from schedbed.cluster.machines.machine import KernelTotals, MachineFailed
from schedbed.cluster.spec import NodeSpec
from schedbed.cluster.wire.unauthenticated_peers import PATIENCE_S
from schedbed.tasks.errors import BadInput

log = logging.getLogger(__name__)


class HostLimits:
    """The kernel's limits on a node's container: `prepare` before creation, `hold` after start, then `release`."""

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
        """Return the socket that gives the agent its attempts' control group files, or None."""
        return None if self._groups.counters is None else self._groups.socket

    def prepare(self, api: Any) -> None:
        """Create attempts' control groups, and a volume on a loop device if possible. Raises BadInput."""
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
        """Limit the started container. Return {resource: what limits it}. `image` is for a tc helper."""
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
        """Set disk and NIC to the declared rates times these factors. Raises OSError or MachineFailed."""
        if self._disk.name:
            self._disk.set_factor(disk)
        if self._nic is not None:
            self._nic.change(self._node.network_bps * network)

    def totals(self) -> KernelTotals:
        """Return the node's counters, None where the kernel does not limit the resource."""
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
        """Remove groups, volume and loop device, but not the disk image. Call after the container's end."""
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


# Control groups for the attempts of a node in a container, created on the host.
#
# A container cannot create control groups itself. The host therefore creates the groups, and passes open
# files of these groups to the agent (the part below). With the files, the agent moves each attempt into a
# group and sets the limits of the attempt. The agent itself remains in the container's group, so that the
# declared resources are available to attempts alone.

PROCESSES = 512  # The limit for all attempts of a node.


class AttemptGroups:
    """The control groups of a node's attempts for one incarnation, from `make` to `remove`."""

    def __init__(self, agent: AgentConfig) -> None:
        self._run_id = agent.run_id
        self._node = agent.node
        self._token = agent.token
        self.socket = agent.root / "groups.sock"
        """The socket from which the agent gets the groups' files."""
        self.counters: GroupCounters | None = None
        """The kernel's counters, while the groups exist."""
        self._files: PathFiles | None = None
        self._handover: GroupHandover | None = None

    def make(self) -> None:
        """Create and limit the groups, and serve their files to the agent. Raises CgroupError."""
        if os.geteuid() != 0:
            raise CgroupError("control groups for a container's processes need root")
        slots = slot_groups(self._node.map_slots + self._node.reduce_slots)
        files = PathFiles(find_hierarchies(), self._run_id, self._node.node, os.getpid())
        files.create(slots)
        self._files = files
        try:
            limit_node(files, self._node, slots)
            version, folders = node_folders(self._run_id, group_name(self._node.node, os.getpid()))
            self._handover = GroupHandover(self.socket, self._token, version, folders, slots)
            self.counters = _counters(version, folders)
        except OSError as error:
            self.remove()
            raise CgroupError(f"cgroup v{files.version}: {error}") from error

    def remove(self) -> None:
        """Remove the control groups. Processes that are still in the groups are killed."""
        handover, self._handover = self._handover, None
        files, self._files = self._files, None
        self.counters = None
        if handover is not None:
            handover.close()
        if files is not None:
            files.remove()


def limit_node(files: GroupFiles, node: NodeSpec, slots: tuple[str, ...]) -> None:
    """Limit a node's attempts together: memory without swap, and processes. Raises OSError."""
    # Each attempt's limit exceeds its declared memory by SLACK_BYTES, so the node's limit must as well.
    memory = str(node.memory_bytes + SLACK_BYTES * (node.map_slots + node.reduce_slots))
    if "memory" in files.controllers:
        if files.version == 1:
            files.write(NODE_GROUP, "memory.limit_in_bytes", memory)
            optional = {"memory.memsw.limit_in_bytes": memory, "memory.swappiness": "0"}
        else:
            files.write(NODE_GROUP, "memory.max", memory)
            optional = {"memory.swap.max": "0"}
        for name, text in optional.items():
            for group in (NODE_GROUP, *(slots if name == "memory.swappiness" else ())):
                with contextlib.suppress(OSError):  # The kernel lacks swap or swap accounting.
                    files.write(group, name, text)
    if "pids" in files.controllers:
        files.write(NODE_GROUP, "pids.max", str(PROCESSES))


def _counters(version: int, folders: Mapping[str, Path]) -> GroupCounters:
    cpu = folders.get("cpuacct" if version == 1 else "cpu")
    return GroupCounters(version=version, cpu=cpu, memory=folders.get("memory"))


# Transfer of open control group files from the host to a node's agent in a container, over a Unix socket.
#
# The host opens the files as root, and the agent may then write to them: the kernel checks who opened a
# file of a control group, not who writes to it. Attempts cannot change their own groups, because only the
# agent receives the open files, and the container contains no path to them.

WRITTEN: Mapping[int, Mapping[str, Sequence[str]]] = {
    1: {
        "cpu": ("cpu.cfs_quota_us", "cpu.cfs_period_us"),
        "memory": ("memory.limit_in_bytes", "memory.memsw.limit_in_bytes", "memory.max_usage_in_bytes"),
        "pids": ("pids.max",),
    },
    2: {
        "cpu": ("cpu.max",),
        "memory": ("memory.max", "memory.swap.max", "memory.oom.group"),
        "pids": ("pids.max",),
    },
}
"""Files of each slot's group that the agent writes, by version and controller."""
READ: Mapping[int, Mapping[str, Sequence[str]]] = {
    1: {
        "cpu": ("cgroup.procs",),
        "cpuacct": ("cpuacct.usage",),
        "memory": ("memory.oom_control", "memory.usage_in_bytes", "memory.stat"),
        "pids": ("pids.events",),
    },
    2: {
        "cpu": ("cgroup.procs", "cpu.stat"),
        "memory": ("memory.events", "memory.current", "memory.peak", "memory.stat"),
        "pids": ("pids.events",),
    },
}
COUNTED: Mapping[int, Mapping[str, Sequence[str]]] = {
    1: {"cpuacct": ("cpuacct.usage",)},
    2: {"cpu": ("cpu.stat",)},
}
"""Files of the node's group that the agent reads, by version and controller."""

Opened = list[tuple[str, str, int]]


class GroupHandover:
    """Sends open control group files at the Unix socket `path`, once, to the first client with the token."""

    def __init__(
        self, path: Path, token: str, version: int, folders: Mapping[str, Path], slots: Sequence[str]
    ) -> None:
        """Open the groups' files and listen in a thread. `folders` are those of the node's group. Raises OSError."""
        self._token = token
        self._about = {"version": version, "controllers": sorted(folders)}
        self._files = _open_all(version, folders, slots)
        self._listening = _listen(path)
        threading.Thread(target=self._serve, daemon=True, name="group handover").start()

    def close(self) -> None:
        """Stop listening and close the files. The agent keeps the open files that it has received."""
        with contextlib.suppress(OSError):
            self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        files, self._files = self._files, []
        for _, _, opened in files:
            os.close(opened)

    def _serve(self) -> None:
        with self._listening, contextlib.suppress(OSError):
            while True:
                line, _ = self._listening.accept()
                with line:
                    if self._is_agent(line):
                        send_files(line, self._about, self._files)
                        return

    def _is_agent(self, line: socket.socket) -> bool:
        line.settimeout(PATIENCE_S)
        with contextlib.suppress(OSError), line.makefile("rb") as heard:
            shown = heard.readline(2 * len(self._token)).strip()
            line.settimeout(None)
            return hmac.compare_digest(shown, self._token.encode())
        return False


def _listen(path: Path) -> socket.socket:
    """Return a listening socket, bound through the folder's descriptor: paths are limited to 107 bytes."""
    path.unlink(missing_ok=True)
    folder = os.open(path.parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    listening = socket.socket(socket.AF_UNIX)
    try:
        listening.bind(f"/proc/self/fd/{folder}/{path.name}")
        path.chmod(0o666)
        listening.listen(1)
    except OSError:
        listening.close()
        raise
    finally:
        os.close(folder)
    return listening


def _open_all(version: int, folders: Mapping[str, Path], slots: Sequence[str]) -> Opened:
    opened: Opened = []
    try:
        for slot in slots:
            for names, how in ((WRITTEN, os.O_RDWR), (READ, os.O_RDONLY)):
                _open_some(opened, folders, slot, names[version], how)
            for number, folder in enumerate(dict.fromkeys(folders.values())):
                path = folder / slot / "cgroup.procs"
                opened.append((slot, f"{MOVE}{number}", os.open(path, os.O_WRONLY | os.O_CLOEXEC)))
        _open_some(opened, folders, NODE_GROUP, COUNTED[version], os.O_RDONLY)
    except OSError:
        for _, _, descriptor in opened:
            os.close(descriptor)
        raise
    return opened


def _open_some(
    opened: Opened, folders: Mapping[str, Path], group: str, names: Mapping[str, Iterable[str]], how: int
) -> None:
    """Add a group's open files to `opened`, without those that the kernel lacks. `how` has flags of `os.open`."""
    for controller, wanted in names.items():
        for name in wanted if controller in folders else ():
            with contextlib.suppress(FileNotFoundError):
                path = folders[controller] / group / name
                opened.append((group, name, os.open(path, how | os.O_CLOEXEC)))
