"""Mutants: edited functions that can be activated in the current process."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterable, Iterator
from copy import deepcopy
from dataclasses import dataclass

from tests.search.mutation.edits import Edit, edited, edits
from tests.search.mutation.equivalent import EQUIVALENT
from tests.search.mutation.places import functions_of, nodes_of, put_code, tree_of
from tests.search.mutation.reach import Place, statement_lines
from tests.search.mutation.targets import LEFT_OUT, MODULES


@dataclass(frozen=True, slots=True)
class Mutant:
    """An edit of a function. `statement` is the line number of the edited statement."""

    module: str
    function: str
    edit: Edit
    statement: int

    @property
    def name(self) -> str:
        """Return the mutant's module, function and line, joined by colons."""
        return f"{self.module.removeprefix('schedbed.')}:{self.function}:{self.edit.line}"

    @property
    def change(self) -> str:
        """Return the description of the edit."""
        return self.edit.change

    @property
    def place(self) -> Place:
        """Return the module and the line number of the edited statement, the key of its count in `Hits`."""
        return self.module, self.statement

    def apply(self) -> None:
        """Replace the function's code with the edited code, until the process ends."""
        tree = deepcopy(tree_of(self.module))
        node = nodes_of(tree)[self.function]
        for owner in (tree, *(part for part in tree.body if isinstance(part, ast.ClassDef))):
            owner.body = [edited(node, self.edit) if part is node else part for part in owner.body]
        put_code(self.module, tree, [self.function])


def all_mutants() -> list[Mutant]:
    """Return all mutants of all mutated modules, in the order of the modules' source."""
    return [mutant for module in MODULES for mutant in _mutants(module)]


def labeled(made: Iterable[Edit]) -> Iterator[tuple[str, Edit]]:
    """Yield each edit of a function with a unique label.

    The label is the edit's description, followed by ` (2)`, ` (3)` ... for repeated descriptions.
    """
    seen: Counter[str] = Counter()
    for edit in sorted(made, key=lambda edit: edit.line):
        seen[edit.change] += 1
        many = seen[edit.change]
        yield edit.change if many == 1 else f"{edit.change} ({many})", edit


def _mutants(module: str) -> Iterator[Mutant]:
    for name, node in nodes_of(tree_of(module)).items():
        key = f"{module}:{name}"
        if key in LEFT_OUT or name not in functions_of(module):
            continue
        lines = statement_lines(node)
        for label, edit in labeled(edits(node)):
            if label not in EQUIVALENT.get(key, {}):
                yield Mutant(module, name, edit, lines.get(edit.line, edit.line))
