"""The code blocks of README and docs, their languages, and the commands that no test of this folder runs.

`sh` and `console` blocks hold commands, `console` also what they print. `python`, `yaml`, `json` and `diff`
blocks hold code in these languages, `text` blocks are for people. A class goes to the file that the page
names as `FILE.py:Class`, a YAML block to the file that the sentence before it names.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
PAGES = [
    page
    for page in PAGES
    if not {"reference", "tour.md"} & set(page.parts) and not page.name.endswith(".template.md")
]  # The last two are made from the source.
LANGUAGES = {"sh", "console", "python", "yaml", "json", "diff", "text"}
BLOCK = re.compile(r"^(?P<indent> *)```(?P<language>[^\n`]*)\n(?P<text>.*?)^ *```$", re.MULTILINE | re.DOTALL)
CLASS = re.compile(r"^class (\w+)", re.MULTILINE)

NOT_RUN = {
    r"^(\./deploy/quickstart|\./tests/run|source )": "makes the environment in which the tests run",
    r"^jupyter ": "an editor; test_notebooks.py runs the notebooks",
    r"^pip install ": "installs packages; tests/live/test_installed.py does",
    r"--machines docker|^deploy/image/build|^docker ": "needs an engine; tests/live/test_docker.py",
    r"^(export RAY|ray )|--address": "needs hosts; tests/live/test_hosts.py emulates them",
    r"^schedbed run .*--(web|metrics) ": "a live run that serves a port; tests/live/test_pages_live.py does",
    r"^schedbed (up|submit|status|fault|down|kill)\b": "a live cluster; tests/live/test_pages_live.py runs them",
    r"^(schedbed users lab|export SCHEDBED)\b": "a live cluster with users; tests/live/test_up.py has a class",
    r"^(auth=|curl |export HADOOP|pyspark )": "needs a live cluster and a client of Hadoop",
    r"^schedbed doctor\b": "measures the host; tests/live/test_hostile.py, tests/deploy/doctor",
    r"^schedbed (reproduce|arena)\b": "minutes of simulations; tests/deploy/papers, tests/deploy/arena run small ones",
    r"^schedbed validate\b": "minutes of live runs; tests/deploy/simulated runs it on records",
    r"^(tests/bench/run|python -m tests\.bench|python tests/search)": "an hour, or a search without end",
}
"""Commands that are not run as they stand, with the reason."""
FRAGMENTS = {
    "def state(self)": "methods of a class that the page does not show",
    "def fig3(bench": "an outline of the two functions that the text explains",
    "webhdfs://127.0.0.1": "needs a live cluster",
    'lab = schedbed.connect("lab")': "a live cluster; tests/live/test_pages_live.py runs it",
}
"""Python blocks that are compiled but not run, by what they contain, with the reason."""


@dataclass(frozen=True, slots=True)
class Block:
    """A code block with its page, the text before it on the page, and its own text without indentation."""

    page: Path
    language: str
    before: str
    text: str

    @property
    def commands(self) -> list[str]:
        """Return the commands of a shell block without comments."""
        lines = self.text.splitlines()
        if self.language == "console":
            return [line.removeprefix("$ ") for line in lines if line.startswith("$ ")]
        return [
            part for line in lines for part in re.sub(r"(^| +)# .*$", "", line).split("; ") if part.strip()
        ]

    @property
    def file(self) -> str | None:
        """Return the name of the file in which the page tells a reader to save the block, or None."""
        if self.language == "yaml":
            named = re.findall(r"into `([\w-]+\.yaml)`", self.before.strip().rpartition("\n\n")[2])
            return named[-1] if named else None
        text = self.page.read_text(encoding="utf-8")
        for name in CLASS.findall(self.text):
            if found := re.search(rf"([\w/-]+\.py):{name}\b", text):
                return found[1]
        return None


def blocks_of(page: Path) -> Iterator[Block]:
    """Yield the blocks of a page in order."""
    text = page.read_text(encoding="utf-8")
    for found in BLOCK.finditer(text):
        indent = len(found["indent"])
        lines = (line[indent:] for line in found["text"].splitlines(keepends=True))
        yield Block(page, found["language"], text[: found.start()], "".join(lines))


def why_not_run(command: str) -> str | None:
    """Return why the tests do not run a command, or None if they do."""
    return next((reason for pattern, reason in NOT_RUN.items() if re.search(pattern, command)), None)
