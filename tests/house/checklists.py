"""The checklists of CONTRIBUTING.md as data: each section's new files and edits, which are applied to a copy
of the tree.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).parents[2]
PRODUCT = ("tasks", "cluster", "scheduler", "deploy", "src")
_BLOCK = re.compile(
    r"(?:^`(?P<file>[^`\n]+)`:\n\n)?^```(?P<kind>python|diff)\n(?P<text>.*?)^```$", re.M | re.S
)


@dataclass(slots=True)
class Checklist:
    """A section of CONTRIBUTING.md: `new` maps new files to their texts, `edits` existing files to their
    edits.
    """

    new: dict[str, str] = field(default_factory=dict)
    edits: dict[str, list[str]] = field(default_factory=dict)

    @property
    def product_files(self) -> set[str]:
        """Return the product's files that the section creates or edits."""
        return {name for name in (*self.new, *self.edits) if name.split("/")[0] in PRODUCT}


def checklists() -> dict[str, Checklist]:
    """Return a dictionary from the titles of CONTRIBUTING.md's sections to their checklists."""
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    _, *sections = re.split(r"^## ", text, flags=re.M)
    return {section.split("\n")[0]: _read(section) for section in sections}


def _read(section: str) -> Checklist:
    found, name = Checklist(), ""
    for block in _BLOCK.finditer(section):
        name = block["file"] or name  # a second edit of the same file does not name the file again
        if block["kind"] == "python":
            found.new[name] = block["text"]
        else:
            found.edits.setdefault(name, []).append(block["text"])
    return found


def copy_product(target: Path) -> None:
    """Copy the product's files, except those that git ignores, to `target`. Copy links as links."""
    listed = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "--", *PRODUCT]
    names = subprocess.run(listed, cwd=ROOT, check=True, capture_output=True, text=True).stdout.splitlines()
    for name in names:
        source, copy = ROOT / name, target / name
        if source.is_symlink() or source.is_file():  # not one that is deleted, but not yet in git
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, copy, follow_symlinks=False)


def apply(checklist: Checklist, tree: Path) -> None:
    """Create the new files and make the edits of a checklist in the folder `tree`.

    Raise ValueError if a new file exists already, or if the text of an edit is not in the file exactly once.
    """
    for name, text in checklist.new.items():
        if (tree / name).exists():
            raise ValueError(f"{name} is there already")
        (tree / name).write_text(text, encoding="utf-8")
    for name, edits in checklist.edits.items():
        text = (tree / name).read_text(encoding="utf-8")
        for edit in edits:
            lines = edit.splitlines(keepends=True)
            before = "".join(line[1:] for line in lines if not line.startswith("+"))
            after = "".join(line[1:] or "\n" for line in lines)
            if text.count(before) != 1:
                raise ValueError(f"{name} has {text.count(before)} places for this edit:\n{before}")
            text = text.replace(before, after)
        (tree / name).write_text(text, encoding="utf-8")
