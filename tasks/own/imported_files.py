"""Search for the files that a Python file imports from its folder, directly or indirectly, without running them."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path


def with_imported(file: Path) -> list[Path]:
    """Return the file and all of its folder that it imports, also indirectly; packages as a whole.

    Not found are imports by computed names, and by files that cannot be parsed. Raises OSError.
    """
    folder, found, todo = file.parent, dict[Path, None](), [file]
    while todo:
        path = todo.pop()
        if path not in found:
            found[path] = None
            todo.extend(_imports(path, folder))
    return sorted(found, key=lambda path: (path != file, path))


def _imports(file: Path, folder: Path) -> Iterator[Path]:
    if file.suffix != ".py":
        return
    try:
        tree = ast.parse(file.read_bytes())
    except (SyntaxError, ValueError, RecursionError):
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            # A relative import stays within its package, which is included as a whole.
            names = [node.module] if node.module and not node.level else []
        else:
            continue
        for name in names:
            yield from _module(folder, name.partition(".")[0])


def _module(folder: Path, name: str) -> Iterator[Path]:
    if name == "schedbed":
        return
    if (folder / name / "__init__.py").is_file():
        for path in sorted((folder / name).rglob("*")):
            if path.is_file() and "__pycache__" not in path.parts:
                yield path
    elif (folder / f"{name}.py").is_file():
        yield folder / f"{name}.py"
