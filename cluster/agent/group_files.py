"""The files of a node's control groups, wherever they lie: by path on this host, or opened by whoever holds the node.

An agent writes limits and moves attempts through these. Inside a container no path leads to the node's groups: the
host's side makes them, opens their files as root and hands the descriptors over, so that an attempt, which runs as the
same user as the agent, finds no file there that it could write.
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
    """Return the names of the groups that a node of that many slots needs: `slot-0`, `slot-1`, ...

    Two a slot: the next attempt waits in a group of its own while the one before it dies, so that it neither shares a
    quota with it nor is killed for its memory.
    """
    return tuple(f"slot-{index}" for index in range(2 * slots))


class Quota(NamedTuple):
    """A limit that a fork lays upon itself just before an attempt's own code: `text`, written to `descriptor`."""

    descriptor: int
    text: str


def lay_down(quota: Quota) -> None:
    """Write a limit, read it back, and close its descriptor. Raises OSError."""
    try:
        os.pwrite(quota.descriptor, quota.text.encode(), 0)
        taken = os.pread(quota.descriptor, READ_BYTES, 0).decode().strip()
    finally:
        os.close(quota.descriptor)
    if taken != quota.text:
        raise OSError(errno.EINVAL, f"the limit is {taken} after {quota.text} was written")


class GroupFiles(Protocol):
    """Reads and writes the files of a node's groups: `group` is NODE_GROUP or a slot's name, `slot-3`.

    `name` is a file's name in its hierarchy, as `cpu.cfs_quota_us`: no two controllers share one, but for
    `cgroup.procs`, which is that of the hierarchy of cpu.
    """

    @property
    def version(self) -> int:
        """Return the version of control groups, 1 or 2."""
        ...

    @property
    def controllers(self) -> frozenset[str]:
        """Return which of cpu, memory and pids can be limited, and whether cpuacct counts (version 1 alone)."""
        ...

    def write(self, group: str, name: str, text: str) -> None:
        """Write a file. Raises OSError."""
        ...

    def read(self, group: str, name: str) -> str:
        """Return a file's text without white space around it. Raises OSError."""
        ...

    def handle(self, group: str, name: str) -> int:
        """Return a new descriptor by which a file can be written and read. Raises OSError."""
        ...

    def move(self, group: str, pid: int) -> None:
        """Move a process into the group, in each hierarchy. Raises OSError. May wait for some ms in the kernel."""
        ...


class DescriptorFiles:
    """The groups of a node by descriptors that another process has opened, as `GroupFiles`."""

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
        """Implement `GroupFiles`. The kernel reads `pid` as of this process's pid namespace."""
        for opened in self._moves[group]:
            os.pwrite(opened, str(pid).encode(), 0)

    def _opened(self, group: str, name: str) -> int:
        try:
            return self._files[group, name]
        except KeyError:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), f"{group}/{name}") from None


def send_files(line: socket.socket, about: Mapping[str, Any], files: Sequence[tuple[str, str, int]]) -> None:
    """Send open files to `receive_files`: `about` has version and controllers. Raises OSError."""
    names = [(group, name) for group, name, _ in files]
    line.sendall(json.dumps({**about, "files": names}).encode() + b"\n")
    for first in range(0, len(files), DESCRIPTORS):
        socket.send_fds(line, [b"."], [opened for _, _, opened in files[first : first + DESCRIPTORS]])


def receive_files(path: Path, token: str) -> DescriptorFiles:
    """Fetch the files of the node's groups at a socket, where `token` opens the door. Raises OSError."""
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
