"""A scenario from a history and configuration files: what is taken, what has no counterpart, what cannot have held."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from schedbed.deploy.fit.fit import fit
from schedbed.deploy.scenario.resolve import resolve
from schedbed.tasks.errors import BadInput

HISTORY = """\
JobID|JobName|Partition|User|State|Submit|Start|End|NCPUS|Timelimit|NodeList
1|a|p|ana|COMPLETED|2026-01-01T00:00:00|2026-01-01T00:00:00|2026-01-01T00:01:00|2|00:02:00|n1
2|b|p|bo|COMPLETED|2026-01-01T00:00:10|2026-01-01T00:00:10|2026-01-01T00:01:10|2|00:02:00|n2
"""
CAPACITY = {
    "yarn.scheduler.capacity.root.queues": "prod,dev",
    "yarn.scheduler.capacity.root.prod.capacity": "70",
    "yarn.scheduler.capacity.root.prod.maximum-capacity": "90",
    "yarn.scheduler.capacity.root.prod.queues": "etl,web",
    "yarn.scheduler.capacity.root.prod.etl.capacity": "60",
    "yarn.scheduler.capacity.root.prod.web.capacity": "40",
    "yarn.scheduler.capacity.root.prod.web.ordering-policy": "fair",
    "yarn.scheduler.capacity.root.prod.etl.user-settings.ana.weight": "2",
    "yarn.scheduler.capacity.root.dev.capacity": "${dev.share}",
    "dev.share": "30",
    "yarn.scheduler.capacity.node-locality-delay": "20",
    "yarn.scheduler.capacity.maximum-applications": "10000",
    "yarn.scheduler.capacity.root.dev.acl_submit_applications": "*",
    "yarn.scheduler.capacity.resource-calculator": "org.apache.hadoop.yarn.util.resource.DominantResourceCalculator",
}
SITE = {
    "yarn.resourcemanager.scheduler.class": "org.apache.hadoop.yarn.server.resourcemanager.scheduler.capacity."
    "CapacityScheduler",
    "yarn.nodemanager.resource.memory-mb": "8192",
    "yarn.nodemanager.resource.cpu-vcores": "4",
    "yarn.resourcemanager.scheduler.monitor.enable": "true",
    "yarn.resourcemanager.monitor.capacity.preemption.monitoring_interval": "1000",
    "mapreduce.job.reduce.slowstart.completedmaps": "0.8",
    "mapreduce.map.memory.mb": "2048",
}
FAIR = """<?xml version="1.0"?><allocations>
<queue name="prod"><weight>3</weight><minResources>4096 mb, 4 vcores</minResources>
  <queue name="etl"><schedulingPolicy>fifo</schedulingPolicy></queue></queue>
