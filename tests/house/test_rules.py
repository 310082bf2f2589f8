"""The rules of this code base as tests: which file may import what, and how large files may be."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

from tests.house.checklists import checklists
from tests.house.structure import tree_of

ROOT = Path(__file__).parents[2]
ROOMS = ("tasks", "cluster", "scheduler", "deploy")
BELOW = {room: set(ROOMS[: number + 1]) for number, room in enumerate(ROOMS)}
IMPURE = {
    "ray",
    "docker",
    "time",
    "datetime",
    "uuid",
    "os",
    "subprocess",
    "socket",
    "threading",
    "asyncio",
    "random",
}
PURE = [
    "scheduler/core/core.py",
    "scheduler/view.py",
    "scheduler/policy.py",
    "scheduler/driver.py",
    "scheduler/assignment.py",
    "cluster/tracker.py",
    "cluster/messages.py",
    "cluster/spec.py",
    "cluster/faults.py",
    "cluster/conditions.py",
    "cluster/fault_plan.py",
    "cluster/blocks/namespace.py",
    "cluster/blocks/blockmap.py",
    "cluster/blocks/placement.py",
    "cluster/blocks/replication.py",
    *(
        str(path.relative_to(ROOT))
        for folder in ("order", "locality", "admission", "policies", "models")
        for path in sorted((ROOT / "scheduler" / folder).glob("*.py"))
    ),
]
CHANCE = "tasks/chance.py"  # holds the one import of random; what uses it passes a seed
FILES = sorted(path for room in ROOMS for path in (ROOT / room).rglob("*.py"))


def name_of(path: Path) -> str:
    """Return the path relative to the project's root."""
    return str(path.relative_to(ROOT))


@cache
def imports(path: Path) -> frozenset[str]:
    """Return the dotted names of all modules that the file imports at run time, including imports in
    functions.
    """
    tree = tree_of(path)
    found: set[str] = set()
    for node in _walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module)
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return frozenset(found)


def _walk(node: ast.AST) -> Iterator[ast.AST]:
    """Yield all nodes except those under `if TYPE_CHECKING`."""
    if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
        return
    yield node
    for child in ast.iter_child_nodes(node):
        yield from _walk(child)


def own_files(path: Path) -> set[Path]:
    """Return the files of schedbed that a file imports."""
    found = set()
    for module in imports(path):
        package, *parts = module.split(".")
        if package == "schedbed" and parts:
            base = (ROOT / "src" / "schedbed").joinpath(*parts).resolve()
            found |= {p for p in (base.with_suffix(".py"), base / "__init__.py") if p.is_file()}
    return found


def reach(path: Path) -> set[Path]:
    """Return the file and all files of schedbed that it imports, directly or indirectly."""
    seen: set[Path] = set()
    todo = [path]
    while todo:
        file = todo.pop()
        if file not in seen:
            seen.add(file)
            todo.extend(own_files(file))
    return seen


def roots(path: Path) -> set[str]:
    """Return the top-level packages that a file imports."""
    return {module.split(".")[0] for module in imports(path)}


def rooms(path: Path) -> set[str]:
    """Return the rooms (top-level folders such as `scheduler`) that a file imports from."""
    return {room for module in imports(path) for room in module.split(".")[1:2] if room in ROOMS}


def test_pure_files_reach_nothing_impure() -> None:
    reached = {name: [file for file in reach(ROOT / name) if name_of(file) != CHANCE] for name in PURE}
    assert (
        _lists(
            f"{name} reaches {name_of(file)}"
            for name, files in reached.items()
            for file in files
            if roots(file) & IMPURE
        )
        == []
    )


def test_imports_go_down_only() -> None:
    """A file imports only from rooms below its own, and by names of the form schedbed.ROOM."""
    wrong = [path for path in FILES if not rooms(path) <= BELOW[name_of(path).split("/")[0]]]
    wrong += [path for path in FILES if roots(path) & set(ROOMS)]
    assert _lists(map(name_of, wrong)) == []


