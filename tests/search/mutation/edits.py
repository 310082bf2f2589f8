"""Small edits (mutations) of a function's syntax tree, such as removed statements and negated conditions."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass
from typing import Any, TypeGuard

TURNED: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
AROUND: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.GtE,
    ast.LtE: ast.Gt,
    ast.Gt: ast.LtE,
    ast.GtE: ast.Lt,
}
COMPUTED = ("_s", "_share", "SLACK", "share")
"""Suffixes of the names of times and shares, whose last bit depends on rounding."""
OPPOSITE: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
}
OTHER_NAME = {"min": "max", "max": "min", "any": "all", "all": "any"}
FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True, slots=True)
class Edit:
    """Replacement of one node of a function's syntax tree by `other`.

    `place` is the node's position in the order of `ast.walk`; `change` describes the edit for people.
    """

    place: int
    line: int
    other: ast.AST
    change: str


def edits(function: FunctionNode) -> Iterator[Edit]:
    """Yield the edits of a function, except edits that would show nothing about the tests.

    Six rules exclude edits:

    - Messages for people, assertions (`strict` of a `zip` counts as one) and raised errors are not edited,
      since no behavior depends on them.
    - An assignment to an attribute in `__init__` is not removed: any later read would raise, so any test
      would find it.
    - A comparison of computed times or shares is negated, but `<` does not become `<=`: no specification says
      to which side the boundary belongs.
    - A tolerance for rounding errors (a name that ends in SLACK) is neither removed nor negated.
    - `x += 1` is removed or becomes `x -= 1`; it does not become `x += 2`.
    - A condition is negated once, as a whole: `if a < b` is not edited both to `if not a < b` and to `if a >=
      b`.
    """
    first = function.name == "__init__"
    quiet = {id(part) for node in ast.walk(function) if _is_text(node) for part in ast.walk(node)}
    quiet |= {
        id(node.value)
        for node in ast.walk(function)
        if isinstance(node, ast.AugAssign) and _is_one(node.value)
    }
    quiet |= {
        id(node.value)
        for node in ast.walk(function)
        if isinstance(node, ast.keyword) and node.arg == "strict"
    }
    quiet |= {id(node.test) for node in ast.walk(function) if _is_turned(node)}
    quiet |= {id(part) for node in _signature(function) for part in ast.walk(node)}
    for place, node in enumerate(ast.walk(function)):
        if id(node) not in quiet and node is not function:
            for other in _others(node):
                if first and isinstance(node, ast.Assign) and isinstance(other, ast.Pass):
                    continue
                yield Edit(place, getattr(node, "lineno", function.lineno), other, _told(node, other))


def edited(function: FunctionNode, edit: Edit) -> FunctionNode:
    """Return a copy of the function with the edit applied."""
    copy = deepcopy(function)
    target = next(node for place, node in enumerate(ast.walk(copy)) if place == edit.place)

    class Swap(ast.NodeTransformer):
        def visit(self, node: ast.AST) -> ast.AST:
            if node is target:
                return ast.copy_location(deepcopy(edit.other), node)
            return self.generic_visit(node)

    swapped: Any = Swap().visit(copy)
    return ast.fix_missing_locations(swapped)


def _signature(function: FunctionNode) -> list[ast.AST]:
    inner = [node for node in ast.walk(function) if isinstance(node, ast.arguments | ast.AnnAssign)]
    annotations = [node.annotation if isinstance(node, ast.AnnAssign) else node for node in inner]
    return [*annotations, *function.decorator_list, *([function.returns] if function.returns else [])]


def _is_text(node: ast.AST) -> bool:
    """Return whether a node is text for people.

    These are formatted strings, docstrings, errors, assertions, log calls and reasons for skips.
    """
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
        return ast.unparse(node.value.func).startswith(("log.", "logging.", "view.skip", "warnings."))
    docstring = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    return docstring or isinstance(node, ast.JoinedStr | ast.Raise | ast.Assert)


def _others(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the edited versions of a node of a syntax tree, each of which can replace the node."""
    match node:
        case ast.stmt():
            yield from _other_statements(node)
        case ast.Compare(left=left, ops=[operator], comparators=right) if _is_computed(node):
            if type(operator) in AROUND:
                yield ast.Compare(left, [AROUND[type(operator)]()], right)
        case ast.Compare(left=left, ops=[operator], comparators=right) if type(operator) in TURNED:
            yield ast.Compare(left, [TURNED[type(operator)]()], right)
        case ast.BoolOp(op=ast.And(), values=values):
            yield ast.BoolOp(ast.Or(), values)
        case ast.BoolOp(op=ast.Or(), values=values):
            yield ast.BoolOp(ast.And(), values)
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            yield operand
        case ast.BinOp(right=ast.Name(id=slack)) if slack.endswith("SLACK"):
            return
        case ast.BinOp(left=left, op=operator, right=right) if type(operator) in OPPOSITE:
            yield ast.BinOp(left, OPPOSITE[type(operator)](), right)
        case ast.Constant(value=bool(value)):
            yield ast.Constant(not value)
        case ast.Constant(value=int(number) | float(number)):
            yield ast.Constant(number + 1)
        case ast.Call(func=ast.Name(id=name), args=arguments) if name in OTHER_NAME:
            yield ast.Call(ast.Name(OTHER_NAME[name], ast.Load()), arguments, node.keywords)
        case ast.IfExp(test=test, body=body, orelse=orelse):
            yield ast.IfExp(ast.UnaryOp(ast.Not(), test), body, orelse)


