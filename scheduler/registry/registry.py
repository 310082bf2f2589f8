"""The registry of policies and axes, found in the files that declare them, and construction from a SPEC."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from schedbed.scheduler.policies.explained import Explained
from schedbed.scheduler.policy import Composed, Policy
from schedbed.scheduler.profiles import ProfileStore, default_store
from schedbed.scheduler.registry.declarations import Axis, Declared, FileLoader, Named, Needs, Whole
from schedbed.scheduler.registry.parameters import PolicyParameter, ProfilesParameter, hint, read_parameters
from schedbed.scheduler.registry.policy_spec import Choice, ParsedSpec, is_policy_file, parse_spec
from schedbed.tasks.discover import declared
from schedbed.tasks.errors import BadInput

DEFAULTS = {"order": "fifo", "locality": "greedy", "admission": "slots"}
"""The implementation of each axis that a composition uses by default."""
FOLDERS = tuple(f"schedbed.scheduler.{name}" for name in (*DEFAULTS, "policies"))
"""The packages in which axes and policies are declared."""


WITHHELD: dict[str, Needs] = {}
"""The missing dependency of each policy or axis that is not listed, by name."""


def _keeps(each: Declared) -> bool:
    """Return whether the optional dependency is installed. If not, store it in `WITHHELD`."""
    lacks = each.lacks
    if lacks is not None:
        WITHHELD[each.name] = lacks
    return lacks is None


def _unknown(name: str, known: Mapping[str, object]) -> str:
    """Return the end of a message about an unknown name: the extra to install, or the known names."""
    needs = WITHHELD.get(name)
    if needs is None:
        return f"is unknown{hint(name, known)}"
    return f"is unknown without {needs.module}: pip install 'schedbed[{needs.extra}]'"


def _axes() -> dict[str, dict[str, Axis]]:
    found = [axis for folder in FOLDERS for axis in declared(folder, "AXIS", Axis) if _keeps(axis)]
    found.sort(key=lambda axis: (axis.rank, axis.name))
    return {name: {axis.name: axis for axis in found if axis.axis == name} for name in DEFAULTS}


def _policies() -> dict[str, Named | Whole]:
    found = [
        policy for folder in FOLDERS for policy in declared(folder, "POLICY", Declared) if _keeps(policy)
    ]
    found.sort(key=lambda policy: (policy.rank, policy.name))
    return {policy.name: _filled(policy) for policy in found}


def _filled(policy: Declared) -> Named | Whole:
    """Return the declared policy with the parameters of its three axes, if it has axes, and with its defaults."""
    if not isinstance(policy, Named | Whole):
        raise TypeError(f"POLICY {policy.name} is neither Named nor Whole")
    of_axes = [p for axis, name in policy.axes.items() for p in AXES[axis][name].parameters]
    given = [*policy.parameters, *of_axes]
    unknown = policy.defaults.keys() - {p.name for p in given}
    if unknown:
        raise TypeError(
            f"POLICY {policy.name} has a default of {', '.join(unknown)}, which it has no parameter for"
        )
    given = [replace(p, default=policy.defaults.get(p.name, p.default)) for p in given]
    return replace(policy, parameters=tuple(given))


AXES = _axes()
"""The implementations of each axis, by name."""
POLICIES = _policies()
"""The published policies, by name."""


@cache
def _file_loader() -> FileLoader:
    return declared("schedbed.scheduler.guard", "LOADER", FileLoader)[0]


def build_policy(spec: str | Mapping[str, Any], *, scale: float = 1.0, store: str = "store") -> Policy:
    """Return the policy that the SPEC describes, with durations times `scale`. Raises BadInput.

    `store` is the profile store to use if the SPEC sets none: `store` (the user's own), `none`, or a path.
    """
    parsed = parse_spec(spec, tuple(AXES))
    if parsed.axes is not None:
        return _compose(parsed, scale, store)
    if is_policy_file(parsed.name):
        return _file_loader().load(parsed.name, parsed.parameters, scale)
    named = POLICIES.get(parsed.name)
    if named is None:
        raise BadInput(f"policy {parsed.name!r} {_unknown(parsed.name, POLICIES)}")
    where = f"policy {parsed.name}"
    given = with_opened_store(named.parameters, parsed.parameters, store)
    values = read_parameters(where, named.parameters, given, scale)
    if isinstance(named, Whole):
        return named.factory(**values)
    chosen = [AXES[axis][name] for axis, name in named.axes.items()]
    made = [axis.factory(**{p.argument: values[p.argument] for p in axis.parameters}) for axis in chosen]
    return _composed(where, chosen, made)


def shipped_axis(axis: str, name: str, **arguments: Any) -> Any:
    """Return a shipped order, locality or admission, for use in a user's policy.

    `axis` is order, locality or admission, and `name` the name of the implementation. `arguments` are passed
    to its constructor, with times in seconds; missing arguments have their default values. Raises ValueError
    for an unknown name.

    Example: `shipped_axis("locality", "delay", node_wait_s=5.0)`
    """
    known = AXES.get(axis, {}).get(name)
    if known is None:
        raise ValueError(f"there is no {axis} {name!r}, expected one of {', '.join(AXES.get(axis, AXES))}")
    return known.factory(**{**read_parameters(f"{axis} {name}", known.parameters, {}, 1.0), **arguments})


def reads_store(spec: str | Mapping[str, Any]) -> bool:
    """Return whether the policy that the SPEC describes reads profiles from the default profile store."""
    parsed = parse_spec(spec, tuple(AXES))
    if parsed.axes is not None:
        asked = [(AXES[axis][name].parameters, given) for axis, (name, given) in parsed.axes.items()]
    else:
        asked = [(POLICIES[parsed.name].parameters, parsed.parameters)] if parsed.name in POLICIES else []
    return any(with_store(parameters, given, "none") != given for parameters, given in asked)


def _compose(parsed: ParsedSpec, scale: float, store: str) -> Policy:
    chosen: list[Axis] = []
    made: list[Any] = []
    for axis, (name, given) in _all_axes(parsed.axes or {}).items():
        known = AXES[axis].get(name)
        if known is None:
            if isinstance(POLICIES.get(name), Whole):
                raise BadInput(f"policy: {name} decides on all three axes: give it alone, not as {axis}")
            raise BadInput(f"policy: {axis} {name!r} {_unknown(name, AXES[axis])}")
        given = with_opened_store(known.parameters, given, store)
        chosen.append(known)
        made.append(
            known.factory(**read_parameters(f"policy: {axis} {name}", known.parameters, given, scale))
        )
    return _composed("policy", chosen, made)


def _all_axes(given: Mapping[str, Choice]) -> dict[str, Choice]:
    """Return a composition's axes, with the usual ones where none is given."""
    order = AXES["order"].get(given["order"][0]) if "order" in given else None
    usual = DEFAULTS if order is None else {**DEFAULTS, "admission": order.admission}
    return {axis: given.get(axis, (name, {})) for axis, name in usual.items()}


def _composed(where: str, chosen: Sequence[Axis], made: Sequence[Any]) -> Policy:
    """Compose a policy of order, locality and admission. Raises BadInput that begins with `where`."""
    order, locality, admission = made
    for axis in chosen:
        if axis.check is not None:
            try:
                axis.check(order, locality, admission)
            except ValueError as error:
                raise BadInput(f"{where}: {error}") from None
    for axis in reversed(chosen):
        policy = None if axis.compose is None else axis.compose(order, locality, admission)
        if policy is not None:
            return policy
    return (Explained if Explained.suits(*made) else Composed)(order, locality, admission)


# Functions that set which profile store a policy reads (the policy parameter `profiles`).
#
# A profile store is a file with values measured in earlier runs.


def with_store(parameters: Iterable[PolicyParameter], given: Mapping[str, Any], store: str) -> dict[str, Any]:
    """Return the values with a profile store where none is given; a path without a file means `none`."""
    if store not in ("store", "none") and not Path(store).is_file():
        store = "none"
    asked = _asked(parameters)
    return {**given, **{name: store for name in asked if given.get(name, "store") == "store"}}


def with_opened_store(
    parameters: Iterable[PolicyParameter], given: Mapping[str, Any], store: str
) -> dict[str, Any]:
    """Return the values of `with_store`, with a `ProfileStore` in place of each name or path."""
    named = with_store(parameters, given, store)
    return {**named, **{name: _opened(named[name]) for name in _asked(parameters)}}


def _asked(parameters: Iterable[PolicyParameter]) -> list[str]:
    return [each.name for each in parameters if isinstance(each, ProfilesParameter)]


def _opened(raw: Any) -> Any:
    if raw == "store":
        return ProfileStore(default_store())
    return ProfileStore(Path(raw)) if isinstance(raw, str) and Path(raw).is_file() else raw


# Detection of which sizes a policy reads, by a search of its source code.
#
# Sizes are the costs of tasks, the lengths of inputs, and profiles of earlier runs.

COSTS, INPUTS, PROFILES = "costs of tasks", "lengths of inputs", "profiles of earlier runs"
ATTRIBUTES = {
    "map_costs": COSTS,
    "reduce_costs": COSTS,
    "input_bytes": INPUTS,
    "length": INPUTS,
}
SHIPPED = (*FOLDERS, "schedbed.scheduler.models")


def sizes_read_in(source: str) -> dict[str, tuple[str, int]]:
    """Return {kind of size: its first use in the source, as (attribute, line)}."""
    found: dict[str, tuple[str, int]] = {}
    nodes = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Attribute)]
    for node in sorted(nodes, key=lambda node: node.lineno):
        if node.attr == "length" and getattr(node.value, "attr", getattr(node.value, "id", "")) != "split":
            continue
        if node.attr in ATTRIBUTES:
            found.setdefault(ATTRIBUTES[node.attr], (node.attr, node.lineno))
    return found


