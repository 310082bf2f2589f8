"""Users' own applications for tests: a class in a file, or commands, as a job's parameters and files."""

from __future__ import annotations

import shutil
import textwrap
from pathlib import Path
from typing import Any

from schedbed.tasks.attempt import run_on
from schedbed.tasks.own.class_source import PROGRAM, read_class
from schedbed.tasks.own.imported_files import with_imported
from schedbed.tasks.own.program import FILES, ProgramFile, files_to_json
from schedbed.tasks.specs import TaskKind
from tests.harness.memory_node import FakeCluster, a_spec, report_of


class OwnJob:
    """A job of a user's class `App`, or of commands, on a simulated cluster of one node in this process.

    `code` is the source of the class; without it, `params` describe the commands.
    """

    def __init__(self, folder: Path, data: bytes, code: str = "", **params: Any) -> None:
        self.root = folder / "node"
        self.root.mkdir(exist_ok=True)
        self.cluster = FakeCluster(self.root, data)
        self.app = "streaming"
        self.params: dict[str, Any] = {FILES: [], "task_timeout": 30.0, **params}
        if code:
            path = folder / "app.py"
            path.write_text(textwrap.dedent(code))
            self.app = f"{path}:App"
            self.params[PROGRAM] = read_class(path, "App").to_json()
            self.ship(*with_imported(path))

    def ship(self, *paths: Path) -> None:
        """Add files to the job's program files and to the block store."""
        for path in paths:
            file = ProgramFile.of(path.name, path)
            self.params[FILES] = [*self.params[FILES], *files_to_json([file])]
            self.cluster.files[file.path] = path.read_bytes()

    def run(self, reduces: int = 1, cuts: tuple[int, ...] = (), **changes: Any) -> list[bytes]:
        """Run the whole job, deleting map outputs of an earlier run; return the output parts in order."""
        shutil.rmtree(self.root / "mapout", ignore_errors=True)
        return self.cluster.job(self.app, cuts, reduces, self.params, **changes)

    def reason(self, **changes: Any) -> str:
        """Run one map that must fail, and return the reason in its report."""
        data = self.cluster.files["/in"]
        where = {"file": "/in", "length": len(data), "file_length": len(data)}
        spec = a_spec(TaskKind.MAP, app=self.app, params=self.params, **where, **changes)
        assert run_on(spec, self.cluster.node(), self.root, 0.0, 1.0) == 1
        report = report_of(self.root, spec)
        assert report["state"] == "failed"
        assert not list((self.root / "attempts" / spec.attempt).glob("work"))
        return report["reason"]
