"""The settings of Hadoop's `<configuration>` files, with their counterparts in a scenario."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from schedbed.deploy.fit.cluster_settings import (
    ClusterSettings,
    Counterpart,
    mebibytes,
    milliseconds,
    number,
    one_of,
    properties,
    shown,
    truth,
    whole,
    xml_of,
)
from schedbed.tasks.errors import BadInput

CAPACITY, FAIR, HADOOP1 = "yarn-capacity", "yarn-fair", "hadoop1-fair"
SCHEDULERS = {
    "yarn.resourcemanager.scheduler.class": {
        "CapacityScheduler": CAPACITY,
        "FairScheduler": FAIR,
        "FifoScheduler": "yarn-fifo",
    },
    "mapred.jobtracker.taskScheduler": {"FairScheduler": HADOOP1, "JobQueueTaskScheduler": "fifo"},
}
_C, _F, _P = (
    "yarn.scheduler.capacity.",
    "yarn.scheduler.fair.",
    "yarn.resourcemanager.monitor.capacity.preemption.",
)
_AM = "yarn.app.mapreduce.am."
SETTINGS = {
    "yarn.nodemanager.resource.memory-mb": Counterpart("node", "memory", mebibytes),
    "yarn.nodemanager.resource.cpu-vcores": Counterpart("node", "cores", whole),
    "yarn.resourcemanager.nodemanagers.heartbeat-interval-ms": Counterpart(
        "cluster", "heartbeat", milliseconds
    ),
    f"{_AM}scheduler.heartbeat.interval-ms": Counterpart("framework", "am_heartbeat", milliseconds),
    f"{_AM}resource.mb": Counterpart("framework", "am_memory", mebibytes),
    f"{_AM}resource.memory-mb": Counterpart("framework", "am_memory", mebibytes),
    f"{_AM}resource.cpu-vcores": Counterpart("framework", "am_vcores", whole),
    "mapreduce.job.reduce.slowstart.completedmaps": Counterpart("framework", "slowstart", number),
    "mapred.reduce.slowstart.completed.maps": Counterpart("framework", "slowstart", number),
    "mapred.tasktracker.map.tasks.maximum": Counterpart("node", "map_slots", whole),
    "mapred.tasktracker.reduce.tasks.maximum": Counterpart("node", "reduce_slots", whole),
    "dfs.blocksize": Counterpart("blocks", "size", lambda text: f"{whole(text)}B"),
    "dfs.replication": Counterpart("blocks", "replication", whole),
    "yarn.scheduler.minimum-allocation-mb": Counterpart(CAPACITY, "minimum_allocation", mebibytes),
    "yarn.scheduler.increment-allocation-mb": Counterpart(FAIR, "increment_allocation", mebibytes),
    "yarn.resource-types.memory-mb.increment-allocation": Counterpart(
        FAIR, "increment_allocation", mebibytes
    ),
    f"{_F}assignmultiple": Counterpart(FAIR, "assign_multiple", truth),
    f"{_F}dynamic.max.assign": Counterpart(FAIR, "dynamic_max_assign", truth),
    f"{_F}preemption": Counterpart(FAIR, "preemption", truth),
    f"{_F}preemption.cluster-utilization-threshold": Counterpart(
        FAIR, "preemption_cluster_utilization_threshold", number
    ),
    f"{_F}locality.threshold.node": Counterpart(FAIR, "locality_threshold_node", number),
    f"{_F}locality.threshold.rack": Counterpart(FAIR, "locality_threshold_rack", number),
    f"{_F}reservable-nodes": Counterpart(FAIR, "reservable_nodes", number),
    f"{_F}waitTimeBeforeKill": Counterpart(FAIR, "wait_time_before_kill", milliseconds),
    f"{_C}resource-calculator": Counterpart(
        CAPACITY,
        "resource_calculator",
        lambda text: {"DefaultResourceCalculator": "default", "DominantResourceCalculator": "dominant"}[
            text.rpartition(".")[2]
        ],
    ),
    f"{_C}node-locality-delay": Counterpart(CAPACITY, "node_locality_delay", whole),
    f"{_C}rack-locality-additional-delay": Counterpart(CAPACITY, "rack_locality_additional_delay", whole),
    f"{_C}rack-locality-full-reset": Counterpart(CAPACITY, "rack_locality_full_reset", truth),
    f"{_C}per-node-heartbeat.maximum-offswitch-assignments": Counterpart(
        CAPACITY, "maximum_offswitch_assignments", whole
    ),
    f"{_C}maximum-am-resource-percent": Counterpart(CAPACITY, "maximum_am_resource_percent", number),
    f"{_C}max-parallel-apps": Counterpart(CAPACITY, "max_parallel_apps", whole),
    f"{_P}monitoring_interval": Counterpart("preemption", "monitoring_interval", milliseconds),
    f"{_P}max_wait_before_kill": Counterpart("preemption", "max_wait_before_kill", milliseconds),
    f"{_P}total_preemption_per_round": Counterpart("preemption", "total_preemption_per_round", number),
    f"{_P}natural_termination_factor": Counterpart("preemption", "natural_termination_factor", number),
    f"{_P}max_ignored_over_capacity": Counterpart("preemption", "max_ignored_over_capacity", number),
    f"{_P}intra-queue-preemption.enabled": Counterpart("intra_queue_preemption", "enabled", truth),
    f"{_P}intra-queue-preemption.max-allowable-limit": Counterpart(
        "intra_queue_preemption", "max_allowable_limit", number
    ),
    f"{_P}intra-queue-preemption.minimum-threshold": Counterpart(
        "intra_queue_preemption", "minimum_threshold", number
    ),
    "yarn.resourcemanager.scheduler.monitor.enable": Counterpart("monitor", "enabled", truth),
    "mapred.fairscheduler.preemption": Counterpart("hadoop1", "preemption", truth),
    "mapred.fairscheduler.preemption.interval": Counterpart(HADOOP1, "look", milliseconds),
    "mapred.fairscheduler.poolnameproperty": Counterpart(
        HADOOP1,
        "pool_by",
        one_of({"user.name": "user", "mapred.job.queue.name": "queue", "queue.name": "queue"}),
    ),
    "mapred.fairscheduler.locality.delay": Counterpart("hadoop1", "locality_delay", whole),
}
MEMORY = {
    "mapreduce.map.memory.mb": Counterpart("workload", "map_memory", mebibytes),
    "mapreduce.reduce.memory.mb": Counterpart("workload", "reduce_memory", mebibytes),
}
SPECULATION = re.compile(r"mapred(uce)?\.(map|reduce)(\.speculative|\.tasks\.speculative\.execution)$")
QUEUE = {
    "capacity": Counterpart("", "capacity", number),
    "maximum-capacity": Counterpart("", "maximum_capacity", number),
    "user-limit-factor": Counterpart("", "user_limit_factor", number),
    "minimum-user-limit-percent": Counterpart("", "minimum_user_limit_percent", number),
    "ordering-policy": Counterpart("", "ordering_policy"),
    "maximum-am-resource-percent": Counterpart("", "maximum_am_resource_percent", number),
    "max-parallel-apps": Counterpart("", "max_parallel_apps", whole),
    "priority": Counterpart("", "priority", whole),
    "disable_preemption": Counterpart("", "disable_preemption", truth),
    "intra-queue-preemption.disable_preemption": Counterpart(
        "", "intra_queue_preemption", lambda text: not truth(text)
    ),
}
"""Settings of a queue in capacity-scheduler.xml."""


def read_configuration(path: Path, text: str, reading: ClusterSettings) -> None:
    """Read the `<configuration>` of capacity-scheduler.xml or one of the site files. Raises BadInput."""
    queues: dict[str, str] = {}
    for name, value in properties(path, xml_of(path, text)):
        if name in SCHEDULERS:
            _read_scheduler(path, name, value, reading)
        elif name.startswith(f"{_C}root."):
            queues[name] = value
        elif name in SETTINGS:
            reading.take(path.name, name, value, SETTINGS[name])
        elif name in MEMORY:
            reading.take(path.name, name, value, MEMORY[name])
        elif SPECULATION.fullmatch(name):
            _read_speculation(path, name, value, reading)
        elif name.startswith(("yarn.scheduler.", "yarn.resourcemanager.monitor.", "mapred.fairscheduler.")):
            reading.lacks(path.name, name, value)
        else:
            reading.lacks(path.name, name, value, "not of scheduling, or not simulated")
    if queues:
        _read_queues(path, queues, reading)


def _read_scheduler(path: Path, name: str, value: str, reading: ClusterSettings) -> None:
    kind = value.rpartition(".")[2]
    known = SCHEDULERS[name]
    if kind not in known:
        raise BadInput(f"{path.name}: {name}: {value!r}, expected one of {', '.join(known)}")
    reading.policy = known[kind]
    reading.note(path.name, name, value, f"policy {reading.policy}")


def _read_speculation(path: Path, name: str, value: str, reading: ClusterSettings) -> None:
    try:
        speculates = truth(value)
    except KeyError:
        raise BadInput(f"{path.name}: {name}: {value!r}, expected true or false") from None
    if speculates:
        reading.section("scenario")["speculation"] = "late"
        reading.note(path.name, name, value, "speculation: late (LATE, not Hadoop's own rule)")
    else:
        reading.note(path.name, name, value, "no speculation")


def _read_queues(path: Path, settings: dict[str, str], reading: ClusterSettings) -> None:
    """Read the tree of queues of capacity-scheduler.xml, from `root.queues` down."""
    left = {name.removeprefix(_C): value for name, value in settings.items()}
    reading.queues = set()
    tree = _read_queue(path, "root", left, reading)
    reading.section(CAPACITY)["queues"] = tree.get("queues", {})
    for key in (
        "user_limit_factor",
        "minimum_user_limit_percent",
        "maximum_am_resource_percent",
        "ordering_policy",
    ):
        if key in tree:
            reading.section(CAPACITY)[key] = tree[key]
    for name, value in left.items():
        reading.lacks(path.name, f"{_C}{name}", value, "of a queue that no `queues` lists")


def _read_queue(path: Path, queue: str, left: dict[str, str], reading: ClusterSettings) -> dict[str, Any]:
    """Return the settings of a queue and those below, and remove them from `left`."""
    names = [name.strip() for name in left.pop(f"{queue}.queues", "").split(",") if name.strip()]
    found: dict[str, Any] = {}
    below = {name: _read_queue(path, f"{queue}.{name}", left, reading) for name in names}
    for name in [each for each in left if each.startswith(f"{queue}.")]:
        value, key = left.pop(name), name.removeprefix(f"{queue}.")
        weight = re.fullmatch(r"user-settings\.(.+)\.weight", key)
        setting = QUEUE.get(key)
        if weight:
            found.setdefault("user_settings", {})[weight[1]] = {"weight": number(value)}
            reading.note(path.name, f"{_C}{name}", value, f"{queue}: weight of {weight[1]}")
        elif setting is None or (key.endswith("capacity") and not _is_percent(value)):
            why = "" if setting is None else "an absolute or weighted capacity, where only % are simulated"
            reading.lacks(path.name, f"{_C}{name}", value, why)
        elif queue == "root" and key in ("capacity", "maximum-capacity"):
            reading.note(path.name, f"{_C}{name}", value, "the whole cluster")
        else:
            try:
                found[setting.key] = setting.read(value)
            except (ValueError, KeyError):
                raise BadInput(f"{path.name}: {_C}{name}: {value!r} is no value of this setting") from None
            reading.note(
                path.name, f"{_C}{name}", value, f"{queue}: {setting.key}={shown(found[setting.key])}"
            )
    if below:
        found["queues"] = below
    elif queue != "root" and reading.queues is not None:
        reading.queues.add(queue.removeprefix("root."))
    return found


def _is_percent(value: str) -> bool:
    try:
        return float(value) >= 0
    except ValueError:
        return False


def complete(reading: ClusterSettings) -> None:
    """Turn what has a counterpart only together with other settings into parameters of the policies."""
    sections = reading.sections
    monitor, settings = sections.pop("monitor", {}), sections.pop("preemption", {})
    inside = sections.pop("intra_queue_preemption", {})
    if monitor.get("enabled"):
        reading.section(CAPACITY)["preemption"] = settings or "on"
        if inside.get("enabled"):
            reading.section(CAPACITY)["intra_queue_preemption"] = inside
    old = sections.pop("hadoop1", {})
    if not old.get("preemption"):
        for key in ("min_share_timeout", "fair_share_timeout"):
            if sections.get(HADOOP1, {}).pop(key, None) is not None:
                reading.lacks(
                    "mapred-site.xml", key, "set", "preemption is off: mapred.fairscheduler.preemption"
                )
    if old.get("locality_delay", -1) >= 0:
        wait = f"{old['locality_delay']}ms"
        reading.section(HADOOP1).update(node_wait=wait, rack_wait=wait)
