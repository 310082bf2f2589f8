"""The kernel is small and imports no room: what is behind a door is named by its registration only.

`kernel.txt` lists the kernel. Every other module belongs to a room, which imports the kernel and registers with it.
`python -m tests.house.structure` prints the kernel's size.
"""

from __future__ import annotations

import ast
from pathlib import Path

from tests.house.structure import imported, kernel, kernel_lines, modules, name_of, tree_of

MOST_FILES, MOST_LINES = 160, 30_000
BEHIND = ("scheduler/simulate/compiled/", "scheduler/simulate/loading/")
"""The compiled engine and its feeders, which only `registration` in the engine's package connects with the rest."""
WORDS = ("simulate.compiled", "simulate.loading", "numba")
TWINS = ("cluster/virtual/fluid/fluid.py", "cluster/virtual/fluid/max_min.py")
"""Files whose docstring names their compiled twin."""


def test_the_kernel_is_small() -> None:
    assert len(kernel()) <= MOST_FILES
    assert kernel_lines() <= MOST_LINES


def test_the_kernel_imports_no_room() -> None:
    found = {
        (name_of(path), name_of(other))
        for path in kernel()
        for other in imported(path)
        if other not in kernel() and other.name != "__init__.py"
    }
    assert found == set()


def is_behind(path: Path) -> bool:
    """Return whether the file belongs to the compiled engine or its feeders."""
    return name_of(path).startswith(BEHIND)


def test_the_compiled_engine_is_named_by_its_registration_only() -> None:
    wrong = {
        name_of(path): sorted(name_of(other) for other in imported(path) if is_behind(other))
        for path in modules()
        if not is_behind(path)
    }
    assert {name: found for name, found in wrong.items() if found} == {}


def test_no_text_outside_of_the_compiled_engine_names_it() -> None:
    """Module names in strings, which `import_module` and `python -m` take, count as well."""
    wrong = [
        f"{name_of(path)}:{node.lineno}: {word}"
        for path in modules()
        if not is_behind(path) and name_of(path) not in TWINS
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
        for word in WORDS
        if word in node.value
    ]
    assert wrong == []


def test_no_module_of_the_engine_imports_from_the_rooms_above() -> None:
    above = [
        name_of(path)
        for path in modules()
        if is_behind(path) and any(name_of(other).startswith("deploy/") for other in imported(path))
    ]
    assert above == []