# Applications are found by their folder, so no import leads to them.
INSIDE = ["cluster/agent/agent.py", *(name_of(path) for path in FILES if name_of(path).startswith("tasks/"))]


def test_the_agent_needs_only_numpy_and_aiohttp() -> None:
    allowed = {*sys.stdlib_module_names, "schedbed", "numpy", "aiohttp"}
    reached = {name: reach(ROOT / name) for name in INSIDE}
    assert (
        _lists(
            f"{name} reaches {name_of(file)}"
            for name, files in reached.items()
            for file in files
            if not roots(file) <= allowed
        )
        == []
    )


def test_ray_is_imported_at_the_edge_only() -> None:
    assert {name_of(path) for path in FILES if "ray" in roots(path)} == {
        "deploy/live/ray_cluster.py",
        "deploy/live/ray_join.py",
    }


def test_one_file_makes_random_generators() -> None:
    assert {name_of(path) for path in FILES if "random" in roots(path)} == {CHANCE}


def test_files_are_small_and_say_what_they_are() -> None:
    texts = {path: path.read_text() for path in FILES}
    assert _lists(name_of(path) for path, text in texts.items() if text.count("\n") > 650) == []
    silent = [path for path, text in texts.items() if text and not ast.get_docstring(tree_of(path))]
    assert _lists(name_of(path) for path in silent if path.name != "__init__.py") == []


def test_functions_are_small() -> None:
    assert (
        _lists(
            f"{name_of(path)}: {node.name}"
            for path in FILES
            for node in ast.walk(tree_of(path))
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
            and (node.end_lineno or 0) - node.lineno >= 60
        )
        == []
    )


OPENINGS = (
    "Who",
    "Whose",
    "What",
    "Which",
    "Where",
    "When",
    "Whether",
    "How",
    "Why",
    "As",
    "Of",
    "Has",
    "Is",
)
OPENINGS += ("It", "Its", "They", "Their", "Those", "Does")
"""First words that no docstring may have, be it of a function, a class or a module."""
TURNS = (
    "anew",
    "likewise",
    "so many",
    "so much",
    "so long",
    "whom",
    "whoever",
    "somebody",
    "anybody",
    "thereof",
)
TURNS += ("as it were", "one's own", "nothing but", "anyhow", "for good", "is to be", "are to be", "ere")
"""Turns that readers take for old or foreign: style.md, section 5."""


def test_docstrings_begin_with_no_pronoun_or_question() -> None:
    found = ((place, text) for place, text in _docstrings() if text.split()[0].rstrip(".,:;") in OPENINGS)
    assert _lists(f"{place}: {text.splitlines()[0]}" for place, text in found) == []


def test_docstrings_have_no_old_turns() -> None:
    old = re.compile(rf"\b({'|'.join(TURNS)})\b", re.IGNORECASE)
    found = ((place, old.search(" ".join(text.split()))) for place, text in _docstrings())
    assert _lists(f"{place}: {match[0]}" for place, match in found if match) == []


def _docstrings() -> Iterator[tuple[str, str]]:
    """Yield each docstring as its place and its text.

    The docstrings are those of the product, the test harness and the examples of CONTRIBUTING.md.
    """
    paths = (
        *FILES,
        *sorted((ROOT / "src").rglob("*.py")),
        *sorted((ROOT / "tests/harness").rglob("*.py")),
    )
    trees = [(name_of(path), tree_of(path)) for path in paths]
    for checklist in checklists().values():
        trees += [(f"CONTRIBUTING.md: {name}", ast.parse(text)) for name, text in checklist.new.items()]
    for where, tree in trees:
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Module):
                text = ast.get_docstring(node)
                if text:
                    name = "the module" if isinstance(node, ast.Module) else node.name
                    yield f"{where}: {name}", text


def _lists(found: Iterable[str]) -> list[str]:
    """Return the faults without duplicates, sorted.

    One test checks all files, since a test for each would double the tests.
    """
    return sorted(set(found))
