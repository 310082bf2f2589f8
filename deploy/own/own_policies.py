"""Policies that a Python program passes as classes or objects instead of names."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import fields, is_dataclass
from functools import partial
from typing import Any

from schedbed.deploy.scenario.own_code import OwnPolicies
from schedbed.deploy.scenario.resolved import PolicyChoice
from schedbed.deploy.side_by_side import apart
from schedbed.deploy.worker_fork import ApartFailed, CutOff, Send
from schedbed.scheduler.guard.guarded_policy import guarded
from schedbed.scheduler.guard.user_file import load_policy_file
from schedbed.scheduler.policy import Policy, PolicyFailed
from schedbed.scheduler.registry.policy_spec import parse_spec
from schedbed.scheduler.registry.registry import AXES, build_policy
from schedbed.tasks.errors import BadInput

PLAIN = (bool, int, float, str, type(None))


def own_choices(given: Sequence[Any]) -> dict[int, PolicyChoice]:
    """Return a dictionary from index in `given` to `PolicyChoice`, for each class and each object in `given`.

    Strings and mappings in `given` are skipped. A choice is named after the policy's class; a second choice
    of a class with the same name is called `Name-2`. Raises BadInput for a value that is not a policy.
    """
    taken = {policy.strip() for policy in given if isinstance(policy, str)}
    found: dict[int, PolicyChoice] = {}
    for index, policy in enumerate(given):
        if isinstance(policy, str | Mapping):
            continue
        make = _maker(policy)
        name = _class_of(policy).__name__
        number = sum(spec == name or spec.startswith(f"{name}-") for spec in taken) + 1
        spec = f"{name}-{number}" if number > 1 else name
        taken.add(spec)
        found[index] = PolicyChoice(spec=spec, given=_spec_or_label(policy), make=make)
    return found


def check_policy(policy: Any) -> None:
    """Implement `OwnPolicies.check`."""
    from schedbed.deploy.simulated.confined_policies import check_confined, is_isolated

    name = parse_spec(policy, tuple(AXES)).name
    if is_isolated():
        try:
            check_confined(policy)
        except PolicyFailed as error:
            raise BadInput(f"policy {name!r}: {error}") from None
        return

    def build(_: Send) -> None:
        build_policy(policy)

    try:
        apart(build, file=name.rpartition(":")[0])
    except (CutOff, ApartFailed) as error:
        raise BadInput(f"policy {name!r}: {error}") from None


OWN_POLICIES = OwnPolicies(own_choices, check_policy)


def live_spec(policy: Any) -> str | dict[str, Any]:
    """Return a SPEC, a policy in text form, from which another process can create the same policy.

    The SPEC of a class is the path of its file with the name of the class. An object must be a dataclass with
    plain values (numbers, strings, booleans or None), which become parameters. Raises BadInput, with the
    reason, if there is no such SPEC.
    """
    made = _class_of(policy)
    name = made.__qualname__
    where = getattr(sys.modules.get(made.__module__), "__file__", None)
    if made.__module__ == "__main__" or not where or "." in name:
        why = "a live run loads the policy in another process, which cannot see this program"
        raise BadInput(
            f"policy {name}: {why}: put the class at the top of a file of its own and import the class"
        )
    spec = f"{where}:{name}"
    if policy is made:
        load_policy_file(spec, {}, 1.0)
        return spec
    parameters = _parameters(policy)
    if parameters is None or _parameters(_made(spec, parameters)) != parameters:
        why = "a live run cannot take this object to another process"
        example = f"{{{spec!r}: {{parameter: value}}}}"
        raise BadInput(f"policy {name}: {why}: make the class a dataclass of plain values, or give {example}")
    return {spec: parameters} if parameters else spec


def _class_of(policy: Any) -> type:
    return policy if isinstance(policy, type) else type(policy)


def _maker(policy: Any) -> Callable[[], Policy]:
    """Return a function that creates a new policy object, given a policy's class or an object to copy.

    Raises BadInput if `policy` is neither, or if it is a class that cannot be created without arguments.
    """
    if not callable(getattr(policy, "decide", None)):
        raise BadInput(
            f"policy {policy!r}: expected a SPEC, a class with a decide method, or an object of such a class"
        )
    if isinstance(policy, type):
        make: Callable[[], Policy] = policy
    else:
        original = deepcopy(policy)

        def make() -> Policy:
            return deepcopy(original)

    made = _class_of(policy)
    try:
        guarded(make, made)
    except PolicyFailed as error:
        raise BadInput(
            f"policy {made.__name__}: cannot be made without arguments ({error}), expected an object"
        ) from error
    return partial(guarded, make, made)


def _made(spec: str, parameters: Mapping[str, Any]) -> Any:
    """Create a policy object from its SPEC (the policy in text form) and its parameters.

    A live run does the same in another process.
    """
    policy: Any = load_policy_file(spec, parameters, 1.0)
    return policy.own


def _parameters(policy: Any) -> dict[str, Any] | None:
    """Return the constructor arguments of a policy object, as a dictionary from name to value.

    Return None if the object is no dataclass, or if a value is not a number, a string, a boolean or None.
    """
    if not is_dataclass(policy):
        return None
    values = {field.name: getattr(policy, field.name) for field in fields(policy) if field.init}
    return values if all(isinstance(value, PLAIN) for value in values.values()) else None


def _spec_or_label(policy: Any) -> Any:
    """Return the policy as stored in run.json: its SPEC (text form), or else its full class name.

    Only a policy that has a SPEC can be used in live runs.
    """
    try:
        return live_spec(policy)
    except BadInput:
        made = _class_of(policy)
        return f"{made.__module__}.{made.__qualname__}"
