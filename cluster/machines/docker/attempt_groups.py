"""Control groups for the attempts of a node in a container, created on the host.

A container cannot create control groups itself. The host therefore creates the groups, and passes open files
of these groups to the agent (`group_handover`). With the files, the agent moves each attempt into a group and
sets the limits of the attempt. The agent itself remains in the container's group, so that the declared
resources are available to attempts alone.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping
from pathlib import Path

from schedbed.cluster.agent.cgroup_find import CgroupError, find_hierarchies
from schedbed.cluster.agent.cgroups import PathFiles, group_name, node_folders
from schedbed.cluster.agent.config import AgentConfig
from schedbed.cluster.agent.group_files import NODE_GROUP, GroupFiles, slot_groups
from schedbed.cluster.agent.node_groups import SLACK_BYTES
from schedbed.cluster.machines.docker.group_handover import GroupHandover
from schedbed.cluster.machines.kernel_counters import GroupCounters
from schedbed.cluster.spec import NodeSpec

PROCESSES = 512  # The limit for all attempts of a node.


class AttemptGroups:
    """The control groups of a node's attempts during one incarnation (life) of the node.

    The groups exist from `make` to `remove`.
    """

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
        """Create the control groups, set their limits, and serve their files to the agent.

        Raises CgroupError if this host or user cannot create them.
        """
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
    """Set limits for all attempts of a node together: memory (without swap) and number of processes.

    The limits are written to the control group files in `files`. `slots` are the names of the slots' control
    groups. Raises OSError if a file cannot be written.
    """
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
