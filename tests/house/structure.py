"""The structure of the production code in numbers: `python -m tests.house.structure` prints the report.

`test_rooms` asserts on the same functions, so that the report and the tests agree.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from statistics import median

ROOT = Path(__file__).parents[2]
ROOMS = ("tasks", "cluster", "scheduler", "deploy")
PACKAGE = "schedbed"
FOLDER_MODULES = 20


@dataclass(frozen=True, slots=True)
class Sizes:
    """The sizes of files or functions in lines: their number, total and median, and the longest with its
    name.
    """

    count: int
    lines: int
    median: float
    longest: int
    where: str


@cache
def modules() -> tuple[Path, ...]:
    """Return the paths of the production modules in order, `__init__` files included."""
    return tuple(sorted(path for room in ROOMS for path in (ROOT / room).rglob("*.py")))


def kernel() -> tuple[Path, ...]:
    """Return the modules that `tests/house/kernel.txt` lists; none if there is no such file.

    Raises FileNotFoundError if a listed module does not exist.
    """
    listed = ROOT / "tests" / "house" / "kernel.txt"
    text = listed.read_text() if listed.is_file() else ""
    found: list[Path] = []
    folder = ROOT
    for word in text.partition("\n\n")[2].split():
        if word.endswith("/"):
            folder = ROOT / word
        else:
            found.append((folder / f"{word}.py").resolve(strict=True))
    return tuple(found)


def kernel_lines() -> int:
    """Return the number of lines of the kernel's modules."""
    return sum(path.read_text().count("\n") for path in kernel())


def name_of(path: Path) -> str:
    """Return the path relative to the project's root."""
    return str(path.relative_to(ROOT))


@cache
def tree_of(path: Path) -> ast.Module:
    """Return the module's syntax tree."""
    return ast.parse(path.read_text())


@cache
def statements(path: Path) -> tuple[ast.AST, ...]:
    """Return all statements of the module, those in functions included.

    There are twenty times fewer than nodes of the syntax tree, since expressions are left out.
    """
    found: list[ast.AST] = [tree_of(path)]
    for node in found:  # which grows meanwhile
        for block in ("body", "orelse", "finalbody", "handlers", "cases"):
            inner = getattr(node, block, None)
            if isinstance(inner, list):
                found += inner
    return tuple(found)


def crowded_folders() -> dict[str, int]:
    """Return the folders that have more than `FOLDER_MODULES` modules besides `__init__`, with the number of
    modules.
    """
    counts: dict[str, int] = defaultdict(int)
    for path in modules():
        if path.name != "__init__.py":
            counts[name_of(path.parent)] += 1
    return {folder: count for folder, count in counts.items() if count > FOLDER_MODULES}


def shared_prefixes() -> dict[str, list[str]]:
    """Return groups of three or more modules in one folder whose names begin with the same word, by
    FOLDER/WORD.
    """
    found: dict[str, list[str]] = defaultdict(list)
    for path in modules():
        if path.name != "__init__.py":
            found[f"{name_of(path.parent)}/{path.stem.partition('_')[0]}"].append(path.stem)
    return {place: names for place, names in found.items() if len(names) > 2}


def repeated_modules() -> dict[str, list[str]]:
    """Return the names that several modules share, with the modules' paths."""
    return _repeated((path.stem, name_of(path)) for path in modules() if path.name != "__init__.py")


def repeated_classes() -> dict[str, list[str]]:
    """Return the names that several top-level classes share, with the files that define them."""
    return _repeated(
        (node.name, name_of(path))
        for path in modules()
        for node in tree_of(path).body
        if isinstance(node, ast.ClassDef)
    )


def _repeated(pairs: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
    places: dict[str, list[str]] = defaultdict(list)
    for name, place in pairs:
        places[name].append(place)
    return {name: found for name, found in places.items() if len(found) > 1}


@cache
def imported(path: Path) -> frozenset[Path]:
    """Return the production files that a file imports, also in functions and for type checking."""
    found: set[Path] = set()
    for node in statements(path):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
        else:
            continue
        for name in names:
            found.update(_files_of(ROOT, name))
    return frozenset(found - {path})


@cache
def _files_of(root: Path, name: str) -> tuple[Path, ...]:
    package, *parts = name.split(".")
    if package != PACKAGE or not parts or parts[0] not in ROOMS:
        return ()
    base = root.joinpath(*parts)
    return tuple(file for file in (base.with_suffix(".py"), base / "__init__.py") if file.is_file())


def circles() -> list[list[str]]:
    """Return the groups of two or more files that import each other in a circle (strongly connected
    components).
    """
    left = set(modules())
    while free := {path for path in left if not imported(path) & left}:
        left -= free
    reach = {path: _reach(path) for path in left}
    groups = {
        tuple(sorted(name_of(other) for other in reach[path] & left if path in reach[other])) for path in left
    }
    return sorted(list(group) for group in groups if len(group) > 1)


def _reach(path: Path) -> set[Path]:
    seen: set[Path] = set()
    todo = [path]
    while todo:
        for other in imported(todo.pop()) - seen:
            seen.add(other)
            todo.append(other)
    return seen


def file_sizes() -> Sizes:
    """Return the sizes of the production files."""
    return _sizes((path.read_text().count("\n"), name_of(path)) for path in modules())


def function_sizes() -> Sizes:
    """Return the sizes of the production functions and methods, including nested functions."""
    return _sizes(
        ((node.end_lineno or node.lineno) - node.lineno + 1, f"{name_of(path)}:{node.name}")
        for path in modules()
        for node in statements(path)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    )


def _sizes(found: Iterable[tuple[int, str]]) -> Sizes:
    pairs = list(found)
    lines = [size for size, _ in pairs]
    longest, where = max(pairs)
    return Sizes(len(pairs), sum(lines), median(lines), longest, where)


def report() -> str:
    """Return the report as text, with one figure a line."""
    files, functions = file_sizes(), function_sizes()
    rows = [
        ("kernel", f"{len(kernel())} files, {kernel_lines()} lines"),
        ("files", f"{files.count}, {files.lines} lines"),
        ("median file", f"{files.median:g} lines"),
        ("longest file", f"{files.longest} lines ({files.where})"),
        ("functions", f"{functions.count}"),
        ("median function", f"{functions.median:g} lines"),
        ("longest function", f"{functions.longest} lines ({functions.where})"),
        (f"folders above {FOLDER_MODULES} modules", _listed(crowded_folders())),
        ("three siblings with one prefix", _listed(shared_prefixes())),
        ("circles of imports", _listed(["; ".join(group) for group in circles()])),
        ("module names for two things", _listed(repeated_modules())),
        ("class names for two things", _listed(repeated_classes())),
    ]
    return "\n".join(f"{name:32} {value}" for name, value in rows)


def _listed(found: Iterable[str]) -> str:
    names = list(found)
    return f"{len(names)}" + (f": {', '.join(names)}" if names else "")


if __name__ == "__main__":
    print(report())
