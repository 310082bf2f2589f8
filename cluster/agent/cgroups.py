"""The control groups of nodes on this host: `schedbed-<run_id>/<node>.<owner>/slot-<i>` in every hierarchy."""

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
    """Return when a process started, in ticks since boot. Tells apart processes that have the same pid."""
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19])
    except (OSError, IndexError, ValueError):
        return None


def owner_mark(pid: int | None = None) -> str:
    """Return pid and start time, such as `4711.998877`, which identify a process (default: this one)."""
    pid = pid or os.getpid()
    return f"{pid}.{start_ticks(pid)}"


def owner_lives(mark: str) -> bool:
    """Return whether the process of an `owner_mark` runs. Any other text counts as running and is not cleaned up."""
    pid, _, ticks = mark.partition(".")
    return not pid.isdigit() or str(start_ticks(int(pid))) == ticks


def group_name(node: str, pid: int) -> str:
    """Return the group's name, such as `n3.4711.998877`, by which a cleanup sees whether agent `pid` runs."""
    return f"{node}.{owner_mark(pid)}"


def node_folders(run_id: str, group: str, where: Hierarchies | None = None) -> tuple[int, Mapping[str, Path]]:
    """Return (version of cgroups, controller -> the node's existing folder). Raises CgroupError without any."""
    where = where or find_hierarchies()
    inside = Path(PREFIX + run_id) / group
    found = {name: base / inside for name, base in where.folders.items() if (base / inside).is_dir()}
    return where.version, found


WEIGHTS = {1: ("cpu.shares", "10240"), 2: ("cpu.weight", "1000")}
"""By version of cgroups, file and value of the weight of a run against other processes of the host. All nodes of a run
together would weigh as much as one process, and on a busy host get less than their quotas."""


class PathFiles:
    """The control groups of one node, by path. Implements `GroupFiles`. `owner_pid` is the agent's pid."""

    def __init__(self, where: Hierarchies, run_id: str, node: str, owner_pid: int) -> None:
        self.where = where
        inside = Path(PREFIX + run_id) / group_name(node, owner_pid)
        self._folders = {name: base / inside for name, base in where.folders.items()}
        self._bases = tuple(dict.fromkeys(self._folders.values()))

    @property
    def version(self) -> int:
        return self.where.version

    @property
    def controllers(self) -> frozenset[str]:
        return frozenset(self._folders)

    def create(self, names: Sequence[str]) -> None:
        """Create the node's group and a child for each name, or none if one fails (CgroupError)."""
        try:
            for folder in self._bases:
                make_group(folder)
                if self.version == 2:
                    enable_controllers(folder.parent, tuple(self._folders))
                    enable_controllers(folder, tuple(self._folders))
                for name in names:
                    make_group(folder / name)
            self._weigh()
        except (OSError, CgroupError) as error:
            self.remove()
            raise CgroupError(f"cgroup v{self.version}: {error}") from error

    def _weigh(self) -> None:
        """Give the run's group the weight of ten processes, if permitted."""
        name, weight = WEIGHTS[self.version]
        with contextlib.suppress(OSError), (self._folders["cpu"].parent / name).open("r+") as file:
            file.write(weight)

    def write(self, group: str, name: str, text: str) -> None:
        self._path(group, name).write_text(text)

    def read(self, group: str, name: str) -> str:
        return self._path(group, name).read_text().strip()

    def handle(self, group: str, name: str) -> int:
        """Open a group's file and return its descriptor."""
        return os.open(self._path(group, name), os.O_RDWR | os.O_CLOEXEC)

    def move(self, group: str, pid: int) -> None:
        for folder in self._bases:
            (folder / group / "cgroup.procs").write_text(str(pid))

    def remove(self) -> None:
        """Remove the node's groups and kill what is left in them. The run's group goes with its last node."""
        for folder in self._bases:
            remove_group(folder)
            with contextlib.suppress(OSError):
                folder.parent.rmdir()

    def _path(self, group: str, name: str) -> Path:
        controller = name.partition(".")[0]
        return self._folders.get(controller, self._folders["cpu"]) / group / name


def remove_node(run_id: str, node: str, group: str) -> None:
    """Remove a node's groups after its agent failed to. `group` is a `group_name`, such as `n3.4711.998877`."""
    for base in _bases_or_none():
        inside = base / f"{PREFIX}{run_id}" / group
        if inside.name.startswith(f"{node}."):
            remove_group(inside)
        with contextlib.suppress(OSError):
            inside.parent.rmdir()


def sweep_leftovers() -> list[str]:
    """Remove groups of dead agents and kill the processes in them. Return the names of the groups."""
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
    """Create a control group. Retries, because another agent may remove the parent at the same time."""
    for _ in range(20):
        try:
            folder.mkdir(parents=True, exist_ok=True)
            return
        except FileNotFoundError:
            time.sleep(0.005)
    raise CgroupError(f"{folder} cannot be made")


def remove_group(folder: Path) -> None:
    """Remove a group and its children. Retries for REMOVE_S, because killed processes take a moment to end."""
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
    """The folders by controller in which this process can create control groups. Only version 1 has `cpuacct`."""

    version: int
    folders: Mapping[str, Path]

    @property
    def cpu(self) -> Path:
        return self.folders["cpu"]

    @property
    def bases(self) -> tuple[Path, ...]:
        """Return all folders without duplicates, that of `cpu` first."""
        return tuple(dict.fromkeys(self.folders.values()))


