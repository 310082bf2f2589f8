"""The recorded settings of YARN's schedulers, as policies: rows and pairs of `tests.pages.agrees`.

The settings are those of `runs.py` in the folder of the recordings; the README there explains their names.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

LEAST = {"minimum_allocation": "256MiB"}
W1 = {"u0": 20, "u1": 16, "u2": 16, "u3": 16, "u4": 16, "u5": 16}
U3 = {"u1": 34, "u2": 33, "u3": 33}
U4 = {"u1": 25, "u2": 25, "u3": 25, "u4": 25}
ABCD = {"a": 25, "b": 25, "c": 25, "d": 25}
ABD = {"a": 20, "b": 40, "d": 40}
HB200 = ("cluster.heartbeat=200ms",)
MIN = {"d": {"min_resources": {"memory": "4GiB", "vcores": 4}}}
PREEMPTS = {"preemption": True, "min_share_preemption_timeout": "3s", "fair_share_preemption_timeout": "6s"}
ROUNDS = {
    "monitoring_interval": "1s",
    "max_wait_before_kill": "2s",
    "total_preemption_per_round": 1,
    "natural_termination_factor": 1,
}


class YarnRow(NamedTuple):
    """A workload under a setting, its rule, and the policy. `most`: the largest mean error of a job that is allowed."""

    workload: str
    setting: str
    rule: str
    policy: Any
    most: float
    sets: tuple[str, ...] = ()
    scenario: str = ""


def fair(**settings: Any) -> Any:
    return {"yarn-fair": settings} if settings else "yarn-fair"


def waits(threshold: float) -> Any:
    return fair(locality_threshold_node=threshold, locality_threshold_rack=threshold)


def capacity(shares: Mapping[str, int], of_each: Mapping[str, Any] | None = None, **settings: Any) -> Any:
    """Return the CapacityScheduler with these capacities, and a user-limit-factor of 10 unless `of_each` has one."""
    each = {"user_limit_factor": 10, **(of_each or {})}
    queues = {name: {"capacity": share, **each} for name, share in shares.items()}
    return {"yarn-capacity": {**LEAST, "queues": queues, **settings}}


def two(share: int, of_each: Mapping[str, Any] | None = None, **settings: Any) -> Any:
    """Return the CapacityScheduler with the queues q1, which has the share, and q2, which has the rest."""
    return capacity({"q1": share, "q2": 100 - share}, of_each, **settings)


ONE_USER = {"user_limit_factor": 1}
DEFAULT = capacity({"default": 100}, ONE_USER)
ALONE = {"yarn-capacity": {"queues": {"default": {"capacity": 100}}}}
HALF = {"minimum_user_limit_percent": 50}
FIFO = "FifoScheduler"
FAIR = "FairScheduler"
CAP = "CapacityScheduler"


def _rows() -> Iterator[YarnRow]:
    for workload in ("w1", "y1", "y2", "y3", "y4", "y5"):
        yield YarnRow(workload, "fifo", FIFO, "yarn-fifo", 0.1)
    for workload in ("w1", "y1", "y2", "w3", "y3", "y5"):
        yield YarnRow(workload, "fair", FAIR, "yarn-fair", 0.1)
    for workload, shares in (("w1", W1), ("y1", U3), ("y2", ABCD)):
        yield YarnRow(workload, "capacity", CAP, capacity(shares), 0.1)
    for workload in ("w1", "y1"):
        yield YarnRow(workload, "cap1", "one queue", DEFAULT, 0.1, scenario=f"{workload}one")
    yield YarnRow("y2", "fair-w31", "weight 3 of queue b", fair(queues={"b": {"weight": 3}}), 0.1)
    yield YarnRow("y2", "fair-min", "min resources", fair(queues=MIN), 0.1)
    killing = fair(queues=MIN, wait_time_before_kill="1s", **PREEMPTS)
    yield YarnRow("y2", "fair-minpre", "preemption", killing, 0.15)
    inside = fair(queues={name: {"scheduling_policy": "fifo"} for name in "abcd"})
    yield YarnRow("y2", "fair-inside-fifo", "fifo inside the queues", inside, 0.1)
    for workload in ("y2", "y5"):
        yield YarnRow(workload, "fair-drf", "dominant resource fairness", fair(scheduling_policy="drf"), 0.1)
    yield YarnRow("w3", "fair-loc0", "thresholds of 0", waits(0), 0.15)
    yield YarnRow("w3", "fair-loc0.5", "thresholds of 0.5", waits(0.5), 0.15)
    for workload in ("w3", "y3"):
        yield YarnRow(workload, "fair-loc1", "thresholds of 1", waits(1), 0.15)
    for workload, shares in (("w3", U3), ("y3", U4)):
        yield YarnRow(
            workload,
            "cap-nld0",
            "node-locality-delay 0",
            capacity(shares, node_locality_delay=0),
            0.15,
        )
        yield YarnRow(workload, "cap-nld40", "node-locality-delay 40", capacity(shares), 0.15)
    yield YarnRow("w3", "cap-nld6", "node-locality-delay 6", capacity(U3, node_locality_delay=6), 0.15)
    racks = capacity(U4, node_locality_delay=6, rack_locality_additional_delay=6)
    yield YarnRow("y3", "cap-nld6-rack6", "6, and 6 more off-rack", racks, 0.15)
    yield from _queues_of_two()
    yield YarnRow(
        "y5", "cap-drc", "DominantResourceCalculator", capacity(U3, resource_calculator="dominant"), 0.1
    )
    yield from _variations()
    yield YarnRow("y6", "fair", "min resources", fair(queues=MIN), 0.1)
    yield YarnRow("y6", "fair-minpre", "preemption after 1 s", killing, 0.15)
    yield YarnRow("y6", "fair-minpre15", "preemption after 15 s", fair(queues=MIN, **PREEMPTS), 0.15)
    yield YarnRow("y6", "cap", CAP, capacity(ABD), 0.1)
    yield YarnRow("y6", "cap-pre", "preemption", capacity(ABD, preemption=ROUNDS), 0.15)
    yield from _out_of_band()


def _queues_of_two() -> Iterator[YarnRow]:
    for share in (70, 50):
        yield YarnRow("y4", f"c{share}-u1", f"{share}%, user-limit-factor 1", two(share, ONE_USER), 0.1)
        yield YarnRow("y4", f"c{share}-u10", f"{share}%, user-limit-factor 10", two(share), 0.1)
        least = two(share, ONE_USER, minimum_allocation="1GiB")
        yield YarnRow("y4", f"c{share}-u1-min1024", "the default smallest container", least, 0.1)
    yield YarnRow(
        "y4", "c70-u10-fairorder", "ordering-policy fair", two(70, {"ordering_policy": "fair"}), 0.1
    )
    yield YarnRow("y4", "c30-u10", "30%, user-limit-factor 10", two(30), 0.1)
    yield YarnRow("y4", "c30-u10-pre", "preemption", two(30, preemption=ROUNDS), 0.15)
    yield YarnRow("y4", "c50-u10-mulp50", "minimum-user-limit-percent 50", two(50, HALF), 0.1)
    least = two(50, HALF, minimum_allocation="1GiB")
    yield YarnRow("y4", "c50-u10-mulp50-min1024", "the same, default smallest container", least, 0.1)


def _variations() -> Iterator[YarnRow]:
    often = "nodes' heartbeats of 200 ms"
    for workload, name, policy in (
        ("w1", "fifo", "yarn-fifo"),
        ("y1", "fifo", "yarn-fifo"),
        ("y2", "fair", "yarn-fair"),
        ("w3", "fair", "yarn-fair"),
        ("y4", "c70-u10", two(70)),
    ):
        yield YarnRow(workload, f"{name}-hb200", often, policy, 0.1, HB200)
    yield YarnRow("y1", "fifo-am200", "AMs' heartbeats of 200 ms", "yarn-fifo", 0.1)
    yield YarnRow("y2", "fair-am200", "AMs' heartbeats of 200 ms", "yarn-fair", 0.1)
    all_fit = fair(assign_multiple=True, dynamic_max_assign=False)
    yield YarnRow("y2", "fair-multiple", "assignmultiple", all_fit, 0.1)
    yield YarnRow(
        "y4",
        "c70-u10-off100",
        "any number of off-switch containers",
        two(70, maximum_offswitch_assignments=100),
        0.1,
    )
    once = "no late asks"
    for workload in ("y1", "y2", "y4"):
        yield YarnRow(workload, "fifo-once", once, "yarn-fifo", 0.1)
    for workload in ("y1", "y2"):
        yield YarnRow(workload, "fair-once", once, "yarn-fair", 0.1)
    yield YarnRow("y1", "cap1-once", once, DEFAULT, 0.1, scenario="y1one")
    yield YarnRow("y4", "c70-u10-once", once, two(70), 0.1)
    yield YarnRow("y3", "fair-single", "an AM that binds containers one by one", "yarn-fair", 0.1)
    # As recorded, half of a node's memory is one container; in the scenarios of w1 and w3, a third.
    halves = ("cluster.node.reduce_slots=0",)
    for workload, increment, sets in (
        ("w1", "64MiB", halves),
        ("y1", "256MiB", ()),
        ("y2", "256MiB", ()),
        ("w3", "64MiB", halves),
    ):
        policy = fair(increment_allocation=increment)
        yield YarnRow(workload, "fair-inc256", "reservations on full nodes", policy, 0.15, sets)


def _out_of_band() -> Iterator[YarnRow]:
    for workload in ("w1", "y1", "y2", "y4"):
        yield YarnRow(workload, "fifo-oob", FIFO, "yarn-fifo", 0.05)
    for workload in ("w1", "y1", "y2", "w3"):
        yield YarnRow(workload, "fair-oob", FAIR, "yarn-fair", 0.12 if workload == "w1" else 0.1)
    for workload, shares in (("w1", W1), ("y1", U3), ("y2", ABCD)):
        yield YarnRow(workload, "capacity-oob", CAP, capacity(shares), 0.1)
    yield YarnRow("w3", "fair-loc1-oob", "thresholds of 1", waits(1), 0.15)
    yield YarnRow("w3", "cap-nld40-oob", "node-locality-delay 40", capacity(U3), 0.15)
    yield YarnRow("y4", "c70-u10-oob", "70%, user-limit-factor 10", two(70), 0.1)
    yield YarnRow("y4", "c50-u1-oob", "50%, user-limit-factor 1", two(50, ONE_USER), 0.1)
    for workload in ("y1", "y4"):
        yield YarnRow(workload, "fifo-once-oob", "no late asks", "yarn-fifo", 0.05)


def rows() -> list[YarnRow]:
    """Return the rows, runs with ends told out of band first, since they are nearer to a cluster."""
    return sorted(_rows(), key=lambda row: not row.setting.endswith("-oob"))


PAIRS = (
    ("w1", "fifo-oob", "fair-oob"),
    ("w1", "fair-oob", "capacity-oob"),
    ("y1", "fifo-oob", "fair-oob"),
    ("y1", "fair-oob", "capacity-oob"),
    ("y2", "fifo-oob", "fair-oob"),
    ("y2", "fair-oob", "capacity-oob"),
    ("w3", "fair-oob", "fair-loc1-oob"),
    ("w3", "fair-oob", "cap-nld40-oob"),
    ("y4", "fifo-oob", "c70-u10-oob"),
    ("y4", "c70-u10-oob", "c50-u1-oob"),
    ("y2", "fair", "fair-w31"),
    ("w3", "cap-nld0", "cap-nld40"),
    ("y3", "fair", "cap-nld40"),
    ("y4", "c30-u10", "c30-u10-pre"),
    ("y4", "c70-u1", "c70-u10"),
    ("y5", "fifo", "fair"),
    ("y5", "fair", "cap-drc"),
    ("y6", "fair", "fair-minpre"),
    ("y6", "fair", "cap"),
    ("y6", "cap", "cap-pre"),
)
"""Pairs of settings of one workload, of which one is better: workload, first and second setting."""
LIVE = frozenset(
    {
        ("y1", "fifo-oob"),
        ("y1", "fair-oob"),
        ("y1", "capacity-oob"),
        ("y2", "fair-oob"),
        ("y4", "c70-u10-oob"),
        ("w3", "cap-nld40-oob"),
    }
)
"""Rows that are also run live, with the protocol: workload and setting."""
