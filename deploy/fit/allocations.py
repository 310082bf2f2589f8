"""The allocation files of fair schedulers: YARN's and Hadoop 1's fair-scheduler.xml, Spark's fairscheduler.xml."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any
from xml.etree.ElementTree import Element

from schedbed.deploy.fit.cluster_settings import (
    ClusterSettings,
    Counterpart,
    children,
    number,
    seconds,
    shown,
    truth,
    whole,
    xml_of,
)
from schedbed.deploy.fit.hadoop import FAIR, HADOOP1
from schedbed.tasks.errors import BadInput

SPARK = "spark-fair"


def _amount(text: str) -> dict[str, Any]:
    """Parse `4096 mb, 4 vcores` or `memory-mb=4096, vcores=4`. Raises ValueError, also for percentages."""
    found: dict[str, Any] = {}
    for part in text.lower().split(","):
        named = re.fullmatch(r"\s*(memory-mb|vcores)\s*=\s*([\d.]+)\s*|\s*([\d.]+)\s*(mb|vcores)\s*", part)
        if named is None:
            raise ValueError(text)
        kind, amount = named[1] or named[4], named[2] or named[3]
        if kind == "vcores":
            found["vcores"] = whole(amount)
        else:
            found["memory"] = f"{whole(amount)}MiB"
    return found


def _am_share(text: str) -> Any:
    return -1 if float(text) < 0 else number(text)


_POLICY = {"fair": "fair", "drf": "drf", "fifo": "fifo", "fairsharepolicy": "fair"}
YARN_QUEUE = {
    "minResources": Counterpart("", "min_resources", _amount),
    "maxResources": Counterpart("", "max_resources", _amount),
    "maxChildResources": Counterpart("", "max_child_resources", _amount),
    "maxRunningApps": Counterpart("", "max_running_apps", whole),
    "maxAMShare": Counterpart("", "max_am_share", _am_share),
    "weight": Counterpart("", "weight", number),
    "schedulingPolicy": Counterpart(
        "", "scheduling_policy", lambda text: _POLICY[text.lower().rpartition(".")[2]]
    ),
    "schedulingMode": Counterpart("", "scheduling_policy", lambda text: _POLICY[text.lower()]),
    "allowPreemptionFrom": Counterpart("", "allow_preemption_from", truth),
    "fairSharePreemptionThreshold": Counterpart("", "fair_share_preemption_threshold", number),
    "fairSharePreemptionTimeout": Counterpart("", "fair_share_preemption_timeout", seconds),
    "minSharePreemptionTimeout": Counterpart("", "min_share_preemption_timeout", seconds),
}
YARN_ALL = {
    "queueMaxAppsDefault": Counterpart(FAIR, "max_running_apps", whole),
    "queueMaxResourcesDefault": Counterpart(FAIR, "max_resources", _amount),
    "queueMaxAMShareDefault": Counterpart(FAIR, "max_am_share", _am_share),
    "defaultFairSharePreemptionThreshold": Counterpart(FAIR, "fair_share_preemption_threshold", number),
    "defaultFairSharePreemptionTimeout": Counterpart(FAIR, "fair_share_preemption_timeout", seconds),
    "fairSharePreemptionTimeout": Counterpart(FAIR, "fair_share_preemption_timeout", seconds),
    "defaultMinSharePreemptionTimeout": Counterpart(FAIR, "min_share_preemption_timeout", seconds),
    "defaultQueueSchedulingPolicy": Counterpart(
        FAIR, "scheduling_policy", lambda text: _POLICY[text.lower()]
    ),
    "defaultQueueSchedulingMode": Counterpart(FAIR, "scheduling_policy", lambda text: _POLICY[text.lower()]),
}
YARN_USER = {"maxRunningApps": Counterpart("", "max_running_apps", whole)}
HADOOP1_USER = {"maxRunningJobs": Counterpart("", "max_running", whole)}
HADOOP1_POOL = {
    "minMaps": Counterpart("min_share", "map", whole),
    "minReduces": Counterpart("min_share", "reduce", whole),
    "maxMaps": Counterpart("max_share", "map", whole),
    "maxReduces": Counterpart("max_share", "reduce", whole),
    "weight": Counterpart("", "weight", number),
    "maxRunningJobs": Counterpart("", "max_running", whole),
    "schedulingMode": Counterpart("", "inside", str.lower),
    "minSharePreemptionTimeout": Counterpart("", "min_share_timeout", seconds),
}
HADOOP1_ALL = {
    "defaultMinSharePreemptionTimeout": Counterpart(HADOOP1, "min_share_timeout", seconds),
    "fairSharePreemptionTimeout": Counterpart(HADOOP1, "fair_share_timeout", seconds),
    "defaultPoolSchedulingMode": Counterpart(HADOOP1, "inside", str.lower),
}
SPARK_POOL = {
    "schedulingMode": Counterpart("", "inside", str.lower),
    "weight": Counterpart("", "weight", whole),
    "minShare": Counterpart("", "min_share", whole),
}


def read_allocations(path: Path, text: str, reading: ClusterSettings) -> None:
    """Read an allocation file. Whose it is, is told by the scheduler in other files, else by its elements."""
    root = xml_of(path, text)
    tags = {each.tag for each in root.iter()}
    if "minShare" in tags or (reading.policy.startswith("spark") and "pool" in tags):
        _read_spark(path, root, reading)
    elif tags & {
        "minMaps",
        "maxMaps",
        "minReduces",
        "maxReduces",
        "maxRunningJobs",
        "defaultPoolSchedulingMode",
    }:
        _read_pools(path, root, reading)
    else:
        _read_yarn(path, root, reading)


def _read_yarn(path: Path, root: Element, reading: ClusterSettings) -> None:
    reading.policy = reading.policy or FAIR
    queues: dict[str, Any] = {}
    users: dict[str, Any] = {}
    for tag, text, element in children(root):
        if tag in ("queue", "pool"):
            queues[_name(path, element)] = _yarn_queue(path, element, reading)
        elif tag == "user":
            _take_all(path, element, YARN_USER, users, reading)
        elif tag in YARN_ALL:
            try:
                reading.take(path.name, tag, text, YARN_ALL[tag])
            except BadInput:
                reading.lacks(path.name, tag, text, "not in MB and vcores")
        elif tag == "queuePlacementPolicy":
            reading.lacks(path.name, tag, "...", "the queues in the history are used")
        else:
            reading.lacks(path.name, tag, text)
    if queues:
        reading.section(FAIR)["queues"] = queues
    if users:
        reading.section(FAIR)["users"] = users


def _yarn_queue(path: Path, queue: Element, reading: ClusterSettings) -> dict[str, Any]:
    found: dict[str, Any] = {}
    name = _name(path, queue)
    for tag, text, element in children(queue):
        if tag in ("queue", "pool"):
            found.setdefault("queues", {})[_name(path, element)] = _yarn_queue(path, element, reading)
        else:
            _take_in(path, f"queue {name}", tag, text, YARN_QUEUE, found, reading)
    return found


def _take_in(
    path: Path,
    owner: str,
    tag: str,
    text: str,
    known: dict[str, Counterpart],
    found: dict[str, Any],
    reading: ClusterSettings,
) -> None:
    """Read a setting of a queue or pool into `found`, or list it as one without counterpart."""
    setting = known.get(tag)
    if setting is None:
        return reading.lacks(path.name, f"{owner}: {tag}", text)
    try:
        value = setting.read(text)
    except (ValueError, KeyError):
        return reading.lacks(path.name, f"{owner}: {tag}", text, "not a value that is simulated")
    target = found.setdefault(setting.section, {}) if setting.section else found
    target[setting.key] = value
    return reading.note(
        path.name, f"{owner}: {tag}", text, f"{setting.section or setting.key}={shown(value)}"
    )


def _take_all(
    path: Path,
    element: Element,
    known: dict[str, Counterpart],
    named: dict[str, Any],
    reading: ClusterSettings,
) -> dict[str, Any]:
    """Read all settings of a pool or user into a new entry of `named`, and return the entry."""
    name = _name(path, element)
    found = named[name] = dict[str, Any]()
    for key, value, _ in children(element):
        _take_in(path, f"{element.tag} {name}", key, value, known, found, reading)
    return found


def _name(path: Path, element: Element) -> str:
    name = element.get("name", "").strip()
    if not name:
        raise BadInput(f"--conf {path}: a {element.tag} without a name")
    return name


def _read_pools(path: Path, root: Element, reading: ClusterSettings) -> None:
    """Read Hadoop 1's file."""
    reading.policy = reading.policy or HADOOP1
    pools: dict[str, Any] = {}
    for tag, text, element in children(root):
        if tag == "pool":
            found = _take_all(path, element, HADOOP1_POOL, pools, reading)
            for share, other in (("min_share", 0), ("max_share", 10_000)):
                if share in found:
                    found[share] = {"map": other, "reduce": other} | found[share]
        elif tag == "user":
            users = reading.section(HADOOP1).setdefault("users", {})
            _take_all(path, element, HADOOP1_USER, users, reading)
        elif tag in HADOOP1_ALL:
            reading.take(path.name, tag, text, HADOOP1_ALL[tag])
        else:
            reading.lacks(path.name, tag, text)
    reading.section(HADOOP1)["pools"] = pools


def _read_spark(path: Path, root: Element, reading: ClusterSettings) -> None:
    reading.policy = reading.policy or SPARK
    pools: dict[str, Any] = {}
    for tag, text, element in children(root):
        if tag == "pool":
            _take_all(path, element, SPARK_POOL, pools, reading)
        else:
            reading.lacks(path.name, tag, text)
    reading.section(SPARK)["pools"] = pools
