"""The policies of a scenario, each built once as a check.

Every output names a policy by its SPEC, a one-line text such as `delay:node_wait=5s`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from schedbed.cluster.spec import ClusterSpec
from schedbed.deploy.scenario.check import Complaints
from schedbed.deploy.scenario.models import Profiles
from schedbed.deploy.scenario.own_code import own_policies
from schedbed.deploy.scenario.resolved import PolicyChoice, ProfilesChoice
from schedbed.deploy.scenario.sections import Change
from schedbed.deploy.scenario.yaml_file import KeyPath
from schedbed.scheduler.driver import PolicyChange
from schedbed.scheduler.hooks import hook
from schedbed.scheduler.registry.policy_spec import is_policy_file, parse_spec
from schedbed.scheduler.registry.registry import AXES, build_policy, is_rigid
from schedbed.scheduler.registry.speculation import make_speculation
from schedbed.scheduler.sizes import make_sizes
from schedbed.tasks.errors import BadInput
from schedbed.tasks.workloads.planned import PlannedJob


def resolve_profiles(given: Profiles, base: Path, complaints: Complaints) -> ProfilesChoice:
    """Return which file of job measurements the policies use, and whether the run adds to the file."""
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
    """Return the policies to run in the given order, each built once as a check.

    Duplicates and policies that cannot be built are errors in `complaints`. `store` is the default file of
    job measurements. A user's policy file is searched in `base`, then in the working folder. `own` has the
    policies, by index in `given`, that a program passed as classes or objects.
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


def check_rigid(
    policies: Sequence[PolicyChoice],
    jobs: Sequence[PlannedJob],
    cluster: ClusterSpec,
    place: KeyPath,
    complaints: Complaints,
) -> None:
    """Check that a policy that starts all maps of a job together, each in a slot, can start all jobs.

    `place` is the place of the jobs in the scenario file.
    """
    rigid = next((choice for choice in policies if choice.make is None and is_rigid(choice.given)), None)
    if rigid is None:
        return
    slots = sum(node.map_slots for node in cluster.nodes)
    large = max(jobs, key=lambda job: job.maps, default=None)
    wide = next((job for job in jobs if job.map_demand.vcores > 1), None)
    if large is not None and large.maps > slots:
        complaints.add(
            place,
            f"{rigid.spec} starts all maps of a job at once, but {large.name} ({large.job}) has {large.maps} maps "
            f"and the cluster {slots} map slots",
        )
    elif wide is not None:
        complaints.add(
            place,
            f"{rigid.spec} counts slots, but the maps of {wide.name} ({wide.job}) have {wide.map_demand.vcores} "
            "vcores: give it more maps instead",
        )


def check_queues(
    policies: Sequence[PolicyChoice], jobs: Sequence[PlannedJob], place: KeyPath, complaints: Complaints
) -> None:
    """Check that each job's queue is one that each policy has, where those declared have the whole cluster."""
    for choice in policies:
        if choice.make is not None or _is_own(choice.given):
            continue
        if not (known := closed_queues(build_policy(choice.given, store="none"))):
            continue
        lost = next((job for job in jobs if job.queue.removeprefix("root.") not in known), None)
        if lost is not None:
            complaints.add(
                place,
                f"the queue {lost.queue!r} of {lost.name} ({lost.job}) would never get a slot from "
                f"{parse_spec(choice.given, tuple(AXES)).name}, whose queues are {', '.join(known)}",
            )
            return


def resolve_changes(
    given: Sequence[Change], policies: Sequence[PolicyChoice], scale: float, complaints: Complaints
) -> tuple[PolicyChange, ...]:
    """Return the changes of the policies in order of time, scaled.

    Each is tried on each policy once; a change that no policy takes is an error in `complaints`.
    """
    shipped = [choice for choice in policies if given and not choice.is_own]
    tried = [build_policy(choice.given, store="none") for choice in shipped]
    for index, change in sorted(enumerate(given), key=lambda each: each[1].at):
        try:
            apply_change(tried, change.given)
        except BadInput as error:
            complaints.add(("changes", index), str(error))
    timed = [PolicyChange(at_s=each.at * scale, given=each.given) for each in given]
    return tuple(sorted(timed, key=lambda each: each.at_s))


def apply_change(policies: Sequence[Any], given: Mapping[str, Any]) -> None:
    """Change those of the policies that have the parameters given.

    Raises BadInput if none has, or for a value that one cannot have.
    """
    takers = [ask for policy in policies if (ask := hook(policy, "change")) is not None]
    try:
        taken = [ask(given) for ask in takers]
    except ValueError as error:
        raise BadInput(str(error)) from None
    if not any(taken):
        raise BadInput(f"no policy here has {' and '.join(given)} to change")


def _is_own(given: Any) -> bool:
    """Return whether the policy is in a user's file."""
    return is_policy_file(parse_spec(given, tuple(AXES)).name)


def guarantees(given: Any) -> Mapping[str, float]:
    """Return the share that a shipped policy promises each queue, from 0 to 1. Raises BadInput for an unknown one."""
    if _is_own(given):
        return {}
    return getattr(getattr(build_policy(given, store="none"), "order", None), "guarantees", {})


def closed_queues(policy: Any) -> tuple[str, ...]:
    """Return the queues to which a policy restricts jobs, () if any queue is accepted."""
    return getattr(getattr(policy, "order", None), "closed_queues", ())


def check_speculation(given: Any, complaints: Complaints) -> None:
    """Check the scenario's key `speculation`, the rule for second attempts of slow tasks."""
    try:
        make_speculation(given)
    except BadInput as error:
        complaints.add(("speculation",), str(error).removeprefix("speculation: "))


def check_sizes(given: Any, complaints: Complaints) -> Any:
    """Check and return the scenario's key `sizes`. YAML's boolean `true` becomes the text `true`."""
    try:
        make_sizes(given)
    except BadInput as error:
        complaints.add(("sizes",), str(error).removeprefix("sizes: "))
    return "true" if given is True else given


def policies_of(given: Sequence[Any]) -> tuple[PolicyChoice, ...]:
    """Return the policies of `--policy` options. Raises BadInput for the first that cannot be built."""
    found = {spec_text(policy): _found(policy, None) for policy in given}
    for policy in found.values():
        _try(policy)
    return tuple(PolicyChoice(spec=spec, given=policy) for spec, policy in found.items())


def spec_text(given: Any) -> str:
    """Return a policy's SPEC: `delay:node_wait=5s` for `{delay: {node_wait: 5s}}`."""
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
    """Build the policy once to check it. A policy from a user's file is built in a separate process."""
    name = parse_spec(policy, tuple(AXES)).name
    if is_policy_file(name):
        own_policies().check(policy)
    else:
        build_policy(policy, store=store)


def _found(policy: Any, base: Path | None) -> Any:
    """Return the policy, with the full path of a user's file, since the JobTracker's working folder is another.

    The file is searched in the folder `base`, then in the working folder.
    """
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
