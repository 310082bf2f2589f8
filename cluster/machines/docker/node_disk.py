"""The disk of a node in a container: a file system on a loop device with a limited rate.

The throttle of cgroup version 1's block controller applies to all writes, also of O_DIRECT or the kernel
thread that flushes the page cache. That thread is in the root group, so the node's processes move there too
and share one rate, full for reads and for writes. Only root can set this up. The image, a sparse file on this
host, survives the container as a disk survives a power failure.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
from pathlib import Path

from schedbed.cluster.machines.docker.loop_device import CONTROL, attach, device_number, discard

SIZE_BYTES = 20 * 2**30  # At most half of the host's free space; the image is a sparse file.
MAKE = ("-q", "-F", "-m", "0", "-O", "^has_journal")
EXTENDED = "lazy_itable_init=1,nodiscard,root_owner={owner}"
# An emulated disk need not survive a crash of the host, and zeroing inodes would use up the node's rate.
MOUNT = "noatime,barrier=0,noinit_itable"
# Writers wait when this much data is dirty, which limits how far a node's writes are ahead of its disk. Writers under
# the software budget stay below the limit; with a lower one, the kernel would pause them for up to 0.2 s at a time.
DIRTY_S = 0.5
DIRTY_MIN_BYTES = 2**20
GONE_S = 2.0  # The time allowed for the end of the mount.
MOUNTS = Path("/proc/self/mountinfo")
BLKIO = "blkio"


class DiskError(Exception):
    """This host cannot limit the rate of a node's disk. The message is one line."""


class NodeDisk:
    """The disk for one incarnation, in the file `image`. `rate_bps` limits reads and writes separately.

    `owner` (UID:GID) owns the top folder of a new file system.
    """

    def __init__(self, image: Path, rate_bps: float, *, owner: str) -> None:
        self._image = image
        self._rate_bps = rate_bps
        self._owner = owner
        self._throttle = Path()
        self._opened = -1
        self.name = ""
        """The name of the loop device, such as `loop8`; empty without one."""
        self.number = ""
        """The device number of the loop device (`major:minor`)."""

    @property
    def volume(self) -> dict[str, str]:
        """Return the options of a local Docker volume that mounts the disk."""
        return {"type": "ext4", "device": f"/dev/{self.name}", "o": MOUNT}

    def attach(self) -> None:
        """Create a limited loop device. Call `settle` once it is mounted. Raises DiskError."""
        if why := disk_why_not():
            raise DiskError(why)
        self._throttle = blkio_root()
        try:
            self._make_image()
            self.name, self._opened = attach(self._image)
            self.number = device_number(self.name)
            self.set_factor(1.0)
        except (OSError, subprocess.CalledProcessError) as error:
            self.release()
            raise DiskError(f"{self._image}: {_said(error)}") from error

    def settle(self, pid: int) -> None:
        """Apply the limit to the container of `pid`, which mounted the disk. Raises OSError.

        Closes this process's descriptor, so that the kernel releases the device with the container, even
        after this process's death.
        """
        self._let_go()
        lines = Path(f"/proc/{pid}/cgroup").read_text().splitlines()
        within = next(
            path for _, names, path in (line.split(":", 2) for line in lines) if BLKIO in names.split(",")
        )
        if within != "/":
            move_all(self._throttle / within.lstrip("/"), self._throttle)

    def set_factor(self, factor: float) -> None:
        """Limit reads and writes each to the declared rate times `factor`. Raises OSError if that fails."""
        rate = max(1, round(self._rate_bps * factor))
        dirty = max(DIRTY_MIN_BYTES, round(rate * DIRTY_S))
        for way in ("read", "write"):
            (self._throttle / f"blkio.throttle.{way}_bps_device").write_text(f"{self.number} {rate}")
        dirty_limits = Path("/sys/class/bdi") / self.number
        (dirty_limits / "strict_limit").write_text("1")
        (dirty_limits / "max_bytes").write_text(str(dirty))

    def release(self) -> None:
        """Remove the loop device once it is no longer mounted. The image file remains."""
        self._let_go()
        name, self.name, self.number = self.name, "", ""
        if name:
            discard(name, GONE_S)

    def _let_go(self) -> None:
        opened, self._opened = self._opened, -1
        if opened >= 0:
            os.close(opened)

    def _make_image(self) -> None:
        if self._image.exists():
            return
        made = self._image.with_suffix(".new")
        size = min(SIZE_BYTES, shutil.disk_usage(self._image.parent).free // 2)
        with made.open("wb") as file:
            file.truncate(size)
        command = [_tool("mkfs.ext4"), *MAKE, "-E", EXTENDED.format(owner=self._owner), str(made)]
        subprocess.run(command, capture_output=True, text=True, check=True)
        made.rename(self._image)


def disk_why_not() -> str:
    """Return the reason why this host cannot limit a node's disk, or an empty string if this host can."""
    if os.geteuid() != 0:
        return "loop devices and the block controller need root"
    if not CONTROL.exists():
        return f"there is no {CONTROL}"
    if not _tool("mkfs.ext4"):
        return "mkfs.ext4 is not installed"
    limits = next(Path("/sys/class/bdi").glob("*/strict_limit"), None)
    return "" if limits else "this kernel has no strict limit of dirty pages for one device"


def blkio_root(mountinfo: Path = MOUNTS) -> Path:
    """Return the block controller's root group (cgroup version 1). Raises DiskError."""
    for line in mountinfo.read_text().splitlines():
        left, _, right = line.partition(" - ")
        kind, _, options = right.split(maxsplit=2)
        root, point = left.split()[3:5]
        if kind == "cgroup" and BLKIO in options.split(",") and root == "/":
            return Path(point)
    raise DiskError("the root group of the block controller is not mounted here")


def move_all(of: Path, to: Path) -> None:
    """Move all processes between groups' folders, also those forked meanwhile. Raises OSError."""
    while pids := (of / "cgroup.procs").read_text().split():
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                (to / "cgroup.procs").write_text(pid)


def _tool(name: str) -> str:
    return shutil.which(name) or shutil.which(name, path="/sbin:/usr/sbin") or ""


def _said(error: Exception) -> str:
    if isinstance(error, subprocess.CalledProcessError):
        return f"mkfs.ext4: {(error.stderr or '').strip().splitlines()[-1:] or error}"
    return str(error)
