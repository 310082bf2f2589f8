"""Policies for test scenarios, drawn from a seed: registered policies and compositions of axes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from itertools import product
from pathlib import Path
from random import Random
from typing import Any

from schedbed.scheduler.hooks import hook
from schedbed.scheduler.registry.parameters import PolicyParameter
from schedbed.scheduler.registry.registry import AXES, POLICIES, build_policy
from schedbed.tasks.errors import BadInput

ROOT = Path(__file__).parents[2]
OWN = (
    "examples/policies/axes.py:PoorestFirst",
    "examples/policies/by_chance.py:ByChance",
    "examples/policies/earliest_deadline.py:EarliestDeadline",
    "examples/policies/own_late.py:OwnLate",
    "examples/policies/shortest_remaining.py:ShortestRemaining",
    "examples/policies/two_levels.py:TwoLevels",
    "tests/search/oracles/wild_policy.py:Wild",
)
"""Users' policies: the examples, and one with mostly invalid proposals."""
USERS = ("ana", "bo", "cy")
QUEUES = ("default", "etl")

_VALUES: dict[str, Sequence[Any]] = {
    "node_wait": ("0s", "1s", "4s"),
    "rack_wait": ("0s", "1s", "4s"),
    "wait": ("0s", "1s", "3s"),
    "clock": ("heartbeats", "wall"),
    "reset": ("full", "launch"),
    "pools": (
        {"ana": {"weight": 2, "min_share": 1}},
        {"ana": {"min_share": 2}, "bo": {"inside": "fifo"}, "default": {"min_share": 1, "weight": 3}},
    ),
    "pool_by": ("user", "queue"),
    "inside": ("fair", "fifo"),
    "min_share_timeout": ("1s", "3s"),
    "fair_share_timeout": ("2s", "5s"),
    "p": ("0", "0.25", "0.7", "1", "auto"),
    "keep_copy": (True,),
    "copy_budget": (0.2, 1.0),
    "stall_timeout": ("2s", "10s"),
    "queues": (
        {"default": {"capacity": 60}, "etl": {"capacity": 40}},
        {"etl": {"capacity": 30, "max_capacity": 50}},
    ),
    "clusters": ({"ana": {"nodes": 1}}, {"bo": {"nodes": 2}, "default": {"nodes": 1}}),
    "parts": (1, 3),
    "cluster_by": ("user", "queue"),
    "accounts": ({"ana": {"budget": 2, "bid": 3}}, {"bo": {"bid": 5}, "cy": {"budget": 20}}),
    "interval": ("2s", "6s"),
    "preempt": (True, False),
    "alpha": (0, 0.9),
    "window": (0, 3),
    "probe": (1, 3),
    "classes": (1, 3),
    "batches": (1, 3),
    "bound": (0.01,),
    "users": ({"ana": {"min_share": 2}, "cy": {"weight": 3}},),
    "remaining": ("mean", "progress"),
    "user_limit_factor": (1, 2),
    "backfill": (True, False),
    "reserve": ("slots", "nodes"),
    "reservations": (1, 2, "all"),
    "depth": (1, 3),
    "kill_wait": ("0s", "5s"),
    "minimum_user_limit_percent": (25, 100),
    "learn": (1, 3),
}
"""Values of parameters by name; other parameters keep their defaults."""

_LIMITS = {"max_resources": {"memory": "2GiB"}, "max_running_apps": 2}
_OWN_VALUES: dict[str, dict[str, Sequence[Any]]] = {
    "yarn-fair": {
        "queues": (
            {"etl": {"weight": 0}, "default": {"min_resources": {"memory": "1GiB", "vcores": 1}}},
            {"default": {"weight": 2, "scheduling_policy": "fifo"}, "etl": _LIMITS},
            {"etl": {"allow_preemption_from": False, "weight": 3}},
        ),
        "users": ({"ana": {"max_running_apps": 1}},),
        "scheduling_policy": ("fair", "drf"),
        "assign_multiple": (True, False),
        "locality_threshold_node": (-1, 0, 0.5, 1),
        "locality_threshold_rack": (0, 0.5, 1),
        "increment_allocation": ("64MiB", "1GiB"),
        "reservable_nodes": (0.05, 1),
        "preemption": (True, False),
        "preemption_cluster_utilization_threshold": (0, 0.8),
        "wait_time_before_kill": ("0s", "4s"),
        "fair_share_preemption_threshold": (0.5, 1),
        "fair_share_preemption_timeout": ("1s", "5s"),
        "min_share_preemption_timeout": ("1s", "3s"),
    },
    "yarn-capacity": {
        "queues": (
            {"default": {"capacity": 60}, "etl": {"capacity": 40, "maximum_capacity": 70}},
            {"etl": {"capacity": 30, "ordering_policy": "fair", "user_settings": {"ana": {"weight": 2}}}},
            {"default": {"capacity": 50, "priority": 2}, "etl": {"capacity": 10, "disable_preemption": True}},
        ),
        "users": ({"ana": {"max_parallel_apps": 1}},),
        "user_limit_factor": (-1, 0.5, 1, 3),
        "max_parallel_apps": (1, 3),
        "ordering_policy": ("utilization", "priority-utilization"),
        "resource_calculator": ("default", "dominant"),
        "minimum_allocation": ("64MiB", "1GiB"),
        "maximum_offswitch_assignments": (1, 4),
        "preemption": ("off", {"max_wait_before_kill": "1s", "natural_termination_factor": 1}),
        "intra_queue_preemption": ("off", "on"),
    },
    "yarn-capacity-wait": {
        "node_locality_delay": (0, 1, 40),
        "rack_locality_additional_delay": (-1, 0, 3),
        "rack_locality_full_reset": (True, False),
    },
}
_OWN_VALUES["yarn-capacity"] |= _OWN_VALUES["yarn-capacity-wait"]  # Of the preset.
"""Values of parameters that mean something else under a policy or an order, by the name of that."""


