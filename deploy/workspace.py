"""The folders of a run: the result folder with its lock, and a scratch folder that is removed after the run."""

from __future__ import annotations

import fcntl
import os
import shutil
import stat
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
from schedbed.tasks.errors import BadInput

PREFIX = "schedbed-"
LOCK = ".lock"
SETTLE_S = 5.0  # Time in which processes may stop using a scratch folder by themselves.
LONGEST_BASE = 13  # Ray adds up to 94 characters; a socket's path may have 107.


def result_folder(out: Path | None, name: str, started: datetime, *, private: bool = False) -> Path:
    """Create and return the result folder of a run, by default `runs/<name>-<time>`.

    The default is always a new one: a second run's of the same second ends with `-2`. With `private`, other
    users cannot read it. Raises BadInput if it cannot be created, or if `out` already contains results.
    """
    mode = FOLDER_MODE if private else 0o777
    folder = out or Path("runs") / f"{name}-{started:%Y%m%d-%H%M%S}"
    try:
        if out is None:
            return _new_folder(folder, mode)
        folder.mkdir(mode, parents=True, exist_ok=True)
        if private:
            folder.chmod(FOLDER_MODE)
    except OSError as error:
        raise BadInput(f"--out {folder}: {error.strerror}, expected a folder that can be written") from None
    if (folder / "run.json").exists():
        raise BadInput(f"--out {folder}: holds a run already, expected a new or empty folder")
    return folder


def _new_folder(folder: Path, mode: int) -> Path:
    """Create the folder and return its path, with `-2`, `-3`, ... added if folders of that name exist."""
    number, made = 1, folder
    while True:
        try:
            made.mkdir(mode, parents=True)
        except FileExistsError:
            number += 1
            made = folder.with_name(f"{folder.name}-{number}")
        else:
            return made


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Lock the folder while this process lives. Raises BadInput if another has locked it."""
    path = folder / LOCK
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


def is_locked(folder: Path | str) -> bool:
    """Return whether a process has locked the folder, since its run goes on there."""
    try:
        with (Path(folder) / LOCK).open() as handle:
            fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:  # The folder has no lock.
        return False
    return False


@contextmanager
def scratch() -> Iterator[Path]:
    """Yield a private scratch folder for Ray, agents and masters' journals, and remove it.

    What killed runs have left behind is removed first. If this process is killed, a watch process removes the
    folder and kills the processes that use it.
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
            sweep_leftovers()  # Some agents may have been killed during their cleanup.


def base_folder() -> Path:
    """Return the system's temporary folder or, if its path is long, /tmp: paths of Ray's sockets in it are limited."""
    base = Path(tempfile.gettempdir())
    return base if len(str(base)) <= LONGEST_BASE else Path("/tmp")


def make_scratch(base: Path) -> Path:
    """Create a private scratch folder in `base` and return its path. Its name contains the id of this process."""
    return Path(tempfile.mkdtemp(prefix=owned(), dir=base))


def owned(kind: str = "") -> str:
    """Return the prefix, with this process's id, by which `sweep` finds dead processes' temporary folders."""
    return f"{PREFIX}{os.getpid()}-{kind}"


def remove(folder: Path) -> None:
    """Remove a scratch folder. Processes that still use the folder after `SETTLE_S` seconds are killed."""
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
    """Return agents and Ray processes with the folder in their command line, and workers with files in it."""
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
    """Remove the temporary folders that dead processes of this user left in `base`. Return the removed folders."""
    swept = left_behind(base)
    for folder in swept:
        shutil.rmtree(folder, ignore_errors=True)
    return swept


def left_behind(base: Path) -> list[Path]:
    """Return the temporary folders that dead processes of this user left in `base`."""
    left = []
    for folder in sorted(base.glob(f"{PREFIX}*-*")):
        owner = folder.name[len(PREFIX) :].partition("-")[0]
        with suppress(FileNotFoundError):
            if owner.isdigit() and not psutil.pid_exists(int(owner)) and folder.stat().st_uid == os.getuid():
                left.append(folder)
    return left


# Private results, which only their owner can read.
#
# The option `--private` makes the results of a run private, and later commands keep them private.

FOLDER_MODE, FILE_MODE = 0o700, 0o600


def is_private(folder: Path) -> bool:
    """Return whether only its owner can enter the folder."""
    return not stat.S_IMODE(folder.stat().st_mode) & 0o077


def stay_private(folder: Path) -> None:
    """Remove the permissions of other users from all files in the folder, if the folder is private."""
    if not is_private(folder):
        return
    for path in folder.rglob("*"):
        if path.is_symlink():
            continue
        with suppress(FileNotFoundError):
            path.chmod(FOLDER_MODE if path.is_dir() else FILE_MODE)


@contextmanager
def token_file(path: Path, token: str | bytes) -> Iterator[Path]:
    """Yield a file with the token that only its owner can read, and remove it."""
    path.unlink(missing_ok=True)
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, FILE_MODE), "wb") as file:
        file.write(token.encode() if isinstance(token, str) else token)
    try:
        yield path
    finally:
        path.unlink(missing_ok=True)
