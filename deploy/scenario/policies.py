"""The policies of a scenario, each checked by building it and named by a SPEC in every output."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from schedbed.deploy.scenario.check import Complaints
from schedbed.deploy.scenario.models import Profiles
from schedbed.deploy.scenario.resolved import PolicyChoice, ProfilesChoice
from schedbed.deploy.side_by_side import apart
from schedbed.deploy.worker_fork import ApartFailed, CutOff, Send
from schedbed.scheduler.registry.policy_spec import parse_spec
from schedbed.scheduler.registry.registry import AXES, build_policy
from schedbed.scheduler.registry.speculation import make_speculation
from schedbed.scheduler.registry.user_file import is_policy_file
from schedbed.scheduler.sizes import make_sizes
from schedbed.tasks.errors import BadInput


def resolve_profiles(given: Profiles, base: Path, complaints: Complaints) -> ProfilesChoice:
    """Return the choice of a profile store, with its path if it is not the user's default store.

    A complaint is added if the store neither exists nor will be created by the run.
    """
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
    given: Sequence[Any],
    complaints: Complaints,
    store: str = "store",
    *,
    base: Path | None = None,
    own: Mapping[int, PolicyChoice] | None = None,
) -> tuple[PolicyChoice, ...]:
    """Return the policy choices in the given order, checked by building each policy.

    Duplicates and policies that cannot be built are added to the complaints. A policy's file is searched in
    `base`, then in the working folder. `own` has, by index, the choices for policies that a program gave as
    classes or objects.
    """
    choices: dict[str, PolicyChoice] = {}
    for index, policy in enumerate(given):
        choice = (own or {}).get(index) or _choice(policy, index, complaints, store, base)
        if choice is None:
            continue
        if choice.spec in choices:
            complaints.add(("policies", index), f"{choice.spec!r} is listed twice")
        choices[choice.spec] = choice
    return tuple(choices.values())


def check_speculation(given: Any, complaints: Complaints) -> None:
    """Add a complaint if there is no speculation with this name and these parameters."""
    try:
        make_speculation(given)
    except BadInput as error:
        complaints.add(("speculation",), str(error).removeprefix("speculation: "))


def check_sizes(given: Any, complaints: Complaints) -> Any:
    """Return the value of the key `sizes`, with `true` as text; add a complaint if the value is not valid."""
    try:
        make_sizes(given)
    except BadInput as error:
        complaints.add(("sizes",), str(error).removeprefix("sizes: "))
    return "true" if given is True else given


def policies_of(given: Sequence[Any]) -> tuple[PolicyChoice, ...]:
    """Return the choices for the values of `--policy` options.

    Raises BadInput for the first that cannot be built.
    """
    found = {spec_text(policy): _found(policy, None) for policy in given}
    for policy in found.values():
        _try(policy)
    return tuple(PolicyChoice(spec=spec, given=policy) for spec, policy in found.items())


def spec_text(given: Any) -> str:
    """Return the SPEC of a policy given in YAML: `delay:node_wait=5s` for `{delay: {node_wait: 5s}}`."""
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


def _choice(
    policy: Any, index: int, complaints: Complaints, store: str, base: Path | None
) -> PolicyChoice | None:
    try:
        found = _found(policy, base)
        _try(found, store)
    except BadInput as error:
        complaints.add(("policies", index), str(error))
        return None
    return PolicyChoice(spec=spec_text(policy), given=found)


def _try(policy: Any, store: str = "store") -> None:
    """Build the policy once as a check, in a separate process if it is in a user's file.

    Raises BadInput on failure.
    """
    name = parse_spec(policy, tuple(AXES)).name
    if not is_policy_file(name):
        build_policy(policy, store=store)
        return

    def build(_: Send) -> None:
        build_policy(policy)

    try:
        apart(build, file=name.rpartition(":")[0])
    except (CutOff, ApartFailed) as error:
        raise BadInput(f"policy {name!r}: {error}") from None


def _found(policy: Any, base: Path | None) -> Any:
    """Return the policy with its file's full path, since the JobTracker has another working folder."""
    name = parse_spec(policy, tuple(AXES)).name
    if not is_policy_file(name):
        return policy
    path = Path(name).expanduser()
    folders = (folder for folder in (base, Path.cwd()) if folder is not None)
    whole = next((folder / path for folder in folders if _is_there(folder / path)), path)
    if isinstance(policy, str):
        return f"{whole}{policy.strip()[len(name) :]}"
    return {str(whole): policy[name]}


def _is_there(named: Path) -> bool:
    """Return whether the file of `path/to/file.py:ClassName` exists."""
    try:
        return Path(str(named).rpartition(":")[0]).is_file()
    except OSError:  # The name may be too long, for example.
        return False


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, separators=(",", ":"))
