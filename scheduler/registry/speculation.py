"""The scenario setting `speculation`, which adds copies of slow tasks to any policy.

Values are `none`, `late` (copies the task expected to end last), or `{late: {cap: 0.2}}`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from schedbed.scheduler.policies.late import Late
from schedbed.scheduler.policy import Policy
from schedbed.scheduler.registry.parameters import (
    PolicyParameter,
    duration,
    number,
    percentile,
    read_parameters,
    share,
)
from schedbed.tasks.errors import BadInput

PARAMETERS: tuple[PolicyParameter, ...] = (
    number("cap", "0.1", "", "share of the slots that copies of slow tasks may use: 0.1 is a tenth", share),
    number(
        "slow_task",
        "25",
        "%",
        "percentile of the speeds of a job's maps, or of its reduces, below which a task counts as slow",
        percentile,
    ),
    number(
        "slow_node",
        "25",
        "%",
        "percentile of the speeds of all nodes below which a node runs no copies",
        percentile,
    ),
    duration("min_runtime", "60s", "time that a task must run before it can count as slow"),
)


def make_speculation(given: Any, scale: float = 1.0) -> Late | None:
    """Return the speculation, with durations times `scale`, or None for `none`. Raises BadInput."""
    if given is None or given == "none":
        return None
    name, parameters = given, {}
    if isinstance(given, Mapping) and len(given) == 1:
        [(name, parameters)] = given.items()
    if name != "late" or not isinstance(parameters, Mapping | None):
        raise BadInput(f"speculation: {given!r} is not one of none, late, {{late: {{key: value}}}}")
    return Late(**read_parameters("speculation late", PARAMETERS, parameters or {}, scale))


def with_speculation(policy: Policy, given: Any, scale: float = 1.0) -> Policy:
    """Set the policy's speculation, with durations times `scale`, and return it."""
    late = make_speculation(given, scale)
    if late is not None:
        late.admission = getattr(policy, "admission", None)
        policy.speculation = late  # type: ignore[attr-defined]
    return policy
