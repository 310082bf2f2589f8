"""Detection of the folders in which this process can create control groups (cgroups version 1 or 2).

Control groups are created only below this process's own control group or, in version 2, below its parent.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

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
