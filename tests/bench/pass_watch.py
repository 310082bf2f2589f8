"""Let each process of a run record when something passes a point in the code, without any code for that in
the product.

Python code names the points. Its dictionary PATCHES maps module names to functions `patch(module)`, which are
called right after the import of the module. In such a function, `before(owner, name, point, what)` patches a
function: each call writes a line for each element of `what(*arguments)`. `passed(point, what)` writes one
line at once.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

FOLDER = "SCHEDBED_BENCH_PASSES"
MACHINERY = f"""
import os, sys, time


def passed(point, what):
    path = os.path.join(os.environ["{FOLDER}"], str(os.getpid()))
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666)
    os.write(file, (point + "\\t" + what + "\\t" + str(time.time()) + "\\n").encode())
    os.close(file)


def before(owner, name, point, what):
    called = getattr(owner, name)

    def replacement(*given, **named):
        for each in what(*given):
            passed(point, each)
        return called(*given, **named)

    setattr(owner, name, replacement)


class Patcher:
    def find_spec(self, name, path=None, target=None):
        if name not in PATCHES:
            return None
        others = (each.find_spec(name, path, target) for each in sys.meta_path if each is not self)
        found = next(filter(None, others))
        execute = found.loader.exec_module

        def exec_module(module):
            execute(module)
            PATCHES[name](module)

        found.loader.exec_module = exec_module
        return found


if "{FOLDER}" in os.environ:
    sys.meta_path.insert(0, Patcher())
"""


@dataclass(frozen=True, slots=True)
class PassWatch:
    """The lines written by processes that were started with the variables `environment`."""

    said: Path
    environment: dict[str, str]

    @classmethod
    def begin(cls, base: Path, points: str) -> PassWatch:
        """Prepare the folder `base` for the lines and the patches.

        The code `points` names the points to watch. Attempts, which may run as other users, may write into
        the folder.
        """
        base.chmod(0o755)
        said, custom = base / "said", base / "custom"
        said.mkdir()
        said.chmod(0o1777)
        custom.mkdir()
        (custom / "sitecustomize.py").write_text(points + MACHINERY)
        path = os.pathsep.join([str(custom), *filter(None, [os.environ.get("PYTHONPATH")])])
        return cls(said, {**os.environ, "PYTHONPATH": path, FOLDER: str(said)})

    def passes(self, pid: int | None = None) -> Iterator[tuple[str, str, float]]:
        """Yield the lines of the process `pid`, or of all processes, in order for each.

        A line is a point, what passed it, and the time in seconds since 1970.
        """
        for file in sorted(self.said.iterdir()) if pid is None else [self.said / str(pid)]:
            for line in file.read_text().splitlines():
                point, what, at_s = line.split("\t")
                yield point, what, float(at_s)
