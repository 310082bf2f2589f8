"""The declarations of a user's application class, which are read from its source code without running it."""

from __future__ import annotations

import ast
import difflib
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from schedbed.tasks.errors import BadInput
from schedbed.tasks.plain_file import is_plain_file

METHODS: Mapping[str, tuple[str, ...]] = {
    "map": ("record",),
    "combine": ("key", "values"),
    "reduce": ("key", "values"),
    "partition": ("key", "reduces"),
    "check": ("records", "output"),
}
"""The methods that are called, with the names of their arguments."""
REQUIRED = "required"
"""Shown instead of a default value for a required parameter."""
PROGRAM = "program"
"""The parameter of a job that describes the class of its application."""
INPUT = "input must be a plain text, such as input = 'text'"
COSTS = 'costs must be a plain mapping, such as costs = {"map_s_per_mb": 0.02}'

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassSource:
    """A user's application class. `costs` and `input` are None if not declared.

    `parameters` have defaults, `required` none, and `computed` an expression. `lines` has each method's first
    line.
    """

    file: str
    name: str
    summary: str = ""
    input: str | None = None
    costs: Mapping[str, Any] | None = None
    parameters: Mapping[str, Any] = field(default_factory=dict)
    required: tuple[str, ...] = ()
    computed: tuple[str, ...] = ()
    lines: Mapping[str, int] = field(default_factory=dict)

    def has(self, method: str) -> bool:
        """Return whether the class, or a base in the same file, defines the method."""
        return method in self.lines

    def to_json(self) -> dict[str, Any]:
        """Return the declarations as in a job's parameter `program`."""
        return asdict(self)

    @staticmethod
    def from_json(raw: Mapping[str, Any]) -> ClassSource:
        """Invert `to_json`."""
        return ClassSource(**{**raw, "required": tuple(raw["required"]), "computed": tuple(raw["computed"])})


def class_of(params: Mapping[str, Any]) -> ClassSource | None:
    """Return the declarations of the user's class that a job with these parameters runs, or None if it runs none."""
    raw = params.get(PROGRAM)
    return None if raw is None else ClassSource.from_json(raw)


