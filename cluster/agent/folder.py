"""The layout and ownership of an agent's folder. Names in requests are checked, so no path leads out of the folder."""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import shutil
import stat
import time
from io import FileIO
from pathlib import Path

from schedbed.tasks.blockfile import crc_path
from schedbed.tasks.context import FULL_DISK
from schedbed.tasks.own.program import KEPT

ROOM_MIN_BYTES = 2**20  # A disk with less free space counts as full.
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,127}")


class BadRequest(Exception):
    """A request or message is invalid. The text of the exception has one line."""


class RootInUse(Exception):
    """Another agent, or a process that another agent left behind, still uses the folder."""


def checked_id(text: str, what: str) -> str:
    """Return `text` if it is safe in a path, or raise BadRequest. `what` names the value."""
    if not _ID.fullmatch(text):
        raise BadRequest(f"{what}: {text[:80]!r}, expected letters, digits, '_' and '-'")
    return text


def open_plain(path: Path) -> FileIO:
    """Open a regular file that an attempt wrote. Links are not followed, and pipes do not block."""
    file = FileIO(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC))
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise OSError(f"{path} is no file")
    return file


class AgentDir:
    """The paths in an agent's folder `root`. `quick` holds `budget`, whose writes would use up a limited disk."""

    def __init__(self, root: Path, quick: Path | None = None) -> None:
        self.root = root
        self.blocks = root / "blocks"
        self.mapout = root / "mapout"
        self.attempts = root / "attempts"
        self.programs = root / KEPT
        self.budget = (quick or root) / "budget"

    def block(self, block: str) -> Path:
        """Return the path of a block's file, which need not exist."""
        return self.blocks / checked_id(block, "block")

    def map_output(self, attempt: str) -> Path:
        return self.mapout / checked_id(attempt, "attempt")

    def attempt(self, attempt: str) -> Path:
        return self.attempts / checked_id(attempt, "attempt")

    def seal_output(self, attempt: str) -> None:
        """Own the output of an ended map: a later attempt may have the same user id, and must not change it."""
        folder = self.map_output(attempt)
        with contextlib.suppress(FileNotFoundError):
            os.chown(folder, os.geteuid(), os.getegid(), follow_symlinks=False)
            for path in [] if folder.is_symlink() else list(folder.iterdir()):
                os.chown(path, os.geteuid(), os.getegid(), follow_symlinks=False)

    @property
    def disk_is_full(self) -> bool:
        """Return whether a fault declares the node's disk full, or its file system has no space left."""
        if (self.root / FULL_DISK).exists():
            return True
        room = os.statvfs(self.root)
        return room.f_bavail * room.f_frsize < ROOM_MIN_BYTES

    def fill_disk(self, full: bool) -> None:
        """Inject a fault: if `full`, writes to the node's disk fail from now on. Otherwise end the fault."""
        if full:
            (self.root / FULL_DISK).touch()
        else:
            (self.root / FULL_DISK).unlink(missing_ok=True)

    def lock(self, patience_s: float = 3.0) -> int:
        """Lock the folder until all processes that inherit the descriptor have ended. Raises RootInUse."""
        self.root.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(self.root / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        give_up = time.monotonic() + patience_s
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return descriptor
            except BlockingIOError:
                if time.monotonic() > give_up:
                    os.close(descriptor)
                    raise RootInUse(f"{self.root}: in use by another agent") from None
                time.sleep(0.02)

    def prepare(self) -> None:
        """Create the subfolders. Delete files of earlier attempts, incomplete blocks and the mark of a full disk."""
        self.fill_disk(False)
        for folder in (self.attempts, self.mapout):
            shutil.rmtree(folder, ignore_errors=True)
        for folder in (self.blocks, self.mapout, self.attempts, self.programs):
            folder.mkdir(parents=True, exist_ok=True)
        for path in self.blocks.iterdir():
            if path.suffix == ".tmp" or (path.suffix == ".crc" and not path.with_suffix("").exists()):
                path.unlink()

    def stored_blocks(self) -> dict[str, int]:
        """Return a dictionary from the name of each block on disk to its length in bytes, sorted by name."""
        return {
            path.name: path.stat().st_size
            for path in sorted(self.blocks.iterdir())
            if _ID.fullmatch(path.name) and crc_path(path).exists()
        }

    def forget_job(self, job: str) -> None:
        """Delete the map outputs and the attempts' folders of a job."""
        prefix = checked_id(job, "job") + "_"
        for folder in (self.mapout, self.attempts):
            for path in folder.iterdir():
                if path.name.startswith(prefix):
                    shutil.rmtree(path, ignore_errors=True)
