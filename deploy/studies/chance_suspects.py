"""Finds code in a policy's file whose result may differ between two runs with the same seed.

Examples are clocks, random numbers, and the order of sets.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import TypeGuard

MOST = 3
PROCESS = "in each process"
SOURCES = {
    "random": "draws without the run's seed: use view.random",
    "secrets": "draws without the run's seed: use view.random",
    "uuid": "differs in each run: use view.random",
    "time": "is the host's clock: use view.now_s",
    "datetime": "is the host's clock: use view.now_s",
    "os": "is the host's state, not the cluster's",
}
BUILT_IN = {
    "id": f"is an address that differs {PROCESS}",
    "hash": f"differs {PROCESS} for texts",
    "open": "reads what may have changed",
}


def chance_suspects(file: Path, made: type, *, by_process: bool = False) -> list[str]:
    """Return at most 3 messages about code in a policy's file whose result does not depend on the seed alone.

    `made` is the class of the policy. Other policies in `file` are ignored, except its base classes. With
    `by_process`, only code is reported whose result is the same within a process but differs between
    processes, such as the order of a set.
    """
    try:
        tree = ast.parse(file.read_text(encoding="utf-8"))
    except (OSError, SyntaxError, ValueError):
        return []
    imported = _imported(tree)
    parts = [part for part in tree.body if not _is_other_policy(part, made)]
    found = sorted({suspect for part in parts for suspect in _suspects(part, imported)})
    told = [f"{text} ({file.name}, line {line})" for line, text in found]
    return [text for text in told if PROCESS in text or not by_process][:MOST]


def _is_other_policy(part: ast.stmt, made: type) -> bool:
    """Return whether the statement `part` defines a policy that is neither `made` nor its base class."""
    if not isinstance(part, ast.ClassDef) or part.name in {each.__name__ for each in made.__mro__}:
        return False
    names = getattr(getattr(made, "decide", None), "__globals__", {})
    return hasattr(names.get(part.name), "decide")


def _suspects(part: ast.AST, imported: dict[str, str]) -> Iterator[tuple[int, str]]:
    for node in ast.walk(part):
        if isinstance(node, ast.Name) and imported.get(node.id) in SOURCES:
            yield node.lineno, f"{node.id} {SOURCES[imported[node.id]]}"
        elif isinstance(node, ast.Name) and node.id in BUILT_IN:
            yield node.lineno, f"{node.id} {BUILT_IN[node.id]}"
        if _is_set(node):
            yield node.lineno, f"a set has another order {PROCESS}: use sorted or a dict"


def _imported(tree: ast.AST) -> dict[str, str]:
    """Return a dictionary from each imported name to the top-level module that the name comes from."""
    names: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for each in node.names:
                names[(each.asname or each.name).partition(".")[0]] = each.name.partition(".")[0]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {each.asname or each.name: node.module.partition(".")[0] for each in node.names}
    return names


def _is_set(node: ast.AST) -> TypeGuard[ast.expr]:
    if isinstance(node, ast.Set | ast.SetComp):
        return True
    return isinstance(node, ast.Call) and ast.unparse(node.func) in ("set", "frozenset")