def read_class(path: Path, name: str) -> ClassSource:
    """Return the class's declarations. Raises BadInput if it is missing or no application."""
    tree = _parsed(path)
    classes = {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}
    found = classes.get(name)
    if found is None:
        near = difflib.get_close_matches(name, classes, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"it has {', '.join(classes) or 'no class at all'}"
        raise BadInput(f"{path}: there is no class {name!r}, {hint}")
    members, foreign = _members(found, classes)
    if "map" not in members and not foreign:
        raise BadInput(
            f"{path}:{found.lineno}: class {name} has no method map, expected def map(self, record)"
        )
    for method, given in METHODS.items():
        if method in members:
            _check_method(path, name, method, members[method], given)
    _check_together(path, found, members)
    parameters, required, computed = _parameters(path, name, members.get("__init__"))
    return ClassSource(
        file=path.name,
        name=name,
        summary=(ast.get_docstring(found) or "").partition("\n")[0],
        input=_constant(path, name, members.get("input"), kind=str, what=INPUT),
        costs=_constant(path, name, members.get("costs"), kind=dict, what=COSTS),
        parameters=parameters,
        required=required,
        computed=computed,
        lines={method: members[method].lineno for method in METHODS if method in members}
        or {"map": found.lineno},
    )


def _parsed(path: Path) -> ast.Module:
    if path.is_file() and not is_plain_file(path):
        raise BadInput(f"{path}: not a regular file, expected a file of Python")
    try:
        return ast.parse(path.read_bytes(), filename=str(path))
    except OSError as error:
        raise BadInput(f"there is no file {path} that can be read: {error.strerror}") from None
    except SyntaxError as error:
        line = f":{error.lineno}" if error.lineno else ""
        raise BadInput(f"{path}{line}: not Python: {error.msg}") from None
    except (ValueError, RecursionError) as error:
        raise BadInput(f"{path}: not Python: {error}") from None


Member = ast.FunctionDef | ast.AsyncFunctionDef | ast.Assign | ast.AnnAssign


def _members(
    found: ast.ClassDef, classes: Mapping[str, ast.ClassDef], depth: int = 0
) -> tuple[dict[str, Member], bool]:
    """Return a class's members with inherited ones, and whether it has bases that are not searched.

    Only bases in the same file are searched. `depth` detects cyclic inheritance.
    """
    members: dict[str, Member] = {}
    foreign = depth > len(classes)
    for base in reversed(found.bases):
        parent = classes.get(base.id) if isinstance(base, ast.Name) else None
        if parent is not None and parent is not found and not foreign:
            inherited, unknown = _members(parent, classes, depth + 1)
            members |= inherited
            foreign |= unknown
        elif not (isinstance(base, ast.Name) and base.id == "object"):
            foreign = True
    members |= {name: node for node in found.body for name in _named(node)}  # type: ignore[misc]
    return members, foreign


def _named(node: ast.stmt) -> Iterator[str]:
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        yield node.name
    elif isinstance(node, ast.Assign):
        yield from (target.id for target in node.targets if isinstance(target, ast.Name))
    elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.value is not None:
        yield node.target.id


def _check_method(path: Path, owner: str, method: str, node: Member, given: tuple[str, ...]) -> None:
    expected = f"expected def {method}(self, {', '.join(given)})"
    if isinstance(node, ast.AsyncFunctionDef):
        raise BadInput(f"{path}:{node.lineno}: {owner}.{method} is async, {expected}")
    if not isinstance(node, ast.FunctionDef) or node.decorator_list:
        return  # The signature is known only at run time.
    plain = [*node.args.posonlyargs, *node.args.args]
    needed = len(plain) - len(node.args.defaults)
    most = float("inf") if node.args.vararg else len(plain)
    without = [
        arg for arg, default in zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True) if not default
    ]
    if without or not needed <= len(given) + 1 <= most:
        names = ", ".join(arg.arg for arg in [*plain, *without])
        raise BadInput(f"{path}:{node.lineno}: {owner}.{method} takes ({names}), {expected}")


def _check_together(path: Path, found: ast.ClassDef, members: Mapping[str, Member]) -> None:
    for method in ("combine", "partition"):
        if method in members and "reduce" not in members:
            line = members[method].lineno
            raise BadInput(f"{path}:{line}: {found.name} has {method} but no reduce, which it is for")


def _parameters(
    path: Path, owner: str, made: Member | None
) -> tuple[dict[str, Any], tuple[str, ...], tuple[str, ...]]:
    """Return the constructor's arguments: with plain defaults, without any, and with an expression."""
    if not isinstance(made, ast.FunctionDef):
        return {}, (), ()
    plain = [*made.args.posonlyargs, *made.args.args][1:]
    defaults: list[ast.expr | None] = [None] * (len(plain) - len(made.args.defaults))
    pairs = [*zip(plain, [*defaults, *made.args.defaults], strict=False)]
    pairs += [*zip(made.args.kwonlyargs, made.args.kw_defaults, strict=True)]
    values: dict[str, Any] = {}
    required: list[str] = []
    computed: list[str] = []
    for argument, default in pairs:
        if default is None:
            required.append(argument.arg)
            continue
        try:
            values[argument.arg] = ast.literal_eval(default)
        except ValueError:
            computed.append(argument.arg)
            continue
        if not isinstance(values[argument.arg], bool | int | float | str | list | type(None)):
            computed.append(argument.arg)
            del values[argument.arg]
    return values, tuple(required), tuple(computed)


def _literal(node: Member | None) -> Any:
    if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
        return ast.literal_eval(node.value)
    return None


def _constant(path: Path, owner: str, node: Member | None, *, kind: type[T], what: str) -> T | None:
    """Return what `node` assigns, or None without it. Raises BadInput unless it is a literal of `kind`."""
    try:
        value = _literal(node)
    except ValueError:
        value = node
    if value is None or isinstance(value, kind):
        return value
    assert node is not None
    raise BadInput(f"{path}:{node.lineno}: {owner}.{what}")
