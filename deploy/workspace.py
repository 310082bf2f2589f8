"""The folders of a run: the result folder with its lock, and a scratch folder that is removed at the end."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path

import psutil

from schedbed.cluster.agent.cgroups import sweep_leftovers
from schedbed.cluster.caretaker import watched
from schedbed.deploy.options import no_interrupts
from schedbed.deploy.private_files import FOLDER_MODE
from schedbed.tasks.errors import BadInput

PREFIX = "schedbed-"
SETTLE_S = 5.0  # time that users of a scratch folder get to end by themselves
LONGEST_BASE = 13  # Ray's sockets live up to 94 characters below it, and a socket's path may have 107


def result_folder(out: Path | None, name: str, started: datetime, *, private: bool = False) -> Path:
    """Return the run's folder, created; `runs/<name>-<time>` unless given. `private` makes it unreadable to other
    users.

    Raises BadInput if it cannot be made or already holds a run.
    """
    folder = out or Path("runs") / f"{name}-{started:%Y%m%d-%H%M%S}"
    try:
        folder.mkdir(FOLDER_MODE if private else 0o777, parents=True, exist_ok=True)
        if private:
            folder.chmod(FOLDER_MODE)
    except OSError as error:
        raise BadInput(f"--out {folder}: {error.strerror}, expected a folder that can be written") from None
    if (folder / "run.json").exists():
        raise BadInput(f"--out {folder}: holds a run already, expected a new or empty folder")
    return folder


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold the folder's lock for this process; a dead owner's lock does not count. Raises BadInput if another run has
    it."""
    path = folder / ".lock"
    try:
        handle = path.open("w")
    except OSError as error:
        raise BadInput(f"--out {folder}: {error.strerror}, expected a folder that can be written") from None
    with handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise BadInput(
                f"--out {folder}: another run is writing there, expected a folder of its own"
            ) from None
        try:
            yield
        finally:
            path.unlink(missing_ok=True)


@contextmanager
def scratch() -> Iterator[Path]:
    """Yield a private folder for Ray, the agents and the journals, removed at the end.

    The folders and control groups of dead runs are swept first. If this process is killed, a watch process removes
    the folder and the processes that use it.
    """
    base = base_folder()
    sweep(base)
    sweep_leftovers()
    folder = make_scratch(base)
    try:
        with watched("schedbed.deploy.leftovers", str(folder), speaks=True):
            yield folder
    finally:
        with no_interrupts():
            remove(folder)
            sweep_leftovers()  # of agents that were killed while they cleared up


def base_folder() -> Path:
    """Return the parent of scratch folders: the temporary folder, unless its path is too long for Ray's sockets."""
    base = Path(tempfile.gettempdir())
    return base if len(str(base)) <= LONGEST_BASE else Path("/tmp")


def make_scratch(base: Path) -> Path:
    """Return a new private folder that belongs to this process until it ends."""
    return Path(tempfile.mkdtemp(prefix=owned(), dir=base))


def owned(kind: str = "") -> str:
    """Return the start of the names of this process's temporary folders; `sweep` removes those of dead processes."""
    return f"{PREFIX}{os.getpid()}-{kind}"


def remove(folder: Path) -> None:
    """Remove a scratch folder; wait for processes that still use it (Ray's end a little later than Ray), then kill
    them."""
    end_s = time.monotonic() + SETTLE_S
    users = set(users_of(folder))
    while folder.exists() or users:
        if time.monotonic() > end_s:
            for process in users:
                with suppress(psutil.NoSuchProcess):
                    process.kill()
        shutil.rmtree(folder, ignore_errors=True)
        users = {process for process in users if process.is_running()} | set(users_of(folder))
        if time.monotonic() > end_s + SETTLE_S:
            return
        time.sleep(0.05)


def users_of(folder: Path) -> list[psutil.Process]:
    """Return Ray's processes and agents with the folder in their command line, and Ray's with an open file in it."""
    found = []
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            line = " ".join(process.cmdline())
            if str(folder) in line:
                uses = "ray" in line or "schedbed.cluster." in line
            else:
                uses = line.startswith("ray::") and _has_open(process, folder)
            if uses:
                found.append(process)
    return found


def _has_open(process: psutil.Process, folder: Path) -> bool:
    return any(folder in Path(file.path).parents for file in process.open_files())


def sweep(base: Path) -> list[Path]:
    """Remove this user's temporary folders of dead processes, and return them."""
    swept = left_behind(base)
    for folder in swept:
        shutil.rmtree(folder, ignore_errors=True)
    return swept


def left_behind(base: Path) -> list[Path]:
    """Return this user's temporary folders of dead processes."""
    left = []
    for folder in sorted(base.glob(f"{PREFIX}*-*")):
        owner = folder.name[len(PREFIX) :].partition("-")[0]
        with suppress(FileNotFoundError):
            if owner.isdigit() and not psutil.pid_exists(int(owner)) and folder.stat().st_uid == os.getuid():
                left.append(folder)
    return left
