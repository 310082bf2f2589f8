"""The control groups of nodes on this host: `schedbed-<run_id>/<node>.<owner>/slot-<i>` in every hierarchy.

The part <owner> identifies the process of the node's agent (`owner_mark`). Control groups are created only in
the folders that `find_hierarchies` finds.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from schedbed.cluster.agent.cgroup_find import CgroupError, Hierarchies, enable_controllers, find_hierarchies

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
