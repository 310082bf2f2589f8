"""Check that the functions of the compiled loop and the functions that they mirror are edited together.

    python -m tests.house.twins             what has changed at one end or both
    python -m tests.house.twins --update    record both ends as they are now; run this when they agree again

The decorator `twin_of` names the originals. `twins.txt` keeps a hash of both ends, which ignores comments,
docstrings, decorators and layout.
"""

from __future__ import annotations

import ast
import hashlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from tests.house.structure import tree_of

ROOT = Path(__file__).parents[2]
COMPILED = ROOT / "scheduler" / "simulate" / "compiled"
KEPT = Path(__file__).with_suffix(".txt")
UPDATE = "python -m tests.house.twins --update"

Function = ast.FunctionDef | ast.AsyncFunctionDef


class Pair(NamedTuple):
    """A compiled function and one of its originals, each as `path:name`."""

    twin: str
    original: str


class Hashes(NamedTuple):
    """The hashes of the code of a compiled function and of its original."""

    twin: str
    original: str


def hash_of(node: ast.AST) -> str:
    """Return a hash of a function's code without docstrings, comments, decorators and layout."""
    tree = ast.parse(ast.unparse(node))
    for part in ast.walk(tree):
        if isinstance(part, Function | ast.ClassDef):
            part.decorator_list = []
            if ast.get_docstring(part) is not None:
                part.body = part.body[1:] or [ast.Pass()]
    return hashlib.sha256(ast.unparse(tree).encode()).hexdigest()[:12]


def find(place: str) -> ast.AST | None:
    """Return the syntax tree of the function or class at `path:name`, or None.

    A method's name is `Class.method`.
    """
    file, _, name = place.partition(":")
    path = ROOT / file
    node: ast.AST | None = tree_of(path) if path.is_file() else None
    for part in name.split("."):
        body: list[ast.stmt] = getattr(node, "body", [])
        named = [each for each in body if isinstance(each, Function | ast.ClassDef) and each.name == part]
        node = named[-1] if named else None
    return node


def place_of(original: str) -> str:
    """Return `path:name` for a name in the decorator's form, `schedbed.module:name`."""
    module, _, name = original.partition(":")
    return f"{module.removeprefix('schedbed.').replace('.', '/')}.py:{name}"


def functions() -> Iterator[tuple[str, Function]]:
    """Yield the functions of the compiled loop, each after its `path:name`."""
    for path in sorted(COMPILED.rglob("*.py")):
        for node in tree_of(path).body:
            if isinstance(node, Function):
                yield f"{path.relative_to(ROOT)}:{node.name}", node


def originals_of(function: Function) -> list[str]:
    """Return the `path:name` of each original that the function's decorator `twin_of` names."""
    calls = [each for each in function.decorator_list if isinstance(each, ast.Call)]
    found = [call for call in calls if ast.unparse(call.func) == "twin_of"]
    return [place_of(ast.literal_eval(name)) for call in found for name in call.args]


def pairs() -> dict[Pair, Hashes]:
    """Return the present hashes of all pairs. The hash of an original that does not exist is empty."""
    found: dict[Pair, Hashes] = {}
    for twin, function in functions():
        for original in originals_of(function):
            node = find(original)
            found[Pair(twin, original)] = Hashes(hash_of(function), hash_of(node) if node is not None else "")
    return found


def kept() -> dict[Pair, Hashes]:
    """Return the hashes that twins.txt keeps."""
    lines = [line.split() for line in KEPT.read_text().splitlines() if line and not line.startswith("#")]
    return {Pair(twin, original): Hashes(one, other) for twin, one, original, other in lines}


def faults(now: dict[Pair, Hashes], before: dict[Pair, Hashes]) -> list[str]:
    """Return a line for each pair that differs from the kept hashes.

    The line says which end has changed, and what to do.
    """
    found: list[str] = []
    then = f"then: {UPDATE}"
    for pair, hashes in now.items():
        known = before.get(pair)
        if not hashes.original:
            found.append(
                f"{pair.twin} mirrors {pair.original}, which is not there: name what it mirrors now, {then}"
            )
        elif known is None:
            found.append(
                f"{pair.twin} says that it mirrors {pair.original}, which is not kept: compare them, {then}"
            )
        elif known.twin == hashes.twin and known.original != hashes.original:
            found.append(
                f"{pair.original} has changed, its compiled twin {pair.twin} has not: change that too, {then}"
            )
        elif known.twin != hashes.twin and known.original == hashes.original:
            found.append(
                f"{pair.twin} has changed, but not {pair.original}, which it mirrors: change that too, {then}"
            )
        elif known != hashes:
            found.append(
                f"{pair.original} and its compiled twin {pair.twin} have changed: compare them, {then}"
            )
    gone = [pair for pair in before if pair not in now]
    return [
        *found,
        *(f"{pair.twin} does not say any more that it mirrors {pair.original}, {then}" for pair in gone),
    ]


def main() -> None:
    """Print the pairs that have changed, or with `--update` keep the present hashes."""
    now = pairs()
    if "--update" in sys.argv[1:]:
        lost = [pair for pair, hashes in now.items() if not hashes.original]
        if lost:
            sys.exit("\n".join(faults({pair: now[pair] for pair in lost}, {})))
        lines = [f"{pair.twin} {one} {pair.original} {other}\n" for pair, (one, other) in sorted(now.items())]
        KEPT.write_text("# compiled function, its hash, what it mirrors, the hash of that\n" + "".join(lines))
        return
    found = faults(now, kept())
    sys.exit("\n".join(found) if found else None)


if __name__ == "__main__":
    main()
