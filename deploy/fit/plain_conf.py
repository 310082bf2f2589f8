"""Configuration files of lines: slurm.conf and spark-defaults.conf."""

from __future__ import annotations

import re
from pathlib import Path

from schedbed.deploy.fit.cluster_settings import (
    ClusterSettings,
    Counterpart,
    one_of,
    seconds,
    truth,
    whole,
)
from schedbed.tasks.errors import BadInput

BACKFILL, FCFS = "slurm-backfill", "slurm-fcfs"


def _spark_time(text: str) -> str:
    """Parse a time of Spark's, in which a number alone is in milliseconds."""
    return f"{whole(text)}ms" if text.isdigit() else text


BF = {
    "bf_interval": Counterpart(BACKFILL, "interval", seconds),
    "bf_max_job_test": Counterpart(BACKFILL, "depth", whole),
    "bf_job_part_count_reserve": Counterpart(BACKFILL, "reservations", lambda text: whole(text) or "all"),
    "bf_resolution": Counterpart(BACKFILL, "resolution", seconds),
}
"""Settings in `SchedulerParameters`."""
SPARK = {
    "spark.scheduler.revive.interval": Counterpart("spark", "revive", _spark_time),
    "spark.locality.wait": Counterpart("spark", "wait", _spark_time),
    "spark.locality.wait.legacyResetOnTaskLaunch": Counterpart(
        "spark", "reset", lambda text: "launch" if truth(text) else "full"
    ),
    "spark.locality.wait.rack": Counterpart("spark", "rack_wait", _spark_time),
    "spark.speculation": Counterpart(
        "scenario", "speculation", lambda text: "spark" if truth(text) else "none"
    ),
    "spark.executor.cores": Counterpart("node", "map_slots", whole),
}


def read_slurm(path: Path, text: str, reading: ClusterSettings) -> None:
    """Read slurm.conf: nodes, partitions and the scheduler. Raises BadInput."""
    nodes: list[tuple[int, int, int]] = []
    for line in text.replace("\\\n", " ").splitlines():
        line = line.partition("#")[0].strip()
        pairs = {key.lower(): value for key, value in re.findall(r"(\w+)=(\S+)", line)}
        if not pairs:
            continue
        first = line.partition("=")[0].lower()
        if first == "nodename":
            nodes += _nodes(path, pairs, reading)
        elif first == "partitionname":
            reading.lacks(path.name, "PartitionName", pairs["partitionname"], "all jobs share all nodes")
        elif first == "schedulertype":
            kinds = {"sched/backfill": BACKFILL, "sched/builtin": FCFS}
            if pairs["schedulertype"] not in kinds:
                raise BadInput(
                    f"{path.name}: SchedulerType: {pairs['schedulertype']!r}, expected {', '.join(kinds)}"
                )
            reading.policy = kinds[pairs["schedulertype"]]
            reading.note(path.name, "SchedulerType", pairs["schedulertype"], f"policy {reading.policy}")
        elif first == "schedulerparameters":
            for each in line.partition("=")[2].split(","):
                name, _, value = each.strip().partition("=")
                if name in BF:
                    reading.take(path.name, name, value, BF[name])
                else:
                    reading.lacks(path.name, name, value or "on")
        elif first in ("prioritytype", "overtimelimit", "preempttype", "selecttype", "selecttypeparameters"):
            name, _, value = line.partition("=")
            plain = {"priority/basic", "select/cons_tres", "cr_cpu", "preempt/none", "0", "select/cons_res"}
            if value.lower() in plain:
                reading.note(path.name, name, value, "as simulated")
            else:
                reading.lacks(path.name, name, value)
    if nodes:
        cpus, memory = max((cpus, memory) for _, cpus, memory in nodes)
        reading.section("cluster")["nodes"] = sum(count for count, _, _ in nodes)
        reading.section("node").update(cores=cpus, map_slots=cpus, reduce_slots=0, memory=f"{memory}MiB")
        if len({each[1:] for each in nodes}) > 1:
            reading.lacks(path.name, "NodeName", "nodes of several sizes", "all have the largest")


def _nodes(path: Path, pairs: dict[str, str], reading: ClusterSettings) -> list[tuple[int, int, int]]:
    """Return the number of nodes of a line `NodeName=n[1-6] ...`, their CPUs and MiB."""
    name, count = pairs["nodename"], 0
    if name.upper() == "DEFAULT":
        reading.lacks(path.name, "NodeName", "DEFAULT", "its values are not given to other lines")
        return []
    for part in re.findall(r"[^,\[]+(?:\[[^\]]*\])?", name):
        inside = re.search(r"\[(.*)\]", part)
        ranges = inside[1].split(",") if inside else [""]
        for each in ranges:
            low, _, high = each.partition("-")
            count += int(high) - int(low) + 1 if high else 1
    per_core = [int(pairs.get(key, "1")) for key in ("sockets", "corespersocket", "threadspercore")]
    cpus = int(pairs.get("cpus", per_core[0] * per_core[1] * per_core[2]))
    memory = int(pairs.get("realmemory", "1024"))
    reading.note(path.name, "NodeName", name, f"{count} nodes of {cpus} CPUs and {memory} MiB")
    return [(count, cpus, memory)]


def read_spark(path: Path, text: str, reading: ClusterSettings) -> None:
    """Read spark-defaults.conf. Raises BadInput."""
    for line in text.splitlines():
        name, _, value = line.partition("#")[0].strip().replace("=", " ", 1).partition(" ")
        value = value.strip()
        if name == "spark.scheduler.mode":
            mode = one_of({"fair": "spark-fair", "fifo": "spark-fifo"})
            try:
                reading.policy = mode(value)
            except KeyError:
                raise BadInput(f"{path.name}: {name}: {value!r}, expected FIFO or FAIR") from None
            reading.note(path.name, name, value, f"policy {reading.policy}")
        elif name in SPARK:
            reading.take(path.name, name, value, SPARK[name])
        elif name:
            reading.lacks(path.name, name, value)
