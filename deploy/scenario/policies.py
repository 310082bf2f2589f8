"""The policies of a scenario: each checked by building it, each with the SPEC that names it in every output."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from schedbed.deploy.scenario.check import Complaints
from schedbed.deploy.scenario.models import Profiles
from schedbed.deploy.scenario.resolved import PolicyChoice, ProfilesChoice
from schedbed.scheduler.registry.registry import AXES, build_policy
from schedbed.scheduler.registry.speculation import make_speculation
from schedbed.tasks.errors import BadInput


def resolve_profiles(given: Profiles, base: Path, complaints: Complaints) -> ProfilesChoice:
    """The store by its path, unless it is the user's own; complains when it is not there and nothing makes it."""
    if given.store == "none" and given.learn:
        complaints.add(
            ("profiles", "learn"), "there is no store to keep anything in, expected store: default or a path"
        )
    if given.store in ("default", "none"):
        return ProfilesChoice(store="store" if given.store == "default" else "none", learn=given.learn)
    path = base / Path(given.store).expanduser()
    if "\0" in str(path) or path.is_dir() or not (given.learn or path.is_file()):
        complaints.add(("profiles", "store"), f"no profile store {given.store!r} (looked for {path})")
    return ProfilesChoice(store=str(path), learn=given.learn)


def resolve_policies(
    given: Sequence[Any], complaints: Complaints, store: str = "store"
) -> tuple[PolicyChoice, ...]:
    """The choices in the order given; complains about what cannot be built and about doubles."""
    choices: dict[str, PolicyChoice] = {}
    for index, policy in enumerate(given):
        choice = _choice(policy, index, complaints, store)
        if choice is None:
            continue
        if choice.spec in choices:
            complaints.add(("policies", index), f"{choice.spec!r} is listed twice")
        choices[choice.spec] = choice
    return tuple(choices.values())


def check_speculation(given: Any, complaints: Complaints) -> None:
    """Complains about what is not there."""
    try:
        make_speculation(given)
    except BadInput as error:
        complaints.add(("speculation",), str(error).removeprefix("speculation: "))


def policies_of(given: Sequence[Any]) -> tuple[PolicyChoice, ...]:
    """The choices of `--policy` options; BadInput about the first that cannot be built."""
    for policy in given:
        build_policy(policy)
    return tuple(
        {spec_text(policy): PolicyChoice(spec=spec_text(policy), given=policy) for policy in given}.values()
    )


def spec_text(given: Any) -> str:
    """The SPEC string of a policy as YAML gives it: `{delay: {node_wait: 5s}}` is `delay:node_wait=5s`."""
    if isinstance(given, str):
        return given.strip()
    if all(key in AXES for key in given):
        return ",".join(f"{axis}={_choice_text(choice, '+')}" for axis, choice in given.items())
    return _choice_text(given, ",")


def _choice_text(given: Any, separator: str) -> str:
    if isinstance(given, str):
        return given
    ((name, parameters),) = given.items()
    pairs = separator.join(f"{key}={_text(value)}" for key, value in (parameters or {}).items())
    return f"{name}:{pairs}" if pairs else str(name)


def _choice(policy: Any, index: int, complaints: Complaints, store: str) -> PolicyChoice | None:
    try:
        build_policy(policy, store=store)
    except BadInput as error:
        complaints.add(("policies", index), str(error))
        return None
    return PolicyChoice(spec=spec_text(policy), given=policy)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, separators=(",", ":"))
