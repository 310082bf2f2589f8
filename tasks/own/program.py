"""The files of a user's application, which attempts read from the block store.

The driver (the process that runs a scenario) uploads the files, so that containers and other hosts can read
them, as from Hadoop's distributed cache. A job's parameter `files` lists each file with its digest. Each node
stores the files that its attempts have read, under their digests. The code runs only in attempts, or in child
processes of the driver (`tasks.own.child`).
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from schedbed.tasks.errors import BadInput

FILES = "files"
"""The parameter of a job that lists the files of its application."""
PROGRAMS = "/apps/"
"""The folder of application files in the block store."""
KEPT = "programs"
"""The folder of a node with copies of application files, named by digest."""


COMMANDS = ("mapper", "combiner", "reducer")
"""The parameters with the commands of a streaming job, in the order in which they run."""


def is_app_file(name: str) -> bool:
    """Return whether the name of an application refers to a class in a Python file, such as
    `my_app.py:Count`.
    """
    return name.endswith(".py") or ".py:" in name


@dataclass(frozen=True, slots=True)
class ProgramFile:
    """A file of a user's application.

    `name` is its path in the attempt's working folder, and `sha256` the digest of its content.
    """

    name: str
    sha256: str
    length: int
    executable: bool = False

    @property
    def path(self) -> str:
        """Return the path of the file in the block store. Files with equal content have the same path."""
        return f"{PROGRAMS}{self.sha256}"

    @staticmethod
    def of(name: str, real: Path) -> ProgramFile:
        """Return the description of the file at the path `real` on this host. Raises OSError if it cannot be
        read.

        `name` is the path that the file will have in the attempt's working folder.
        """
        data = real.read_bytes()
        executable = bool(real.stat().st_mode & 0o100)
        return ProgramFile(name, hashlib.sha256(data).hexdigest(), len(data), executable)


def files_to_json(files: Sequence[ProgramFile]) -> list[dict[str, Any]]:
    """Return the files as JSON values, as they are stored in a job's parameter `files`."""
    return [asdict(file) for file in files]


def files_of(params: Mapping[str, Any]) -> tuple[ProgramFile, ...]:
    """Return the application files in a job's parameters, or () if the job runs a shipped application."""
    return tuple(ProgramFile(**file) for file in params.get(FILES, ()))


def lay_out(files: Sequence[ProgramFile], folder: Path, read: Callable[[ProgramFile], bytes]) -> None:
    """Write the files into a folder, at their relative paths. `read` must return the content of a file.

    Raises BadInput if the content of a file has changed since the job was planned.
    """
    for file in files:
        data = read(file) if file.length else b""
        if hashlib.sha256(data).hexdigest() != file.sha256:
            raise BadInput(f"{file.name} has changed since the scenario was read: start the run again")
        target = folder / file.name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(data)
        if file.executable:
            target.chmod(0o755)


class NodeFiles:
    """A reader of application files on a node. It uses copies that earlier attempts have stored, or the block
    store.

    A copy is used only if its digest matches, so no attempt can give false code to another attempt.
    """

    def __init__(self, root: Path, fetch: Callable[[ProgramFile], bytes]) -> None:
        self._kept = root / KEPT
        self._fetch = fetch

    def read(self, file: ProgramFile) -> bytes:
        """Return the content of a file, from the node's copy or from the block store.

        Raises OSError if no replica can be read.
        """
        kept = self._kept / file.sha256
        with contextlib.suppress(OSError):
            data = kept.read_bytes()
            if hashlib.sha256(data).hexdigest() == file.sha256:
                return data
        data = self._fetch(file)
        # If attempts may not write to the folder, each attempt reads from the block store.
        with contextlib.suppress(OSError):
            self._kept.mkdir(exist_ok=True)
            aside = self._kept / f"{file.sha256}.{id(data):x}"
            aside.write_bytes(data)
            aside.rename(kept)
        return data