def _other_statements(node: ast.stmt) -> Iterator[ast.AST]:
    match node:
        case ast.If(test=test, body=body, orelse=orelse):
            yield ast.If(ast.UnaryOp(ast.Not(), test), body, orelse)
        case ast.While(test=test, body=body, orelse=orelse):
            yield ast.If(test, [part for part in body if not _leaves(part)] or [ast.Pass()], orelse)
        case ast.Return(value=ast.expr() as value) if not isinstance(value, ast.Constant):
            yield ast.Return(ast.Constant(None))
        case ast.Return(value=None) | ast.Continue() | ast.Break():
            yield ast.Pass()
        case ast.Expr(value=ast.Call()) | ast.Delete():
            yield ast.Pass()
        case ast.AugAssign():
            yield ast.Pass()
            if type(node.op) in OPPOSITE:
                yield ast.AugAssign(node.target, OPPOSITE[type(node.op)](), node.value)
        case ast.Assign(targets=targets) if any(_is_kept(target) for target in targets):
            yield ast.Pass()


def _is_one(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value == 1


def _is_computed(node: ast.Compare) -> bool:
    """Return whether a comparison orders computed times or shares (`<`, `<=`, `>` or `>=`)."""
    names = [
        part.id if isinstance(part, ast.Name) else part.attr
        for part in ast.walk(node)
        if isinstance(part, ast.Name | ast.Attribute)
    ]
    return type(node.ops[0]) in AROUND and any(name.endswith(COMPUTED) for name in names)


def _is_turned(node: ast.AST) -> TypeGuard[ast.If | ast.IfExp]:
    """Return whether negating the `if` has the same effect as editing its condition."""
    if not isinstance(node, ast.If | ast.IfExp):
        return False
    test = node.test
    if isinstance(test, ast.Compare) and len(test.ops) == 1:
        by_size = type(test.ops[0]) in AROUND
        return not by_size or _is_computed(test)
    return isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not)


def _leaves(node: ast.AST) -> bool:
    return any(isinstance(part, ast.Break | ast.Continue) for part in ast.walk(node))


def _is_kept(target: ast.expr) -> bool:
    """Return whether an assigned target outlives the function: an attribute or an item.

    Assignments to local variables are not removed, since nobody makes that mistake.
    """
    if isinstance(target, ast.Tuple):
        return any(_is_kept(part) for part in target.elts)
    return isinstance(target, ast.Attribute | ast.Subscript)


def _told(node: ast.AST, other: ast.AST) -> str:
    """Return a one-line description of an edit: the source before and after."""
    if isinstance(other, ast.Pass):
        return f"without `{_line(node)}`"
    if isinstance(node, ast.If | ast.IfExp):
        return f"`{_line(node.test)}` turned round"
    if isinstance(node, ast.While):
        return f"`while {_line(node.test)}` once"
    return f"`{_line(node)}` is `{_line(other)}`"


def _line(node: ast.AST) -> str:
    text = " ".join(ast.unparse(node).split())
    return text if len(text) <= 70 else f"{text[:67]}..."
