"""Production code does not use private names of other objects, and does not patch other objects."""

from __future__ import annotations

import ast
from collections.abc import Iterator

import pytest

from tests.house.structure import tree_of
from tests.house.test_rules import FILES, name_of

PUBLIC = {"_asdict", "_exit", "_fields", "_make", "_replace", "_value_"}
"""Documented names of the standard library that begin with an underscore all the same."""
ELSEWHERE = {
    ("cluster/machines/docker/container.py", "_sock is private"),
    ("cluster/machines/docker/container.py", "_response is private"),
    ("deploy/live/lean_ray.py", "services.resolve_ip_for_localhost is patched"),
    ("deploy/live/lean_ray.py", "services.start_ray_process is patched"),
    ("deploy/live/lean_ray.py", "utils.set_sigterm_handler is patched"),
    ("deploy/live/lean_ray.py", "workers.print_to_stdstream is patched"),
    ("deploy/live/worker_imports.py", "job_config._py_driver_sys_path is private"),
    ("scheduler/guard/blame.py", "sys._current_frames is private"),
    ("scheduler/guard/call_record.py", "stream.write is patched"),
}
"""Other people's code: docker gives a socket that can be written to in no other way, and Ray no other way to stay on
this host's own address, to start no agents, to leave SIGTERM to us while it starts, to print nothing, or to keep the
caller's folders out of the workers' search path. Python documents `sys._current_frames` for finding out where a thread
hangs. What a policy prints goes to the process's own streams, whose other users must not notice the bound."""


def is_private(name: str) -> bool:
    """Return whether a name is private: it begins with a single underscore and is not listed in `PUBLIC`."""
    return name.startswith("_") and not name.startswith("__") and name not in PUBLIC


def faults(tree: ast.Module) -> Iterator[str]:
    """Yield each use of another object's private name and each patched method, with the line number."""
    nodes = list(ast.walk(tree))
    methods = {part for node in nodes if isinstance(node, ast.ClassDef) for part in node.body}
    functions = {
        node.name
        for node in nodes
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node not in methods
    }
    own = {name for node in nodes if isinstance(node, ast.ClassDef) for name in _names_of(node)}
    for node in nodes:
        if isinstance(node, ast.Attribute) and is_private(node.attr):
            if not _is_self(node.value) and node.attr not in own:
                yield f"{node.lineno}: {ast.unparse(node)} is private"
        elif isinstance(node, ast.ImportFrom):
            yield from (
                f"{node.lineno}: {each.name} is private" for each in node.names if is_private(each.name)
            )
        elif isinstance(node, ast.Assign) and _is_function(node.value, functions):
            for target in node.targets:
                if isinstance(target, ast.Attribute) and not _is_self(target.value):
                    yield f"{node.lineno}: {ast.unparse(target)} is patched"
        elif (
            isinstance(node, ast.Call) and ast.unparse(node.func) == "setattr" and not _is_self(node.args[0])
        ):
            yield f"{node.lineno}: {ast.unparse(node)} sets what it does not name"


def _names_of(node: ast.ClassDef) -> Iterator[str]:
    """Yield the names that a class defines: methods, fields, slots, and attributes that its methods set on
    `self`.
    """
    for part in ast.walk(node):
        if isinstance(part, ast.FunctionDef | ast.AsyncFunctionDef):
            yield part.name
        elif isinstance(part, ast.AnnAssign | ast.Assign):
            targets = part.targets if isinstance(part, ast.Assign) else [part.target]
            for target in targets:
                if isinstance(target, ast.Attribute) and _is_self(target.value):
                    yield target.attr
                elif isinstance(target, ast.Name):
                    yield target.id


def _is_self(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and node.id in ("self", "cls")


def _is_function(node: ast.expr, functions: set[str]) -> bool:
    return isinstance(node, ast.Lambda) or (isinstance(node, ast.Name) and node.id in functions)


def test_no_file_reaches_into_another_object() -> None:
    found = [(name_of(path), fault) for path in FILES for fault in faults(tree_of(path))]
    known = {file: tuple(end for each, end in ELSEWHERE if each == file) for file, _ in ELSEWHERE}
    assert [(file, fault) for file, fault in found if not fault.endswith(known.get(file, ()))] == []


@pytest.mark.parametrize(
    "code",
    [
        "core._ledger.records_skips = True",
        "simulation._ended = True",
        "def f(books):\n    def noted(attempt): ...\n    books.kill = noted",
        "books.kill = lambda attempt: None",
        "setattr(books, 'kill', print)",
        "from schedbed.scheduler.order.pools import _WEIGHTS",
    ],
)
def test_reaches_and_patches_are_found(code: str) -> None:
    assert list(faults(ast.parse(code)))


@pytest.mark.parametrize(
    "code",
    [
        "class A:\n    def f(self, other: A) -> None:\n        self._x = other._x",
        "row._asdict()",
        "self.kill = noted\ndef noted(): ...",
    ],
)
def test_what_is_ones_own_is_not(code: str) -> None:
    assert not list(faults(ast.parse(code)))
