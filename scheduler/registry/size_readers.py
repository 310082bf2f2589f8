"""Detection of which sizes a policy reads, by a search of its source code.

Sizes are the costs of tasks, the lengths of inputs, and profiles of earlier runs.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from schedbed.scheduler.registry.parameters import ProfilesParameter
from schedbed.scheduler.registry.policy_spec import parse_spec
from schedbed.scheduler.registry.registry import AXES, DEFAULTS, FOLDERS, POLICIES
from schedbed.scheduler.registry.user_file import is_policy_file

COSTS, INPUTS, PROFILES = "costs of tasks", "lengths of inputs", "profiles of earlier runs"
ATTRIBUTES = {
    "map_costs": COSTS,
    "reduce_costs": COSTS,
    "input_bytes": INPUTS,
    "length": INPUTS,
}
SHIPPED = (*FOLDERS, "schedbed.scheduler.models")


def sizes_read_in(source: str) -> dict[str, tuple[str, int]]:
    """Return which sizes the source code reads: a dictionary from each kind of size to its first use.

    The use is a pair of the name of the attribute that is read and the line number.
    """
    found: dict[str, tuple[str, int]] = {}
    nodes = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Attribute)]
    for node in sorted(nodes, key=lambda node: node.lineno):
        if node.attr == "length" and getattr(node.value, "attr", getattr(node.value, "id", "")) != "split":
            continue
        if node.attr in ATTRIBUTES:
            found.setdefault(ATTRIBUTES[node.attr], (node.attr, node.lineno))
    return found


def sizes_read_by(spec: Any) -> dict[str, str]:
    """Return which sizes the policy reads: a dictionary from each kind of size to its first use.

    The use is a text such as `job.spec.map_costs, mine.py, line 7`, or empty for shipped policies.
    """
    parsed = parse_spec(spec, tuple(AXES))
    if parsed.axes is None and is_policy_file(parsed.name):
        path = Path(parsed.name.rpartition(":")[0])
        found = sizes_read_in(path.read_text(encoding="utf-8"))
        return {kind: f"job.spec.{name}, {path.name}, line {line}" for kind, (name, line) in found.items()}
    if parsed.axes is None:
        named = POLICIES[parsed.name]
        axes = getattr(named, "axes", {})
        parts: list[Any] = [AXES[axis][name] for axis, name in axes.items()] if axes else [named]
    else:
        chosen = DEFAULTS | {axis: name for axis, (name, _) in parsed.axes.items()}
        parts = [AXES[axis][name] for axis, name in chosen.items()]
    kinds = dict.fromkeys(kind for part in parts for kind in _kinds(part.factory.__module__))
    if any(isinstance(parameter, ProfilesParameter) for part in parts for parameter in part.parameters):
        kinds[PROFILES] = None
    return dict.fromkeys(kinds, "")


def _kinds(module: str) -> Iterable[str]:
    """Yield the kinds of sizes that a shipped module reads.

    Modules of policies that it imports are also searched.
    """
    todo, known = [module], {module: None}
    while todo:
        source = Path(str(sys.modules[todo.pop()].__file__)).read_text(encoding="utf-8")
        yield from sizes_read_in(source)
        for node in ast.walk(ast.parse(source)):
            name = node.module if isinstance(node, ast.ImportFrom) else None
            if name in sys.modules and name not in known and name.startswith(SHIPPED):
                known[name] = None
                todo.append(name)
