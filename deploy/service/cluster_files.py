"""The private folder of each cluster of this user that stays up. It is locked while the cluster runs."""

from __future__ import annotations

import fcntl
import json
import os
import re
import shutil
import stat
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import IO

from schedbed.deploy.failures import RunFailed
from schedbed.tasks.errors import BadInput

NAMES = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}$")
LOOK_S = 1.0
RECORD, LOCK, LOG = "cluster.json", "lock", "log.txt"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterRecord:
    """The data of a running cluster for clients, in cluster.json, readable only to its owner for the token in it."""

    name: str
    pid: int
    url: str  # Address of the API on the loopback interface.
    token: str
    out: str  # Folder of the results.
    policy: str
    machines: str
    started: str  # ISO 8601
    failed: str = ""  # Why the cluster ended without `schedbed down`.
    doors: Mapping[str, str] = field(
        default_factory=dict
    )  # Addresses and token files of WebHDFS and metrics.


def home() -> Path:
    """Return the folder of this user's clusters. Raises BadInput if other users can access it."""
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    if runtime and Path(runtime).is_dir():
        folder = Path(runtime) / "schedbed"
    else:
        folder = Path(tempfile.gettempdir()) / f"schedbed-clusters-{os.getuid()}"
    with suppress(FileExistsError):
        folder.mkdir(mode=0o700)
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o077:
        raise BadInput(f"{folder}: expected a folder of this user that nobody else can read (chmod 700)")
    return folder


def check_name(name: str) -> str:
    """Return `name` if it is a valid name of a cluster. Raises BadInput otherwise."""
    if not NAMES.match(name):
        raise BadInput(f"--name {name}: expected letters, digits, dots, dashes and underscores")
    return name


@contextmanager
def claimed(name: str) -> Iterator[Path]:
    """Create and lock a new cluster's folder. Raises BadInput if a cluster with this name is up.

    At the end the folder is removed, unless a record in it says why the cluster failed.
    """
    folder = home() / check_name(name)
    handle, give_up_s = _lock(folder), time.monotonic() + LOOK_S
    while handle is None and time.monotonic() < give_up_s:  # A client holds the lock while it lists clusters.
        time.sleep(LOOK_S / 10)
        handle = _lock(folder)
    if handle is None:
        hint = f"expected another name (or first: schedbed down {name})"
        raise BadInput(f"--name {name}: a cluster of that name is up, {hint}")
    with handle:
        for left in (RECORD, LOG):
            (folder / left).unlink(missing_ok=True)
        try:
            yield folder
        finally:
            record = read_record(folder)
            if record is None or not record.failed:
                _remove(folder, record)


def _lock(folder: Path) -> IO[str] | None:
    """Create and lock a folder until the file is closed. Return None if another process holds the lock."""
    while True:
        folder.mkdir(mode=0o700, exist_ok=True)
        path = folder / LOCK
        try:
            handle = path.open("w")
        except FileNotFoundError:  # Its last owner has just removed the folder.
            continue
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            handle.close()
            return None
        with suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(handle.fileno()), path.stat()):
                return handle
        handle.close()


def _remove(folder: Path, record: ClusterRecord | None) -> None:
    """Remove the folder of an ended cluster, but keep its log with its results, if there is a record."""
    if record is not None:
        with suppress(OSError):
            shutil.copyfile(folder / LOG, Path(record.out) / LOG)
    shutil.rmtree(folder, ignore_errors=True)
    with suppress(OSError):
        folder.parent.rmdir()


def write_record(folder: Path, record: ClusterRecord) -> None:
    """Replace the file cluster.json in one step, so that a reader sees all of the file or none."""
    temporary = folder / f".{RECORD}"
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        json.dump(asdict(record), file)
    temporary.replace(folder / RECORD)


def read_record(folder: Path) -> ClusterRecord | None:
    """Return cluster.json, or None if unreadable or missing: while the cluster starts, and if that failed."""
    try:
        raw = json.loads((folder / RECORD).read_text(encoding="utf-8"))
        return ClusterRecord(**{field.name: raw[field.name] for field in fields(ClusterRecord)})
    except (OSError, ValueError, KeyError, TypeError):
        return None


def mark_failed(folder: Path, why: str) -> None:
    """Store in the cluster's record why the cluster failed, so that the next client can show the reason."""
    record = read_record(folder)
    if record is not None:
        write_record(folder, replace(record, failed=why))


def clusters() -> tuple[dict[str, ClusterRecord], dict[str, str]]:
    """Return the clusters that are up, and why others failed or were killed, by name; remove the latter's files."""
    up: dict[str, ClusterRecord] = {}
    gone: dict[str, str] = {}
    for folder in sorted(each for each in home().iterdir() if each.is_dir()):
        handle = _lock(folder)
        record = read_record(folder)
        if handle is None:
            if record is not None:
                up[record.name] = record
            continue
        with handle:
            if record is not None:
                gone[record.name] = _obituary(record)
            _remove(folder, record)
    with suppress(OSError):
        home().rmdir()
    return up, gone


def _obituary(record: ClusterRecord) -> str:
    why = record.failed or f"its process {record.pid} was killed"
    return f"cluster {record.name} is gone: {why}; what it measured: schedbed report {record.out}"


def find(name: str | None) -> ClusterRecord:
    """Return this cluster's record, or that of the only one. Raises BadInput if missing, RunFailed if it failed."""
    up, gone = clusters()
    if name is None and len(up) == 1:
        return next(iter(up.values()))
    if name in up:
        return up[name]
    told = [line for each, line in gone.items() if name in (None, each)]
    if told:
        raise RunFailed("\n".join(told))
    if name is not None:
        others = f"expected one of {', '.join(up)}" if up else "nor any other"
        raise BadInput(f"no cluster {name!r} is up, {others}")
    if up:
        raise BadInput(f"several clusters are up, expected the name of one: {', '.join(up)}")
    raise BadInput("no cluster is up, start one: schedbed up SCENARIO.yaml")


def has_ended(record: ClusterRecord) -> bool:
    """Return whether the process that runs the cluster has ended, for any reason."""
    folder = home() / record.name
    known = read_record(folder)
    if known is None or known.token != record.token:
        return True
    try:
        with (folder / LOCK).open("r+") as handle:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except FileNotFoundError:
        pass
    return True
