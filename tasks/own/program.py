"""The files of a user's application, which attempts read from the block store.

The driver uploads them for containers and other hosts, as with Hadoop's distributed cache. A job's parameter
`files` lists them with digests, under which nodes keep those that attempts read. Code runs only in attempts,
or in children of the driver (`tasks.own.child`).
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
    """Return whether the name of an application refers to a class in a Python file, such as `my_app.py:Count`."""
    return name.endswith(".py") or ".py:" in name


@dataclass(frozen=True, slots=True)
class ProgramFile:
    """A file at the path `name` in the attempt's working folder."""

    name: str
    sha256: str
    length: int
    executable: bool = False

    @property
    def path(self) -> str:
        """Return the path in the block store, equal for equal content."""
        return f"{PROGRAMS}{self.sha256}"

    @staticmethod
    def of(name: str, real: Path) -> ProgramFile:
        """Describe the file `real` of this host under `name`. Raises OSError."""
        data = real.read_bytes()
        executable = bool(real.stat().st_mode & 0o100)
        return ProgramFile(name, hashlib.sha256(data).hexdigest(), len(data), executable)


def files_to_json(files: Sequence[ProgramFile]) -> list[dict[str, Any]]:
    """Return the files as in a job's parameter `files`."""
    return [asdict(file) for file in files]


def files_of(params: Mapping[str, Any]) -> tuple[ProgramFile, ...]:
    """Return a job's application files, none for a shipped one."""
    return tuple(ProgramFile(**file) for file in params.get(FILES, ()))


def lay_out(files: Sequence[ProgramFile], folder: Path, read: Callable[[ProgramFile], bytes]) -> None:
    """Write the files into a folder. Raises BadInput for content that changed since the job was planned."""
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
    """Reads application files from copies of earlier attempts, or the block store.

    A copy's digest must match, so that no attempt can give false code to another.
    """

    def __init__(self, root: Path, fetch: Callable[[ProgramFile], bytes]) -> None:
        self._kept = root / KEPT
        self._fetch = fetch

    def read(self, file: ProgramFile) -> bytes:
        """Return the content, from the node's copy or the block store. Raises OSError."""
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
