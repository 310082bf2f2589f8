"""Access to the files of a node's control groups, by path or by file descriptors.

An agent uses these files to set limits and to move attempts into groups. For a node in a container, a process
on the host creates the groups, opens their files as root and sends the file descriptors to the agent. The
container contains no paths to these files, so an attempt, which runs as the same user as the agent, cannot
change its limits.
"""

from __future__ import annotations

import errno
import json
import os
import socket
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

MOVE = "move-"
"""Prefix of the names of descriptors that move a process into a group, one per hierarchy."""
DESCRIPTORS = 200  # per message; the kernel accepts 253
READ_BYTES = 4096
PATIENCE_S = 30.0

NODE_GROUP = ""
"""The name of the group of the node itself, which contains the groups of its slots."""


def slot_groups(slots: int) -> tuple[str, ...]:
    """Return the names of the control groups for the attempts of a node: `slot-0`, `slot-1`, ...

    There are two groups for each of the `slots` slots. While an ended attempt is removed from one group, the
    next attempt starts in another group, so they do not share a limit.
    """
    return tuple(f"slot-{index}" for index in range(2 * slots))


class Quota(NamedTuple):
    """A CPU limit that a forked process applies to itself just before it runs the application's code.

    The process writes `text` to `descriptor`, an open file of its control group.
    """

    descriptor: int
    text: str


def apply_quota(quota: Quota) -> None:
    """Apply a CPU limit: write the text of `quota` to its descriptor, which is an open file of a control
    group.

    Then read the limit back and close the descriptor. Raises OSError if the kernel did not accept the limit.
    """
    try:
        os.pwrite(quota.descriptor, quota.text.encode(), 0)
        taken = os.pread(quota.descriptor, READ_BYTES, 0).decode().strip()
    finally:
        os.close(quota.descriptor)
    if taken != quota.text:
        raise OSError(errno.EINVAL, f"the limit is {taken} after {quota.text} was written")


class GroupFiles(Protocol):
    """The interface to read and write the files of a node's control groups.

    `group` is the name of a group, such as `slot-3`, or NODE_GROUP for the node's group, which contains the
    other groups. `name` is the name of a file, such as `cpu.cfs_quota_us`. Each controller has files of its
    own. Only `cgroup.procs` exists for several controllers, and means the file of the controller cpu.
    """

    @property
    def version(self) -> int:
        """Return the version of cgroups, 1 or 2."""
        ...

    @property
    def controllers(self) -> frozenset[str]:
        """Return the cgroup controllers in use: cpu, memory and pids set limits, cpuacct counts CPU time."""
        ...

    def write(self, group: str, name: str, text: str) -> None:
        """Write `text` to the file `name` of a control group. Raises OSError."""
        ...

    def read(self, group: str, name: str) -> str:
        """Return the stripped text of the file `name` of a control group. Raises OSError."""
        ...

    def handle(self, group: str, name: str) -> int:
        """Open the file `name` of a control group for reading and writing. Return its descriptor.

        Raises OSError.
        """
        ...

    def move(self, group: str, pid: int) -> None:
        """Move the process `pid` into the control group `group` in each cgroup hierarchy. Raises OSError.

        The call takes up to 10 ms.
        """
        ...


class DescriptorFiles:
    """The control groups of a node, accessed by file descriptors that another process has opened.

    This class implements `GroupFiles`. `files` maps (group, file name) to a descriptor.
    """

    def __init__(
        self, version: int, controllers: Iterable[str], files: Mapping[tuple[str, str], int]
    ) -> None:
        self._version = version
        self._controllers = frozenset(controllers)
        self._files = dict(files)
        self._moves: dict[str, list[int]] = {}
        for (group, name), opened in self._files.items():
            if name.startswith(MOVE):
                self._moves.setdefault(group, []).append(opened)

    @property
    def version(self) -> int:
        """Return the version of cgroups, 1 or 2. Implements `GroupFiles`."""
        return self._version

    @property
    def controllers(self) -> frozenset[str]:
        """Return the cgroup controllers that the other process could use. Implements `GroupFiles`."""
        return self._controllers

    def write(self, group: str, name: str, text: str) -> None:
        """Write `text` to the file `name` of a control group. Implements `GroupFiles`."""
        os.pwrite(self._opened(group, name), text.encode(), 0)

    def read(self, group: str, name: str) -> str:
        """Return the stripped text of the file `name` of a control group. Implements `GroupFiles`."""
        opened, found = self._opened(group, name), b""
        while more := os.pread(opened, READ_BYTES, len(found)):
            found += more
        return found.decode().strip()

    def handle(self, group: str, name: str) -> int:
        """Return a duplicate of the descriptor of a control group's file. Implements `GroupFiles`."""
        return os.dup(self._opened(group, name))

    def move(self, group: str, pid: int) -> None:
        """Move the process `pid` into the control group in each hierarchy. Implements `GroupFiles`.

        The kernel interprets `pid` in the pid namespace of this process.
        """
        for opened in self._moves[group]:
            os.pwrite(opened, str(pid).encode(), 0)

    def _opened(self, group: str, name: str) -> int:
        try:
            return self._files[group, name]
        except KeyError:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), f"{group}/{name}") from None


def send_files(line: socket.socket, about: Mapping[str, Any], files: Sequence[tuple[str, str, int]]) -> None:
    """Send open files of control groups over the unix socket `line` to a process that calls `receive_files`.

    `files` are (group, file name, descriptor). `about` holds the version of cgroups and the controllers.
    Raises OSError.
    """
    names = [(group, name) for group, name, _ in files]
    line.sendall(json.dumps({**about, "files": names}).encode() + b"\n")
    for first in range(0, len(files), DESCRIPTORS):
        socket.send_fds(line, [b"."], [opened for _, _, opened in files[first : first + DESCRIPTORS]])


def receive_files(path: Path, token: str) -> DescriptorFiles:
    """Connect to the unix socket `path`, and return the files of the node's control groups received over it.

    `token` is the secret that the sender requires. Raises OSError.
    """
    with socket.socket(socket.AF_UNIX) as line:
        line.settimeout(PATIENCE_S)
        line.connect(str(path))
        line.sendall(token.encode() + b"\n")
        said = b""
        while not said.endswith(b"\n"):  # Read byte by byte: the bytes after the line carry the descriptors.
            if not (byte := line.recv(1)):
                raise ConnectionError(f"{path}: nobody hands over the control groups")
            said += byte
        about = json.loads(said)
        opened: list[int] = []
        while len(opened) < len(about["files"]):
            data, more, _, _ = socket.recv_fds(line, 1, DESCRIPTORS, socket.MSG_CMSG_CLOEXEC)
            if not data or not more:
                raise ConnectionError(f"{path}: {len(opened)} of {len(about['files'])} files came")
            opened += more
    named = [(group, name) for group, name in about["files"]]
    return DescriptorFiles(about["version"], about["controllers"], dict(zip(named, opened, strict=True)))
