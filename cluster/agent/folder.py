"""The layout and ownership of an agent's folder. Names from outside are checked and cannot lead out of it."""

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
    """An invalid request or message. The exception's text is one line."""


class RootInUse(Exception):
    """Another agent, or a remaining process of another agent, uses this folder."""


def checked_id(text: str, what: str) -> str:
    """Return `text` if it is a valid id: letters, digits, '_' and '-'. Raises BadRequest otherwise.

    The exception names the value as `what`.
    """
    if not _ID.fullmatch(text):
        raise BadRequest(f"{what}: {text[:80]!r}, expected letters, digits, '_' and '-'")
    return text


def open_plain(path: Path) -> FileIO:
    """Open a plain file that an attempt made.

    Does not follow links and does not block on pipes. Raises OSError.
    """
    file = FileIO(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC))
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise OSError(f"{path} is no file")
    return file


class AgentDir:
    """The paths in an agent's folder: `blocks/`, `mapout/`, `attempts/`, `programs/` and the file `budget`.

    The folders are below `root`. The budget file is in `quick` if given: it is mapped and constantly written,
    and on a disk that the kernel limits, each write-back would count.
    """

    def __init__(self, root: Path, quick: Path | None = None) -> None:
        self.root = root
        self.blocks = root / "blocks"
        self.mapout = root / "mapout"
        self.attempts = root / "attempts"
        self.programs = root / KEPT
        self.budget = (quick or root) / "budget"

    def block(self, block: str) -> Path:
        """Return the path of a block's file, whether or not it exists."""
        return self.blocks / checked_id(block, "block")

    def map_output(self, attempt: str) -> Path:
        """Return the folder of a map attempt's output."""
        return self.mapout / checked_id(attempt, "attempt")

    def attempt(self, attempt: str) -> Path:
        """Return the scratch folder of an attempt."""
        return self.attempts / checked_id(attempt, "attempt")

    def seal_output(self, attempt: str) -> None:
        """Make this process the owner of a published map output.

        The attempt's user id may be used again, and a later attempt must not be able to change the output.
        """
        folder = self.map_output(attempt)
        with contextlib.suppress(FileNotFoundError):
            os.chown(folder, os.geteuid(), os.getegid(), follow_symlinks=False)
            for path in [] if folder.is_symlink() else list(folder.iterdir()):
                os.chown(path, os.geteuid(), os.getegid(), follow_symlinks=False)

    @property
    def disk_is_full(self) -> bool:
        """Return whether a fault has filled the node's disk, or its file system is full."""
        if (self.root / FULL_DISK).exists():
            return True
        room = os.statvfs(self.root)
        return room.f_bavail * room.f_frsize < ROOM_MIN_BYTES

    def fill_disk(self, full: bool) -> None:
        """Inject or end a fault: with `full`, refuse writes from now on; else accept writes again."""
        if full:
            (self.root / FULL_DISK).touch()
        else:
            (self.root / FULL_DISK).unlink(missing_ok=True)

    def lock(self, patience_s: float = 3.0) -> int:
        """Lock the folder and return the descriptor of the lock file.

        The lock is held until all processes that inherit the descriptor have ended. Waits up to `patience_s`
        seconds for the processes of an earlier incarnation. Raises RootInUse.
        """
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
        """Create the folders. Delete the files of earlier attempts, and incomplete blocks."""
        for folder in (self.attempts, self.mapout):
            shutil.rmtree(folder, ignore_errors=True)
        for folder in (self.blocks, self.mapout, self.attempts, self.programs):
            folder.mkdir(parents=True, exist_ok=True)
        for path in self.blocks.iterdir():
            if path.suffix == ".tmp" or (path.suffix == ".crc" and not path.with_suffix("").exists()):
                path.unlink()

    def stored_blocks(self) -> dict[str, int]:
        """Return the length in bytes of each block on disk, sorted by block name."""
        return {
            path.name: path.stat().st_size
            for path in sorted(self.blocks.iterdir())
            if _ID.fullmatch(path.name) and crc_path(path).exists()
        }

    def forget_job(self, job: str) -> None:
        """Delete the job's map outputs and scratch folders."""
        prefix = checked_id(job, "job") + "_"
        for folder in (self.mapout, self.attempts):
            for path in folder.iterdir():
                if path.name.startswith(prefix):
                    shutil.rmtree(path, ignore_errors=True)
