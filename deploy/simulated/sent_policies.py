"""Users' policy files that are sent to another host, with the files beside them that they import."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from schedbed.scheduler.registry.policy_spec import parse_spec
from schedbed.scheduler.registry.registry import AXES
from schedbed.scheduler.registry.user_file import is_policy_file

Contents = dict[str, str]
"""The content of files by their path below the policy's folder. Each character stands for one byte."""


def file_of(given: Any) -> Path | None:
    """Return the path of the user's file in a policy's SPEC or mapping, or None for a shipped policy."""
    name = parse_spec(given, tuple(AXES)).name
    return Path(name.rpartition(":")[0] if ".py:" in name else name) if is_policy_file(name) else None


def contents_of(path: Path) -> Contents:
    """Return the content of a user's policy file and of the files beside it that it imports.

    Files that these files import in turn are included. Raises OSError if a file cannot be read.
    """
    found: Contents = {}
    waiting = [path]
    while waiting:
        file = waiting.pop()
        name = str(file.relative_to(path.parent))
        if name not in found:
            data = file.read_bytes()
            found[name] = data.decode("latin-1")
            waiting += [beside for top in _imports(data) for beside in _files(path.parent, top)]
    return found


def moved_to(folder: Path, given: Any, contents: Contents) -> Any:
    """Write a user's policy file, and those that it imports, into the folder, which is created.

    Return a copy of the policy's SPEC or mapping `given` with the path of the file there.
    """
    for name, text in contents.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode("latin-1"))
    file = file_of(given)
    assert file is not None
    before, after = str(file), folder / file.name
    if isinstance(given, str):
        return f"{after}{given.strip().removeprefix(before)}"
    return {f"{after}{name.removeprefix(before)}": parameters for name, parameters in given.items()}


def _imports(source: bytes) -> Iterator[str]:
    """Yield the first parts of the names of modules that the source code may import."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError):  # The import of the policy reports the error.
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module.partition(".")[0]
        elif isinstance(node, ast.ImportFrom):
            yield from (alias.name for alias in node.names)


def _files(folder: Path, top: str) -> list[Path]:
    """Return the files of the module or package `top` in the folder, or an empty list."""
    if (folder / f"{top}.py").is_file():
        return [folder / f"{top}.py"]
    return sorted((folder / top).rglob("*.py")) if (folder / top / "__init__.py").is_file() else []
