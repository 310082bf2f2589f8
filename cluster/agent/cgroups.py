"""The control groups of nodes on this host: `schedbed-<run_id>/<node>.<owner>/slot-<i>` in every hierarchy.

The part <owner> identifies the process of the node's agent (`owner_mark`). Control groups are created only in
the folders that `find_hierarchies` finds.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import signal
import socket
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Protocol

PREFIX = "schedbed-"
REMOVE_S = 3.0


def start_ticks(pid: int) -> int | None:
    """Return the start time of a process in clock ticks since boot, or None if there is no such process.

    The start time distinguishes processes that have the same pid at different times.
    """
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19])
    except (OSError, IndexError, ValueError):
        return None


def owner_mark(pid: int | None = None) -> str:
    """Return a string that identifies a process, by default the current process.

    The string consists of the pid and the process's start time, such as `4711.998877`.
    """
    pid = pid or os.getpid()
    return f"{pid}.{start_ticks(pid)}"


def owner_lives(mark: str) -> bool:
    """Return whether the process that `mark` (the result of `owner_mark`) identifies is still running.

    Return True for a text that does not begin with a pid, so that groups of other programs are not removed.
    """
    pid, _, ticks = mark.partition(".")
    return not pid.isdigit() or str(start_ticks(int(pid))) == ticks


def group_name(node: str, pid: int) -> str:
    """Return the name of the control group of `node`, such as `n3.4711.998877`.

    The name contains the pid and start time of the node's agent, which has the process id `pid`. A cleanup
    can thus check whether the agent is still running.
    """
    return f"{node}.{owner_mark(pid)}"


def node_folders(run_id: str, group: str, where: Hierarchies | None = None) -> tuple[int, Mapping[str, Path]]:
    """Return the version of cgroups, and a dictionary from controller to a node's control group folder.

    `group` is the group's name (`group_name`). The dictionary contains only folders that exist. Raises
    CgroupError on a host without control groups.
    """
    where = where or find_hierarchies()
    inside = Path(PREFIX + run_id) / group
    found = {name: base / inside for name, base in where.folders.items() if (base / inside).is_dir()}
    return where.version, found


class PathFiles:
    """The control groups of one node, accessed by path. This class implements `GroupFiles`.

    `where` has the folders in which `create` creates the groups. `owner_pid` is the pid of the node's agent.
    """

    def __init__(self, where: Hierarchies, run_id: str, node: str, owner_pid: int) -> None:
        self.where = where
        inside = Path(PREFIX + run_id) / group_name(node, owner_pid)
        self._folders = {name: base / inside for name, base in where.folders.items()}
        self._bases = tuple(dict.fromkeys(self._folders.values()))

    @property
    def version(self) -> int:
        """Return the version of cgroups, 1 or 2. Implements `GroupFiles`."""
        return self.where.version

    @property
    def controllers(self) -> frozenset[str]:
        """Return the names of the cgroup controllers in use, such as cpu. Implements `GroupFiles`."""
        return frozenset(self._folders)

    def create(self, names: Sequence[str]) -> None:
        """Create the node's control group, with a child group for each of `names`.

        Raises CgroupError if a group cannot be created. The groups created before are then removed.
        """
        try:
            for folder in self._bases:
                make_group(folder)
                if self.version == 2:
                    enable_controllers(folder.parent, tuple(self._folders))
                    enable_controllers(folder, tuple(self._folders))
                for name in names:
                    make_group(folder / name)
        except (OSError, CgroupError) as error:
            self.remove()
            raise CgroupError(f"cgroup v{self.version}: {error}") from error

    def write(self, group: str, name: str, text: str) -> None:
        """Write `text` to the file `name` of a control group. Implements `GroupFiles`."""
        self._path(group, name).write_text(text)

    def read(self, group: str, name: str) -> str:
        """Return the stripped text of the file `name` of a control group. Implements `GroupFiles`."""
        return self._path(group, name).read_text().strip()

    def handle(self, group: str, name: str) -> int:
        """Open the file `name` of a control group and return its descriptor. Implements `GroupFiles`."""
        return os.open(self._path(group, name), os.O_RDWR | os.O_CLOEXEC)

    def move(self, group: str, pid: int) -> None:
        """Move the process `pid` into the control group in each hierarchy. Implements `GroupFiles`."""
        for folder in self._bases:
            (folder / group / "cgroup.procs").write_text(str(pid))

    def remove(self) -> None:
        """Remove the node's control groups, and kill the processes that remain in them.

        The parent group of the whole run is also removed if no other node uses it.
        """
        for folder in self._bases:
            remove_group(folder)
            with contextlib.suppress(OSError):
                folder.parent.rmdir()

    def _path(self, group: str, name: str) -> Path:
        controller = name.partition(".")[0]
        return self._folders.get(controller, self._folders["cpu"]) / group / name


def remove_node(run_id: str, node: str, group: str) -> None:
    """Remove the control groups of the node named `node`, whose agent could not remove them itself.

    `group` is the name of the node's group (`group_name`), such as `n3.4711.998877`: the node, and the
    agent's pid and start time.
    """
    for base in _bases_or_none():
        inside = base / f"{PREFIX}{run_id}" / group
        if inside.name.startswith(f"{node}."):
            remove_group(inside)
        with contextlib.suppress(OSError):
            inside.parent.rmdir()


def sweep_leftovers() -> list[str]:
    """Remove the control groups of nodes whose agent has died, and kill the processes in them.

    Return the names of the removed groups.
    """
    swept: list[str] = []
    for base in _bases_or_none():
        for run in sorted(base.glob(f"{PREFIX}*")):
            for group in _folders_in(run):
                if not owner_lives(group.name.partition(".")[2]):
                    remove_group(group)
                    swept.append(f"{run.name}/{group.name}")
            with contextlib.suppress(OSError):
                run.rmdir()
    return list(dict.fromkeys(swept))


def _folders_in(folder: Path) -> list[Path]:
    """Return the subfolders of a control group, sorted by name, or [] if the group no longer exists."""
    try:
        return sorted(path for path in folder.iterdir() if path.is_dir())
    except FileNotFoundError:
        return []


def _bases_or_none() -> tuple[Path, ...]:
    try:
        return find_hierarchies().bases
    except CgroupError:
        return ()


def make_group(folder: Path) -> None:
    """Create the folder of a control group and its parent folders. Raises CgroupError.

    The creation is retried, because another node's agent may remove the parent group at the same time.
    """
    for _ in range(20):
        try:
            folder.mkdir(parents=True, exist_ok=True)
            return
        except FileNotFoundError:
            time.sleep(0.005)
    raise CgroupError(f"{folder} cannot be made")


def remove_group(folder: Path) -> None:
    """Remove a control group and its child groups, and kill their processes.

    The removal is retried for up to REMOVE_S seconds, because killed processes take a moment to end.
    """
    give_up = time.monotonic() + REMOVE_S
    # Version 2 kills all processes below the group at once, including those being forked.
    with contextlib.suppress(OSError), (folder / "cgroup.kill").open("r+") as kill:
        kill.write("1")
    while folder.exists():
        for group in [*_folders_in(folder), folder]:
            with contextlib.suppress(OSError, ValueError):
                pids = [int(pid) for pid in (group / "cgroup.procs").read_text().split()]
                for pid in (pid for pid in pids if pid > 0):  # 0 means a process of another pid namespace.
                    os.kill(pid, signal.SIGKILL)
            with contextlib.suppress(OSError):
                group.rmdir()
        if time.monotonic() > give_up:
            return
        if folder.exists():
            time.sleep(0.01)


# Detection of the folders in which this process can create control groups (cgroups version 1 or 2).
#
# Control groups are created only below this process's own control group or, in version 2, below its parent.

CONTROLLERS = ("cpu", "cpuacct", "memory", "pids")
MUST_2 = ("cpu", "memory")  # Version 2 is used only if both are available.


class CgroupError(Exception):
    """Control groups cannot be used, or the kernel did not accept a limit. The message has one line."""


@dataclass(frozen=True, slots=True)
class Hierarchies:
    """The folders in which this process can create control groups, and the `version` of cgroups, 1 or 2.

    `folders` maps the name of a controller to its folder. `cpu` is always included, while `memory` and `pids`
    may be missing. `cpuacct` exists only in version 1; in version 2 each group counts its CPU time.
    """

    version: int
    folders: Mapping[str, Path]

    @property
    def cpu(self) -> Path:
        """Return the folder of the controller `cpu`, which limits CPU time."""
        return self.folders["cpu"]

    @property
    def bases(self) -> tuple[Path, ...]:
        """Return all folders without duplicates, beginning with the folder of the controller `cpu`."""
        return tuple(dict.fromkeys(self.folders.values()))


def find_hierarchies(proc_self: Path = Path("/proc/self")) -> Hierarchies:
    """Return the cgroup folders in which this process can create control groups.

    `proc_self` is the process's folder in /proc. Raises CgroupError with the reason if there are none.
    """
    mounts, present = _hierarchies(proc_self)
    if "cpu" in mounts and "cpu" in present:
        return _version_1(mounts, present)
    if "" in mounts and "" in present:
        return _version_2(_below(mounts[""], present[""]), mounts[""][1])
    raise CgroupError("no cgroup hierarchy with the cpu controller is mounted")


def memory_group(proc_self: Path = Path("/proc/self")) -> tuple[int, Path, Path]:
    """Return (version of cgroups, this process's control group for memory, mount point of its hierarchy).

    `proc_self` is the process's folder in /proc. Raises CgroupError if no hierarchy limits memory.
    """
    mounts, present = _hierarchies(proc_self)
    for version, name in ((1, "memory"), (2, "")):
        if name in mounts and name in present:
            return version, _below(mounts[name], present[name]), mounts[name][1]
    raise CgroupError("no cgroup hierarchy with the memory controller is mounted")


def _hierarchies(proc_self: Path) -> tuple[dict[str, tuple[str, Path]], dict[str, str]]:
    """Return two dictionaries: the mounted cgroup hierarchies, and the path of this process's group in each.

    The keys are names of controllers, such as cpu, and "" for the hierarchy of version 2. The values of the
    first are (root, mount point). `proc_self` is the process's folder in /proc. Raises CgroupError.
    """
    try:
        return _mounts((proc_self / "mountinfo").read_text()), _present((proc_self / "cgroup").read_text())
    except OSError as error:
        raise CgroupError(f"no cgroups on this host: {error}") from error


def _mounts(mountinfo: str) -> dict[str, tuple[str, Path]]:
    """Return a dictionary from cgroup controller to the (root, mount point) of its hierarchy.

    `mountinfo` is the text of /proc/self/mountinfo. The key "" stands for the hierarchy of version 2.
    """
    found: dict[str, tuple[str, Path]] = {}
    for line in mountinfo.splitlines():
        left, _, right = line.partition(" - ")
        root, point = left.split()[3:5]
        kind, _, options = right.split(maxsplit=2)
        names = [""] if kind == "cgroup2" else options.split(",") if kind == "cgroup" else []
        for name in names:
            found.setdefault(name, (root, Path(point)))
    return found


def _present(cgroup: str) -> dict[str, str]:
    """Return a dictionary from cgroup controller to the path of this process's group in its hierarchy.

    `cgroup` is the text of /proc/self/cgroup. The key "" stands for the hierarchy of version 2.
    """
    found: dict[str, str] = {}
    for line in cgroup.splitlines():
        _, names, path = line.split(":", 2)
        found.update(dict.fromkeys(names.split(","), path))
    return found


def _below(mount: tuple[str, Path], path: str) -> Path:
    """Return the folder of the control group `path` in a mounted hierarchy.

    `mount` is (root, mount point). In a container, the root may be a group inside the hierarchy.
    """
    root, point = mount
    inside = path[len(root) :] if root != "/" and path.startswith(root) else path
    return point / inside.lstrip("/")


def _version_1(mounts: dict[str, tuple[str, Path]], present: dict[str, str]) -> Hierarchies:
    found = {
        name: _below(mounts[name], present[name])
        for name in CONTROLLERS
        if name in mounts and name in present
    }
    if not os.access(found["cpu"], os.W_OK):
        raise CgroupError(f"cgroup v1: {found['cpu']} is not writable")
    return Hierarchies(1, {name: folder for name, folder in found.items() if os.access(folder, os.W_OK)})


def _version_2(own: Path, top: Path) -> Hierarchies:
    """Return the version 2 hierarchy below this process's group `own` or, if that fails, below its parent.

    The parent is tried because the kernel seldom lets a group with processes enable controllers for child
    groups. `top` is the mount point. Raises CgroupError if both fail.
    """
    refused = ""
    for base in (own, own.parent) if own != top else (own,):
        try:
            enable_controllers(base, MUST_2)
            if os.access(base, os.W_OK) and os.access(base / "cgroup.procs", os.W_OK):
                return Hierarchies(2, dict.fromkeys((*MUST_2, *_handed_on(base, ("pids",))), base))
            refused = f"{base} is not writable"
        except OSError as error:
            refused = f"{base}: {error.strerror}"
    raise CgroupError(f"cgroup v2: no subtree is delegated to us ({refused})")


def _handed_on(group: Path, controllers: tuple[str, ...]) -> tuple[str, ...]:
    """Return `controllers` if they can be enabled for the child groups of a version 2 group, or else ()."""
    try:
        enable_controllers(group, controllers)
    except (OSError, CgroupError):
        return ()
    return controllers


def enable_controllers(group: Path, controllers: tuple[str, ...]) -> None:
    """Enable cgroup controllers, such as cpu, for the child groups of a version 2 group.

    Raises OSError if the kernel refuses, or CgroupError if a controller is still disabled afterwards.
    """
    control = group / "cgroup.subtree_control"
    missing = [name for name in controllers if name not in control.read_text().split()]
    if missing:
        control.write_text(" ".join(f"+{name}" for name in missing))
        if set(missing) - set(control.read_text().split()):
            raise CgroupError(f"{control} did not take {missing}")


# Access to the files of a node's control groups, by path or by file descriptors.
#
# An agent uses these files to set limits and to move attempts into groups. For a node in a container, a
# process on the host creates the groups, opens their files as root and sends the file descriptors to the
# agent. The container contains no paths to these files, so an attempt, which runs as the same user as the
# agent, cannot change its limits.

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