def is_rigid(spec: Any) -> bool:
    """Return whether the policy starts all maps of a job together. A user's policy is not known to do so."""
    return any(part.rigid for part in _parts_of(parse_spec(spec, tuple(AXES))))


def _parts_of(parsed: ParsedSpec) -> list[Any]:
    """Return the declarations of the axes of a policy, or of the policy if it has none; none of a user's file."""
    if parsed.axes is not None:
        return [AXES[axis][name] for axis, (name, _) in _all_axes(parsed.axes).items()]
    if is_policy_file(parsed.name):
        return []
    named = POLICIES[parsed.name]
    return [AXES[axis][name] for axis, name in named.axes.items()] or [named]


def sizes_read_by(spec: Any) -> dict[str, str]:
    """Return {kind of size: its first use}, such as `job.spec.map_costs, mine.py, line 7`; "" if shipped."""
    parsed = parse_spec(spec, tuple(AXES))
    if parsed.axes is None and is_policy_file(parsed.name):
        path = Path(parsed.name.rpartition(":")[0])
        found = sizes_read_in(path.read_text(encoding="utf-8"))
        return {kind: f"job.spec.{name}, {path.name}, line {line}" for kind, (name, line) in found.items()}
    parts: Sequence[Any] = _parts_of(parsed)
    kinds = dict.fromkeys(kind for part in parts for kind in _kinds(part.factory.__module__))
    if any(isinstance(parameter, ProfilesParameter) for part in parts for parameter in part.parameters):
        kinds[PROFILES] = None
    return dict.fromkeys(kinds, "")


def _kinds(module: str) -> Iterable[str]:
    """Yield the kinds of sizes that a shipped module reads. Modules of policies that it imports are also searched."""
    todo, known = [module], {module: None}
    while todo:
        source = Path(str(sys.modules[todo.pop()].__file__)).read_text(encoding="utf-8")
        yield from sizes_read_in(source)
        for node in ast.walk(ast.parse(source)):
            name = node.module if isinstance(node, ast.ImportFrom) else None
            if name in sys.modules and name not in known and name.startswith(SHIPPED):
                known[name] = None
                todo.append(name)
