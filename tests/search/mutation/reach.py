"""Counts the executions of each statement in the mutated functions, by test scenario."""

from __future__ import annotations

import ast
import importlib
from collections.abc import Iterable
from copy import deepcopy
from typing import Any

from tests.search.mutation.edits import FunctionNode
from tests.search.mutation.places import nodes_of, put_code, tree_of

Place = tuple[str, int]
"""Module and line of a statement."""
COUNTS = "__counts__"


class Hits:
    """Makes all functions of given modules count the executions of their statements.

    The functions stay changed until the process ends.
    """

    def __init__(self, modules: Iterable[str]) -> None:
        self._places: list[Place] = []
        self._counts: list[int] = []
        for name in modules:
            tree = deepcopy(tree_of(name))
            nodes = nodes_of(tree)
            for node in nodes.values():
                self._instrument(node, name)
            vars(importlib.import_module(name))[COUNTS] = self._counts
            put_code(name, ast.fix_missing_locations(tree), list(nodes))
        self._counts += [0] * len(self._places)

    def _instrument(self, function: FunctionNode, module: str) -> None:
        for node in list(ast.walk(function)):
            for field in ("body", "orelse", "finalbody"):
                block: Any = getattr(node, field, None)
                if isinstance(block, list):
                    setattr(node, field, [each for part in block for each in self._counted(part, module)])

    def _counted(self, part: ast.stmt, module: str) -> list[ast.stmt]:
        if isinstance(part, ast.Nonlocal | ast.Global):
            return [part]
        self._places.append((module, part.lineno))
        return [*ast.parse(f"{COUNTS}[{len(self._places) - 1}] += 1").body, part]

    def take(self) -> dict[Place, int]:
        """Return the number of executions of each executed statement since the last call."""
        hits = {place: count for place, count in zip(self._places, self._counts, strict=True) if count}
        self._counts[:] = [0] * len(self._places)
        return hits


def statement_lines(function: FunctionNode) -> dict[int, int]:
    """Return, for each line of a function, the first line of the innermost statement around it."""
    lines: dict[int, int] = {}
    for node in ast.walk(function):
        if isinstance(node, ast.stmt) and node is not function:
            for line in range(node.lineno, (node.end_lineno or node.lineno) + 1):
                lines[line] = max(node.lineno, lines.get(line, 0))
    return lines
