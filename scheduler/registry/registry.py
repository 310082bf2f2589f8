"""The registry of policies and axes, and construction of a policy from a SPEC.

The registry finds policies and axes in the files that declare them (as `POLICY` and `AXIS`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from schedbed.scheduler.policies.explained import Explained
from schedbed.scheduler.policy import Composed, Policy
from schedbed.scheduler.registry.declarations import Axis, Declared, Named, Needs, Whole
from schedbed.scheduler.registry.parameters import hint, read_parameters
from schedbed.scheduler.registry.policy_spec import ParsedSpec, parse_spec
from schedbed.scheduler.registry.profile_parameters import with_opened_store, with_store
from schedbed.scheduler.registry.user_file import is_policy_file, load_policy_file
from schedbed.tasks.discover import declared
from schedbed.tasks.errors import BadInput

DEFAULTS = {"order": "fifo", "locality": "greedy", "admission": "slots"}
"""The implementation of each axis that a composition uses by default."""
FOLDERS = tuple(f"schedbed.scheduler.{name}" for name in (*DEFAULTS, "policies"))
"""The packages in which axes and policies are declared."""


WITHHELD: dict[str, Needs] = {}
"""The missing dependency of each policy or axis that is not listed, by name."""


def _keeps(each: Declared) -> bool:
    """Return whether the optional dependency of a declared policy or axis is installed.

    If not, store the dependency in `WITHHELD` under the name of the policy or axis.
    """
    lacks = each.lacks
    if lacks is not None:
        WITHHELD[each.name] = lacks
    return lacks is None


def _unknown(name: str, known: Mapping[str, object]) -> str:
    """Return the end of an error message about an unknown policy or axis `name`.

    The text contains the extra to install if an optional dependency is missing, else the known names.
    """
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
    """Return a copy of the declared policy with the parameters of its three axes added.

    A policy without axes (`Whole`) is returned unchanged.
    """
    if isinstance(policy, Whole):
        return policy
    if not isinstance(policy, Named):
        raise TypeError(f"POLICY {policy.name} is neither Named nor Whole")
    given = (p for axis, name in policy.axes.items() for p in AXES[axis][name].parameters)
    return replace(policy, parameters=tuple(given))


AXES = _axes()
"""The implementations of each axis, by name."""
POLICIES = _policies()
"""The published policies, by name."""


def build_policy(spec: str | Mapping[str, Any], *, scale: float = 1.0, store: str = "store") -> Policy:
    """Return the policy that the SPEC describes.

    Durations in the SPEC and in default values are multiplied by `scale`, the scenario's factor on durations.
    `store` is the profile store to use if the SPEC does not set one: `store` (the user's own), `none`, or a
    path. Raises BadInput if the SPEC is wrong.
    """
    parsed = parse_spec(spec, tuple(AXES))
    if parsed.axes is not None:
        return _compose(parsed, scale, store)
    if is_policy_file(parsed.name):
        return load_policy_file(parsed.name, parsed.parameters, scale)
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
    for axis, default in DEFAULTS.items():
        name, given = (parsed.axes or {}).get(axis, (default, {}))
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


def _composed(where: str, chosen: Sequence[Axis], made: Sequence[Any]) -> Policy:
    """Return the policy composed of the order, locality and admission in `made`.

    `chosen` contains the declarations of these three objects. Raises BadInput, with `where` at the start of
    the message, if the objects cannot be combined.
    """
    order, locality, admission = made
    for axis in chosen:
        if axis.check is not None:
            try:
                axis.check(order, locality, admission)
            except ValueError as error:
                raise BadInput(f"{where}: {error}") from None
    plain = Explained if Explained.suits(*made) else Composed
    compose = next((axis.compose for axis in reversed(chosen) if axis.compose is not None), plain)
    return compose(order, locality, admission)