_LATER: dict[str, Sequence[Any]] = {
    **_VALUES,
    "node_wait": ("0s", "1s", "2s"),
    "rack_wait": ("0s", "1s", "2s"),
    "queues": (
        {"default": {"capacity": 60}, "etl": {"capacity": 40, "max_capacity": 45}},
        {
            "default": {"capacity": 50, "max_capacity": 60, "priorities": False},
            "etl": {"capacity": 20, "max_capacity": 40},
        },
        {"etl": {"capacity": 30, "user_limit_factor": 0.5, "minimum_user_limit_percent": 25}},
    ),
}
"""Values of parameters in stories from seed LATER on."""


@cache
def policy_names() -> tuple[str, ...]:
    """Return the registered names, and `order+locality+admission` for each composition, but for YARN's with slots.

    Those orders count a user's maps and reduces together, and with slots nothing takes a reduce back, so that maps
    can wait for ever for room that their own reduces hold.
    """
    slots = [name for name in AXES["admission"] if hook(build_policy(f"admission={name}"), "limits").slots]
    composed = (
        "+".join(names)
        for names in product(*AXES.values())
        if not (AXES["order"][names[0]].admission == "containers" and names[2] in slots)
    )
    return (*POLICIES, *composed)


def made(spec: Any) -> Any:
    """Return the policy of a SPEC, which is a name with parameters as in a scenario.

    The path of a user's file is relative to the project's root.
    """
    return build_policy(str(ROOT / spec) if spec in OWN else spec)


def draw_policy(luck: Random, names: Sequence[str] | None = None) -> Any:
    """Return a random SPEC (a policy's name with parameters) that the registry accepts.

    The name is drawn from `names` (default: `policy_names`).
    """
    name = luck.choice(list(names or policy_names()))
    if "+" not in name:
        spec: Any = {name: _draw(luck, POLICIES[name].parameters, _VALUES | _OWN_VALUES.get(name, {}))}
        return spec if _builds(spec) else name
    parts: dict[str, str] = dict(zip(("order", "locality", "admission"), name.split("+"), strict=True))
    values = {part: _VALUES | _OWN_VALUES.get(part, {}) for part in parts.values()}
    spec = {
        axis: {part: _draw(luck, AXES[axis][part].parameters, values[part])} for axis, part in parts.items()
    }
    return spec if _builds(spec) else parts


def draw_later_policy(luck: Random) -> Any:
    """Return a random SPEC (a policy's name with parameters).

    20% are users' policies, 20% are from `draw_policy`, and the others are compositions of axes that have
    references.
    """
    kind = luck.random()
    if kind < 0.2:
        return luck.choice(OWN)
    if kind < 0.4:
        return draw_policy(luck)
    return draw_referenced(luck)


def draw_referenced(luck: Random) -> Any:
    """Return a random composition of axes that have references."""
    order = luck.choice(("fifo", "fair", "fair", "capacity", "capacity"))
    locality, admission = (
        luck.choice(("greedy", "delay", "delay", "split")),
        luck.choice(("slots",) * 3 + ("containers",)),
    )
    parts = {"order": order, "locality": locality, "admission": admission}
    spec = {
        axis: {part: _draw(luck, AXES[axis][part].parameters, _LATER, 0.8)} for axis, part in parts.items()
    }
    return spec if _builds(spec) else parts


def _draw(
    luck: Random,
    parameters: Iterable[PolicyParameter],
    values: Mapping[str, Sequence[Any]] = _VALUES,
    share: float = 0.5,
) -> dict[str, Any]:
    """Return random values for about `share` of the parameters; `values` has the choices by name."""
    chosen = {p.name: luck.choice(values[p.name]) for p in parameters if p.name in values}
    return {name: value for name, value in chosen.items() if luck.random() < share}


def _builds(spec: Any) -> bool:
    try:
        build_policy(spec)
    except BadInput:
        return False
    return True


def with_rare_settings(luck: Random, policy: Any) -> Any:
    """Return the SPEC `policy`, sometimes changed to rare settings.

    These are a learned split share, slots of a fixed memory size, queues without a share, and limits of
    off-rack maps.
    """
    if not isinstance(policy, dict) or "order" not in policy:
        return policy
    if "split" in policy["locality"] and luck.random() < 0.6:
        chosen: Any = policy["locality"]["split"] if isinstance(policy["locality"], dict) else {}
        waits = {"node_wait": "30s"} if luck.random() < 0.4 else {}
        policy = {**policy, "locality": {"split": {**chosen, "p": "auto", **waits}}}
    if "capacity" not in policy["order"]:
        return policy
    asked: Any = policy["order"]["capacity"] if isinstance(policy["order"], dict) else {}
    rare: dict[str, Any] = {}
    if luck.random() < 0.5:
        rare["map_slot_memory"] = luck.choice(("512MiB", "1GiB"))
    if luck.random() < 0.5:
        rare["reduce_slot_memory"] = luck.choice(("512MiB", "1GiB"))
    if luck.random() < 0.4:
        rare["queues"] = luck.choice(
            ({"default": {"capacity": 100}}, {"etl": {"capacity": 100, "max_capacity": 100}})
        )
    if luck.random() < 0.3:
        rare["off_switch_per_heartbeat"] = luck.choice((0, 1, 2))
    spec = {**policy, "order": {"capacity": {**asked, **rare}}}
    return spec if _builds(spec) else policy