def find_hierarchies(proc_self: Path = Path("/proc/self")) -> Hierarchies:
    """Return the folders in which this process can create groups. Raises CgroupError with the reason if none."""
    mounts, present = _hierarchies(proc_self)
    if "cpu" in mounts and "cpu" in present:
        return _version_1(mounts, present)
    if "" in mounts and "" in present:
        return _version_2(_below(mounts[""], present[""]), mounts[""][1])
    raise CgroupError("no cgroup hierarchy with the cpu controller is mounted")


def memory_group(proc_self: Path = Path("/proc/self")) -> tuple[int, Path, Path]:
    """Return (version of cgroups, this process's group for memory, mount point). Raises CgroupError."""
    mounts, present = _hierarchies(proc_self)
    for version, name in ((1, "memory"), (2, "")):
        if name in mounts and name in present:
            return version, _below(mounts[name], present[name]), mounts[name][1]
    raise CgroupError("no cgroup hierarchy with the memory controller is mounted")


def _hierarchies(proc_self: Path) -> tuple[dict[str, tuple[str, Path]], dict[str, str]]:
    """Return the results of `_mounts` and `_present` for this process. Raises CgroupError."""
    try:
        return _mounts((proc_self / "mountinfo").read_text()), _present((proc_self / "cgroup").read_text())
    except OSError as error:
        raise CgroupError(f"no cgroups on this host: {error}") from error


def _mounts(mountinfo: str) -> dict[str, tuple[str, Path]]:
    """Return {controller: (root, mount point)} from /proc/self/mountinfo. The key "" means version 2."""
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
    """Return {controller: path of this process's group} from /proc/self/cgroup. The key "" means version 2."""
    found: dict[str, str] = {}
    for line in cgroup.splitlines():
        _, names, path = line.split(":", 2)
        found.update(dict.fromkeys(names.split(","), path))
    return found


def _below(mount: tuple[str, Path], path: str) -> Path:
    """Return the folder of a group. In a container, the mount's root may be a group inside the hierarchy."""
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
    """Return the hierarchy below `own`, or else its parent: a group with processes seldom enables controllers."""
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
    """Enable controllers for a version 2 group's children. Raises OSError or CgroupError."""
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
    """Return `slot-0`, ...: two per slot, so that an ended attempt and the next one do not share a limit."""
    return tuple(f"slot-{index}" for index in range(2 * slots))


class Quota(NamedTuple):
    """A limit that a process applies to itself before an application's code: `text` for its group's file."""

    descriptor: int
    text: str


def apply_quota(quota: Quota) -> None:
    """Apply a CPU limit, read it back and close the descriptor. Raises OSError if the kernel changed it."""
    try:
        os.pwrite(quota.descriptor, quota.text.encode(), 0)
        taken = os.pread(quota.descriptor, READ_BYTES, 0).decode().strip()
    finally:
        os.close(quota.descriptor)
    if taken != quota.text:
        raise OSError(errno.EINVAL, f"the limit is {taken} after {quota.text} was written")


class GroupFiles(Protocol):
    """Reads and writes files of a node's control groups. `group` is `slot-<i>` or NODE_GROUP, their parent.

    `name` is a file, such as `cpu.cfs_quota_us`. Only `cgroup.procs` exists for several controllers, and
    means that of the controller cpu.
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
        """Open the file `name` of a control group for reading and writing. Return its descriptor. Raises OSError."""
        ...

    def move(self, group: str, pid: int) -> None:
        """Move `pid` into the group in each hierarchy. Takes up to 10 ms. Raises OSError."""
        ...


class DescriptorFiles:
    """A node's control groups by descriptors, (group, file) -> descriptor, that another process has opened."""

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
        return self._version

    @property
    def controllers(self) -> frozenset[str]:
        """Return the controllers that the other process could use."""
        return self._controllers

    def write(self, group: str, name: str, text: str) -> None:
        os.pwrite(self._opened(group, name), text.encode(), 0)

    def read(self, group: str, name: str) -> str:
        """Return the stripped text of the file `name` of a control group. Implements `GroupFiles`."""
        opened, found = self._opened(group, name), b""
        while more := os.pread(opened, READ_BYTES, len(found)):
            found += more
        return found.decode().strip()

    def handle(self, group: str, name: str) -> int:
        """Return a duplicate of the descriptor of a group's file."""
        return os.dup(self._opened(group, name))

    def move(self, group: str, pid: int) -> None:
        """Move a process, of this process's pid namespace, into the group in each hierarchy."""
        for opened in self._moves[group]:
            os.pwrite(opened, str(pid).encode(), 0)

    def _opened(self, group: str, name: str) -> int:
        try:
            return self._files[group, name]
        except KeyError:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), f"{group}/{name}") from None


def send_files(line: socket.socket, about: Mapping[str, Any], files: Sequence[tuple[str, str, int]]) -> None:
    """Send (group, file, descriptor) to a caller of `receive_files`. `about` has version and controllers."""
    names = [(group, name) for group, name, _ in files]
    line.sendall(json.dumps({**about, "files": names}).encode() + b"\n")
    for first in range(0, len(files), DESCRIPTORS):
        socket.send_fds(line, [b"."], [opened for _, _, opened in files[first : first + DESCRIPTORS]])


def receive_files(path: Path, token: str) -> DescriptorFiles:
    """Receive a node's control groups over the unix socket `path`. The sender requires `token`."""
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
