"""Access to the files of a node's control groups: by path on this host, or by descriptors that the owner of the node
opened.

An agent writes limits and moves attempts by these. Inside a container no path leads to the node's groups: the host's
side creates them, opens their files as root and passes the descriptors. So an attempt, which runs as the same user as
the agent, finds no file that it could write.
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
"""How names of the descriptors begin that take a process into a group, one a hierarchy."""
DESCRIPTORS = 200  # a message; the kernel takes 253
READ_BYTES = 4096
PATIENCE_S = 30.0

NODE_GROUP = ""
"""The group of the node itself, above those of its slots."""


def slot_groups(slots: int) -> tuple[str, ...]:
    """Return the names of the groups for a node with that many slots: `slot-0`, `slot-1`, ...

    There are two per slot: the next attempt waits in a group of its own while the previous one dies, so that they
    share no quota and no memory limit.
    """
    return tuple(f"slot-{index}" for index in range(2 * slots))


class Quota(NamedTuple):
    """A limit that a fork applies to itself just before an attempt's own code: `text`, to be written to
    `descriptor`."""

    descriptor: int
    text: str


def lay_down(quota: Quota) -> None:
    """Write a limit, read it back, and close its descriptor. Raises OSError if it was not accepted."""
    try:
        os.pwrite(quota.descriptor, quota.text.encode(), 0)
        taken = os.pread(quota.descriptor, READ_BYTES, 0).decode().strip()
    finally:
        os.close(quota.descriptor)
    if taken != quota.text:
        raise OSError(errno.EINVAL, f"the limit is {taken} after {quota.text} was written")


class GroupFiles(Protocol):
    """Reads and writes the files of a node's groups.

    `group` is NODE_GROUP or a slot's name, such as `slot-3`. `name` is a file's name in its hierarchy, such as
    `cpu.cfs_quota_us`; no two controllers share a name, except `cgroup.procs`, which means that of the hierarchy of
    cpu.
    """

    @property
    def version(self) -> int:
        """Return the version of control groups, 1 or 2."""
        ...

    @property
    def controllers(self) -> frozenset[str]:
        """Return which of cpu, memory and pids can be limited, and cpuacct if it counts (only in version 1)."""
        ...

    def write(self, group: str, name: str, text: str) -> None:
        """Write a file. Raises OSError."""
        ...

    def read(self, group: str, name: str) -> str:
        """Return a file's text without surrounding white space. Raises OSError."""
        ...

    def handle(self, group: str, name: str) -> int:
        """Return a new descriptor of a file for writing and reading. Raises OSError."""
        ...

    def move(self, group: str, pid: int) -> None:
        """Move a process into the group in each hierarchy. May take some ms in the kernel. Raises OSError."""
        ...


class DescriptorFiles:
    """The groups of a node by descriptors that another process opened; implements `GroupFiles`."""

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
        """Implement `GroupFiles`."""
        return self._version

    @property
    def controllers(self) -> frozenset[str]:
        """Implement `GroupFiles`."""
        return self._controllers

    def write(self, group: str, name: str, text: str) -> None:
        """Implement `GroupFiles`."""
        os.pwrite(self._opened(group, name), text.encode(), 0)

    def read(self, group: str, name: str) -> str:
        """Implement `GroupFiles`."""
        opened, found = self._opened(group, name), b""
        while more := os.pread(opened, READ_BYTES, len(found)):
            found += more
        return found.decode().strip()

    def handle(self, group: str, name: str) -> int:
        """Implement `GroupFiles`."""
        return os.dup(self._opened(group, name))

    def move(self, group: str, pid: int) -> None:
        """Implement `GroupFiles`. The kernel interprets `pid` in this process's pid namespace."""
        for opened in self._moves[group]:
            os.pwrite(opened, str(pid).encode(), 0)

    def _opened(self, group: str, name: str) -> int:
        try:
            return self._files[group, name]
        except KeyError:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), f"{group}/{name}") from None


def send_files(line: socket.socket, about: Mapping[str, Any], files: Sequence[tuple[str, str, int]]) -> None:
    """Send open files to `receive_files`. `about` holds version and controllers. Raises OSError."""
    names = [(group, name) for group, name, _ in files]
    line.sendall(json.dumps({**about, "files": names}).encode() + b"\n")
    for first in range(0, len(files), DESCRIPTORS):
        socket.send_fds(line, [b"."], [opened for _, _, opened in files[first : first + DESCRIPTORS]])


def receive_files(path: Path, token: str) -> DescriptorFiles:
    """Return the files of the node's groups, received from a socket with `token`. Raises OSError."""
    with socket.socket(socket.AF_UNIX) as line:
        line.settimeout(PATIENCE_S)
        line.connect(str(path))
        line.sendall(token.encode() + b"\n")
        said = b""
        while not said.endswith(b"\n"):  # byte by byte: the descriptors come with the bytes behind
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
