"""The scenario setting `speculation`, which adds copies of slow tasks to any policy.

Values are `none`, `late` (copies the task expected to end last), `spark` (copies tasks much slower than the median of
their stage), or either with parameters, such as `{late: {cap: 0.2}}`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from schedbed.scheduler.policies.late import Late
from schedbed.scheduler.policies.speculation_by_median import SparkSpeculation
from schedbed.scheduler.policy import Policy
from schedbed.scheduler.registry.parameters import (
    PolicyParameter,
    duration,
    multiple,
    number,
    percentile,
    read_parameters,
    share,
)
from schedbed.tasks.errors import BadInput

LATE: tuple[PolicyParameter, ...] = (
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


SPARK: tuple[PolicyParameter, ...] = (
    number(
        "quantile", "0.75", "", "share of a stage's tasks that must be done before others are copied", share
    ),
    number(
        "multiplier",
        "1.5",
        "",
        "how many times as long as the median of its stage a task must run before it is copied",
        multiple,
    ),
    duration("min_runtime", "100ms", "time that a task must run at least before it is copied"),
    duration(
        "threshold",
        "off",
        "time after which a task of a small stage, which fits into the slots of one node, is copied anyway",
    ),
)
KINDS: Mapping[str, tuple[type[Late | SparkSpeculation], tuple[PolicyParameter, ...]]] = {
    "late": (Late, LATE),
    "spark": (SparkSpeculation, SPARK),
}


def make_speculation(given: Any, scale: float = 1.0) -> Late | SparkSpeculation | None:
    """Return the speculation, with durations times `scale`, or None for `none`. Raises BadInput."""
    if given is None or given == "none":
        return None
    name, parameters = given, {}
    if isinstance(given, Mapping) and len(given) == 1:
        [(name, parameters)] = given.items()
    known = KINDS.get(name) if isinstance(name, str) else None
    if known is None or not isinstance(parameters, Mapping | None):
        raise BadInput(
            f"speculation: {given!r} is not one of none, {', '.join(KINDS)}, {{late: {{key: value}}}}"
        )
    return known[0](**read_parameters(f"speculation {name}", known[1], parameters or {}, scale))


def with_speculation(policy: Policy, given: Any, scale: float = 1.0) -> Policy:
    """Set the policy's speculation, with durations times `scale`, and return it."""
    made = make_speculation(given, scale)
    if made is not None:
        made.admission = getattr(policy, "admission", None)
        policy.speculation = made  # type: ignore[attr-defined]
    return policy
