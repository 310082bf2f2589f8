"""The functions of a module by qualified name: syntax trees, and function objects with replaceable code."""

from __future__ import annotations

import ast
import importlib
import inspect
from collections.abc import Iterator
from functools import cache
from types import CodeType, FunctionType, ModuleType
from typing import Any

from tests.search.mutation.edits import FunctionNode


@cache
def tree_of(module: str) -> ast.Module:
    """Return the syntax tree of an importable module."""
    return ast.parse(inspect.getsource(importlib.import_module(module)))


def nodes_of(tree: ast.Module) -> dict[str, FunctionNode]:
    """Return the syntax trees of a module's functions and methods by qualified name.

    A nested function counts as part of its outer function; classes that are Protocols are skipped.
    """
    found: dict[str, FunctionNode] = {}
    for part in tree.body:
        if isinstance(part, FunctionNode):
            found[part.name] = part
        elif isinstance(part, ast.ClassDef) and not _is_interface(part):
            for inner in part.body:
                if isinstance(inner, FunctionNode):
                    found[f"{part.name}.{inner.name}"] = inner
    return found


def _is_interface(node: ast.ClassDef) -> bool:
    return any("Protocol" in ast.unparse(base) for base in node.bases)


@cache
def functions_of(module: str) -> dict[str, FunctionType]:
    """Return the function objects of a module by qualified name."""
    return dict(_functions(importlib.import_module(module)))


def _functions(module: ModuleType) -> Iterator[tuple[str, FunctionType]]:
    for owner in (module, *(item for item in vars(module).values() if isinstance(item, type))):
        for item in vars(owner).values():
            function = _function(item)
            if function is not None and function.__module__ == module.__name__:
                yield function.__qualname__, function


def _function(item: Any) -> FunctionType | None:
    """Return the function inside a method, a property or a decorated function; None for other objects."""
    if isinstance(item, property):
        item = item.fget
    item = inspect.unwrap(getattr(item, "__func__", item)) if callable(item) or item is not None else item
    return item if isinstance(item, FunctionType) else None


def put_code(module: str, tree: ast.Module, names: Iterator[str] | list[str]) -> None:
    """Replace the code of the named functions with their code in an edited syntax tree of the module.

    The function objects stay the same, so every reference to a function runs the new code. Raises ValueError
    if the new code has other closure variables.
    """
    filename = inspect.getsourcefile(importlib.import_module(module)) or module
    codes = {code.co_qualname: code for code in _codes(compile(tree, filename, "exec", dont_inherit=True))}
    functions = functions_of(module)
    for name in names:
        if name in functions:
            functions[name].__code__ = codes[name]


def _codes(code: CodeType) -> Iterator[CodeType]:
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield constant
            yield from _codes(constant)