<queue name="dev"><maxResources>50%</maxResources></queue>
<user name="ana"><maxRunningApps>2</maxRunningApps></user>
<queueMaxAMShareDefault>-1.0</queueMaxAMShareDefault>
<defaultFairSharePreemptionTimeout>6</defaultFairSharePreemptionTimeout>
<queuePlacementPolicy><rule name="default"/></queuePlacementPolicy></allocations>"""
HADOOP1 = """<allocations><pool name="a"><minMaps>2</minMaps><maxRunningJobs>3</maxRunningJobs>
<schedulingMode>fifo</schedulingMode></pool><user name="bo"><maxRunningJobs>1</maxRunningJobs></user></allocations>"""
SLURM = """ClusterName=x
NodeName=n[1-3,7] CPUs=4 RealMemory=2000
NodeName=m1 Sockets=1 CoresPerSocket=2 ThreadsPerCore=2 RealMemory=2000
PartitionName=p Nodes=ALL
SchedulerType=sched/backfill
SchedulerParameters=bf_interval=5,bf_job_part_count_reserve=0,bf_continue
PriorityType=priority/multifactor
"""


def configuration(settings: dict[str, str]) -> str:
    rows = (
        f"<property><name>{name}</name><value>{value}</value></property>" for name, value in settings.items()
    )
    return f"<configuration>{''.join(rows)}</configuration>"


class Fitted:
    """The scenario that `fit` writes for these configuration files, and the lines that it prints."""

    def __init__(self, folder: Path, **files: str) -> None:
        history = folder / "history.txt"
        history.write_text(HISTORY)
        self.paths: list[Path] = []
        for name, text in files.items():
            self.paths.append(folder / name.replace("_", "."))
            self.paths[-1].write_text(text)
        self.said: list[str] = []
        self.out = folder / "my.yaml"
        fit([history], self.paths, self.out, self.said.append)
        self.scenario: dict[str, Any] = yaml.safe_load(self.out.read_text())

    def under(self, head: str) -> str:
        """Return the lines that were said below a heading."""
        start = next(place for place, line in enumerate(self.said) if line.startswith(f"{head}:"))
        after = self.said[start + 1 :]
        return "\n".join(
            line for line in after[: next(i for i, line in enumerate([*after, "x"]) if line[0] != " ")]
        )

    def parameters(self, policy: str) -> dict[str, Any]:
        return next(each[policy] for each in self.scenario["policies"] if policy in each)


def test_a_capacity_scheduler_with_its_queues_and_limits(tmp_path: Path) -> None:
    found = Fitted(tmp_path, site_xml=configuration(SITE), capacity_xml=configuration(CAPACITY))
    its = found.parameters("yarn-capacity")
    assert its["queues"] == {
        "prod": {
            "capacity": 70,
            "maximum_capacity": 90,
            "queues": {
                "etl": {"capacity": 60, "user_settings": {"ana": {"weight": 2}}},
                "web": {"capacity": 40, "ordering_policy": "fair"},
            },
        },
        "dev": {"capacity": 30},
    }
    assert its["node_locality_delay"] == 20 and its["resource_calculator"] == "dominant"
    assert its["preemption"] == {"monitoring_interval": "1000ms"}
    assert found.scenario["cluster"]["node"]["memory"] == "8192MiB"
    assert found.scenario["framework"] == {"yarn": {"slowstart": 0.8, "am_memory": "1536MiB"}}
    assert found.scenario["workload"]["map_memory"] == "2048MiB"
    assert "acl_submit_applications" in found.under("without counterpart")
    assert "maximum-applications" in found.under("without counterpart")


def test_jobs_in_queues_that_are_not_configured_are_named(tmp_path: Path) -> None:
    settings = CAPACITY | {"yarn.scheduler.capacity.root.dev.capacity": "20"}
    found = Fitted(tmp_path, site_xml=configuration(SITE), capacity_xml=configuration(settings))
    assert "queue p: 2 jobs ran in it" in found.under("contradicted by the history")


def test_yarns_allocation_file(tmp_path: Path) -> None:
    found = Fitted(tmp_path, fair_xml=FAIR)
    its = found.parameters("yarn-fair")
    assert its["queues"]["prod"] == {
        "weight": 3,
        "min_resources": {"memory": "4096MiB", "vcores": 4},
        "queues": {"etl": {"scheduling_policy": "fifo"}},
    }
    assert its["users"] == {"ana": {"max_running_apps": 2}} and its["max_am_share"] == -1
    assert its["fair_share_preemption_timeout"] == "6s"
    without = found.under("without counterpart")
    assert "queue dev: maxResources = 50%" in without and "queuePlacementPolicy" in without


def test_hadoop_1s_allocation_file(tmp_path: Path) -> None:
    its = Fitted(tmp_path, pools_xml=HADOOP1).parameters("hadoop1-fair")
    assert its["pools"]["a"] == {"min_share": {"map": 2, "reduce": 0}, "max_running": 3, "inside": "fifo"}
    assert its["users"] == {"bo": {"max_running": 1}}


def test_slurm_conf(tmp_path: Path) -> None:
    found = Fitted(tmp_path, slurm_conf=SLURM)
    assert found.parameters("slurm-backfill") == {"interval": "5s", "reservations": "all"}
    cluster = found.scenario["cluster"]
    assert (
        cluster["nodes"] == 5 and cluster["node"]["map_slots"] == 4 and cluster["node"]["reduce_slots"] == 0
    )
    without = found.under("without counterpart")
    assert "PriorityType = priority/multifactor" in without and "bf_continue" in without
    resolve(found.out)


def test_sparks_pools_and_defaults(tmp_path: Path) -> None:
    pool = '<pool name="a"><schedulingMode>FAIR</schedulingMode><minShare>2</minShare></pool>'
    defaults = (
        "spark.scheduler.mode FAIR\nspark.locality.wait 5s\nspark.speculation=true\nspark.ui.port 4040\n"
        "spark.locality.wait.legacyResetOnTaskLaunch true\n"
    )
    found = Fitted(tmp_path, spark_conf=defaults, fair_xml=f"<allocations>{pool}</allocations>")
    assert found.parameters("spark-fair") == {
        "wait": "5s",
        "reset": "launch",
        "pools": {"a": {"inside": "fair", "min_share": 2}},
    }
    assert found.scenario["speculation"] == "spark" and "spark.ui.port" in found.under("without counterpart")


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("<configuration>", "expected XML"),
        ('<!DOCTYPE a [<!ENTITY b "c">]><configuration/>', "declares entities"),
        ("hello", "no configuration known here"),
        (
            configuration({"yarn.nodemanager.resource.cpu-vcores": "many"}),
            "'many' is no value of this setting",
        ),
        (
            configuration({"yarn.resourcemanager.scheduler.class": "Mine"}),
            "expected one of CapacityScheduler",
        ),
    ],
)
def test_a_bad_file_is_one_line(tmp_path: Path, text: str, line: str) -> None:
    with pytest.raises(BadInput, match=line) as raised:
        Fitted(tmp_path, bad_xml=text)
    assert "\n" not in str(raised.value) and not (tmp_path / "my.yaml").exists()
