"""Access to the outputs of jobs in the block store, to copy them or to check whether they are right."""

from __future__ import annotations

import asyncio
import shutil
import zlib
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from schedbed.cluster.blocks.loader import fetch_file
from schedbed.cluster.masters import NameNodeDoor
from schedbed.cluster.wire.tls import Tls
from schedbed.tasks.appkit.app_catalogue import app_of, check_output
from schedbed.tasks.appkit.part_files import Ran
from schedbed.tasks.errors import BadInput
from schedbed.tasks.own.child import Apart, how_code_runs
from schedbed.tasks.own.class_source import class_of
from schedbed.tasks.own.judge import judge
from schedbed.tasks.own.program import ProgramFile, files_of, lay_out
from schedbed.tasks.specs import NodeId
from schedbed.tasks.workloads.planned import PlannedJob

PIECE_BYTES = 4 * 2**20
NAME_MAX = 200


def outputs_folder(folder: Path, policy: str, repeat: int) -> Path:
    """Return `outputs/<policy>/<repeat>`, or with a file's name and checksum if the policy leads away or is long."""
    name = policy
    leads_away = policy.startswith("/") or not {"", ".", ".."}.isdisjoint(policy.split("/"))
    if leads_away or len(policy.encode()) > NAME_MAX:
        plain = policy.rpartition("/")[2].encode()[:100].decode(errors="ignore")
        name = f"{plain}-{zlib.crc32(policy.encode()):08x}"
    return folder / "outputs" / name / str(repeat)


def has_own_check(job: PlannedJob) -> bool:
    """Return whether the job's application is a user's class with a check."""
    return (source := class_of(job.params)) is not None and source.has("check")


class Outputs:
    """Reads files in the block store, on the command's host. `peers` has the agents' current URLs.

    Users' checks run by `apart`, or in a child process.
    """

    def __init__(
        self,
        name_node: NameNodeDoor,
        peers: Mapping[NodeId, str],
        token: str,
        tls: Tls | None = None,
        apart: Apart | None = None,
    ) -> None:
        self._name_node = name_node
        self._peers = peers
        self._token = token
        self._tls = tls
        self._apart = apart

    def save(self, jobs: Iterable[PlannedJob], folder: Path) -> None:
        """Copy the jobs' committed outputs to `folder`/<job>/part-NNNNN."""
        for job in jobs:
            asyncio.run(self._copy_parts(job.job, folder / job.job))

    def check(self, jobs: Iterable[PlannedJob], scratch: Path) -> list[str]:
        """Return a line for each job whose output is wrong, of those with a check."""
        wrong = []
        for job in jobs:
            if app_of(job).check is not None or has_own_check(job):
                problem = self._problem(job, scratch / job.job)
                if problem is not None:
                    wrong.append(f"{job.job} {job.name}: wrong output: {problem}")
        return wrong

    def _problem(self, job: PlannedJob, folder: Path) -> str | None:
        if job.input is not None:
            asyncio.run(self._copy(job.input, folder / "input"))
        asyncio.run(self._copy_parts(job.job, folder))
        try:
            parts = sorted(folder.glob("part-*"))
            if class_of(job.params) is not None:
                return self._judged(job, folder, parts)
            data = _pieces(folder / "input") if job.input is not None else ()
            ran = Ran(app_of(job).params(job.params), job.maps)
            return check_output(job.app, ran, data, [_pieces(part) for part in parts])
        finally:
            shutil.rmtree(folder)

    def _judged(self, job: PlannedJob, folder: Path, parts: Sequence[Path]) -> str | None:
        """Check an output by the user's class, in a separate process. Return the error, or None."""
        source = class_of(job.params)
        assert source is not None
        for file in files_of(job.params):
            if file.length:
                asyncio.run(self._copy(file.path, folder / "stored" / file.sha256))

        def read(file: ProgramFile) -> bytes:
            return (folder / "stored" / file.sha256).read_bytes()

        try:
            lay_out(files_of(job.params), folder / "program", read)
            data = folder / "input" if job.input is not None else None
            where = "in a container" if self._apart else how_code_runs("it", "--no-check leaves it out")
            print(f"{job.app}: its check runs {where}")
            params = app_of(job).params(job.params)
            return judge(source, params, folder / "program", data, parts, self._apart)
        except BadInput as error:
            return f"its check failed: {error}"

    async def parts(self, job: str) -> dict[str, int]:
        """Return {name: bytes} of a job's output files. Raises PathNotFound."""
        entries = await self._name_node.list(f"/out/{job}")
        return {entry["name"]: entry["length"] for entry in entries if entry["name"].startswith("part-")}

    async def read(self, path: str) -> AsyncIterator[bytes]:
        """Yield the content of a file of the block store in pieces. Raises BlockStoreError if that fails."""
        blocks = await self._name_node.locate(path)
        async for piece in fetch_file(blocks, self._peers, self._token, self._tls):
            yield piece

    async def _copy_parts(self, job: str, folder: Path) -> None:
        for name in await self.parts(job):
            await self._copy(f"/out/{job}/{name}", folder / name)

    async def _copy(self, path: str, target: Path) -> None:
        target.parent.mkdir(parents=True, exist_ok=True)
        with target.open("wb") as out:
            async for piece in self.read(path):
                out.write(piece)


def _pieces(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        while piece := file.read(PIECE_BYTES):
            yield piece
