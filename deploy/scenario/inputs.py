"""The input files of a scenario's jobs. Jobs that read the same data share one file."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import cached_property
from operator import attrgetter
from pathlib import Path

from schedbed.cluster.spec import ClusterSpec
from schedbed.deploy.scenario.check import Complaints
from schedbed.deploy.scenario.models import Generate, JobModel, Scenario
from schedbed.deploy.scenario.yaml_file import KeyPath
from schedbed.tasks.appkit.app import App
from schedbed.tasks.appkit.app_catalogue import KINDS
from schedbed.tasks.own.program import ProgramFile
from schedbed.tasks.plain_file import is_plain_file
from schedbed.tasks.specs import NodeId
from schedbed.tasks.workloads.planned import InputFile, cut

BLOCKS_MAX = 100_000
_RECORD_BYTES = 100


def filler_path(job: str) -> str:
    """Return the block-store path of the generated input of a synthetic job."""
    return f"/in/{job}.filler"


@dataclass
class JobInputs:
    """The data needed to plan jobs, and the input files of the jobs planned so far.

    `files` is a dictionary from block-store path to file. `known` is a dictionary from a description of a
    file's content to the file's path, so that jobs with the same input share a file.
    """

    scenario: Scenario
    cluster: ClusterSpec
    base: Path
    complaints: Complaints
    files: dict[str, InputFile] = field(default_factory=dict)
    known: dict[tuple[object, ...], str] = field(default_factory=dict)

    @cached_property
    def memory_share_bytes(self) -> int:
        """Return the default memory of a task in bytes, which is the least memory per slot of any node."""
        return min(
            node.memory_bytes // max(1, node.map_slots + node.reduce_slots) for node in self.cluster.nodes
        )

    @cached_property
    def largest(self) -> dict[str, tuple[int, float] | None]:
        """Return the most memory in bytes and cores of any node with `map_slots` and with `reduce_slots`, or None."""
        found: dict[str, tuple[int, float] | None] = {}
        for slots in ("map_slots", "reduce_slots"):
            nodes = [*filter(attrgetter(slots), self.cluster.nodes)]
            found[slots] = (
                (max(node.memory_bytes for node in nodes), max(node.cores for node in nodes))
                if nodes
                else None
            )
        return found

    def of_job(self, job: JobModel, app: App, path: KeyPath) -> str | None:
        """Return the block-store path of a job's input, shared by equal inputs.

        Return None without an input, or after an error, which is added to `complaints` for `path`.
        """
        if job.input is None:
            if app.input != "none" and app.name != "synthetic":
                kind = app.input if app.input in KINDS else "text"
                hint = f"a file or {{generate: {kind}, size: 1GiB}}"
                self.complaints.add(path, f"{app.name} needs an input: {hint}")
            return None
        if app.input == "none" and app.name != "synthetic":
            self.complaints.add((*path, "input"), f"{app.name} reads no input")
            return None
        if isinstance(job.input, Generate):
            return self._generated(job.input, app, (*path, "input"))
        return self._real(job.input, app, (*path, "input"))

    def filler(
        self, job: str, blocks: tuple[int, ...], preferred: tuple[tuple[NodeId, ...], ...] | None = None
    ) -> str:
        """Add a synthetic job's input, with a block per map, and nodes preferred per block. Return its path."""
        path = filler_path(job)
        self.files[path] = InputFile(path=path, source="filler", blocks=blocks, preferred=preferred)
        return path

    def shared_filler(self, name: str, blocks: tuple[int, ...]) -> str:
        """Add an input that several synthetic jobs read, named as in the trace. Return its path."""
        path = self._free_path(name.strip("/"))
        self.files[path] = InputFile(path=path, source="filler", blocks=blocks)
        return path

    def program(self, file: ProgramFile, real: Path, path: KeyPath) -> None:
        """Register a code file of a user's application as an input, which attempts read from the block store."""
        if file.length and self._cuttable(file.length, path):
            blocks = cut(file.length, self.cluster.blocks.size_bytes)
            self.files[file.path] = InputFile(
                path=file.path, source="file", real_path=str(real), blocks=blocks
            )

    def _generated(self, asked: Generate, app: App, path: KeyPath) -> str | None:
        if app.input in KINDS and app.input not in ("text", asked.generate):
            self.complaints.add((*path, "generate"), f"{app.name} reads {app.input}, not {asked.generate}")
        seed = self.scenario.seed if asked.seed is None else asked.seed
        length = self._scaled(asked.size)
        if asked.generate == "records":
            length -= length % _RECORD_BYTES
        if length <= 0:
            self.complaints.add(
                (*path, "size"), f"nothing is left of {asked.size} bytes at scale {self.scenario.scale:g}"
            )
            return None
        key = ("generate", asked.generate, length, seed)
        if key not in self.known and self._cuttable(length, path):
            store = self._free_path(f"{asked.generate}-{length}-{seed}")
            blocks = cut(length, self.cluster.blocks.size_bytes)
            self.files[store] = InputFile(
                path=store, source="generate", generate=asked.generate, seed=seed, blocks=blocks
            )
            self.known[key] = store
        return self.known.get(key)

    def _scaled(self, size_bytes: int) -> int:
        """Return a generated input's scaled size.

        It never has more blocks than unscaled: by rounding, a map without work could be added.
        """
        count = -(-size_bytes // self.scenario.blocks.size)
        return min(round(size_bytes * self.scenario.scale), count * self.cluster.blocks.size_bytes)

    def _real(self, name: str, app: App, path: KeyPath) -> str | None:
        real, length, changed_ns = self._real_length(name, path)
        if length is None:
            return None
        if app.input == "records" and length % _RECORD_BYTES:
            message = f"{name} has {length} bytes, {app.name} reads whole records of {_RECORD_BYTES}"
            self.complaints.add(path, message)
        key = ("file", str(real), length, changed_ns)
        if key not in self.known and self._cuttable(length, path):
            store = self._free_path(real.name)
            blocks = cut(length, self.cluster.blocks.size_bytes)
            self.files[store] = InputFile(path=store, source="file", real_path=str(real), blocks=blocks)
            self.known[key] = store
        return self.known.get(key)

    def _real_length(self, name: str, path: KeyPath) -> tuple[Path, int | None, int]:
        """Return a file's absolute path, size in bytes and modification time in ns.

        The size is None if it is empty or cannot be read, an error that is added to `complaints`.
        """
        length, changed_ns = None, 0
        try:
            real = (self.base / Path(name).expanduser()).resolve()
            if is_plain_file(real):
                length, changed_ns = real.stat().st_size, real.stat().st_mtime_ns
        except (OSError, ValueError, RuntimeError):
            real = Path(name)
        if not length:
            what = "is empty" if length == 0 else "is no file that can be read"
            self.complaints.add(path, f"{name!r} {what} (looked for {real})")
        return real, length or None, changed_ns

    def _cuttable(self, length: int, path: KeyPath) -> bool:
        count = -(-length // self.cluster.blocks.size_bytes)
        if count > BLOCKS_MAX:
            message = (
                f"would be cut into {count} blocks, at most {BLOCKS_MAX} are possible: raise blocks.size"
            )
            self.complaints.add(path, message)
        return count <= BLOCKS_MAX

    def _free_path(self, name: str) -> str:
        plain = re.sub(r"[^A-Za-z0-9._-]", "_", name).lstrip(".") or "input"
        path, number = f"/in/{plain}", 1
        while path in self.files:
            number += 1
            path = f"/in/{number}-{plain}"
        return path
