"""Real applications under every policy on live clusters: the outputs are the same bytes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from schedbed.scheduler.history import read_tables
from schedbed.scheduler.registry.registry import POLICIES
from tests.harness.command import SCENARIO, outputs, start_run, write_scenario

pytestmark = pytest.mark.live

KEEPING = "dtss:p=0.25,keep_copy=true,copy_budget=1"
COMPOSED = "order=capacity,locality=split:p=0.25+keep_copy=true,admission=fgcs"
RUN = [
    "fifo",
    "fair",
    "capacity",
    "hod",
    "dp:interval=10s",
    "lsps",
    "pd",
    "coshh",
    "lsap",
    "lsap-fair",
    "balancedpool",
    *(["mrcp"] if "mrcp" in POLICIES else []),  # needs OR-Tools
    "mimp",
    "delay",
    "dtss:p=0.25",
    KEEPING,
    "ras",
    "aria",
    "fgcs",
    "csla",
    "easy",
    "easy:reserve=nodes",
    "slurm-fcfs",
    "slurm-backfill:interval=1s,reservations=1",
    "hadoop1-fair",
    "spark-fifo",
    "spark-fair",
    "yarn-fifo",
    "yarn-fair",
    "yarn-capacity",
    COMPOSED,
]
BLOCKS = {"size": "8MiB", "replication": 1, "placement": {"skewed": 0.3}}  # all input on one of three nodes
WORDS = {"name": "words", "app": "wordcount", "input": {"generate": "text", "size": "40MiB"}, "user": "ana"}
OF_TRACES = {"deadline": "10m", "requested": "5m", "queue": "default", "priority": "high"}
"""The properties besides costs that jobs of traces have."""
JOBS: list[dict[str, Any]] = [
    {**WORDS, "reduces": 2},
    {
        "name": "order",
        "app": "sort",
        "input": {"generate": "records", "size": "24MiB"},
        "reduces": 2,
        "user": "bo",
        **OF_TRACES,
    },
    {**WORDS, "reduces": 1, "user": "bo", "submit": "20s"},  # after copies of its input may have come to be
]


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Run all policies with one command, and return the folder of the results."""
    folder = tmp_path_factory.mktemp("policies")
    cluster = SCENARIO["cluster"] | {"node": SCENARIO["cluster"]["node"] | {"core_speed": 0.2}}
    changes = {"cluster": cluster, "blocks": BLOCKS, "workload": {"jobs": JOBS}, "policies": RUN}
    path = write_scenario(folder, **changes, profiles={"store": "none"})
    command, out = start_run(folder, path, report=True)
    assert command.wait() == 0, command.text()
    assert command.left_behind() == []
    return out


def test_no_policy_of_the_registry_is_left_out() -> None:
    assert set(POLICIES) <= {spec.partition(":")[0] for spec in RUN}


@pytest.mark.parametrize("policy", RUN[1:])
def test_the_outputs_are_those_of_fifo(finished: Path, policy: str) -> None:
    expected = outputs(finished, "fifo")
    assert sorted(expected) == [
        "job_0001/part-00000",
        "job_0001/part-00001",
        "job_0002/part-00000",
        "job_0002/part-00001",
        "job_0003/part-00000",
    ]
    assert all(expected.values())
    assert outputs(finished, policy) == expected


def test_what_dtss_splits_is_read_once_and_leaves_copies_where_it_was_read(finished: Path) -> None:
    tables = read_tables(finished)
    attempts, blocks = tables["attempts"], tables["blocks"]
    copies = blocks[(blocks["cause"] == "dare") & blocks["file"].str.startswith("/in/")]
    assert set(copies["policy"]) <= {KEEPING, COMPOSED} and KEEPING in set(copies["policy"])
    assert (copies["node"] != "n1").all()  # which holds all of it anyway
    for policy in ("dtss:p=0.25", KEEPING):
        mine = attempts[(attempts["policy"] == policy) & (attempts["kind"] == "map")]
        done = mine[mine["state"] == "succeeded"]
        assert done["split_of"].astype(bool).any()
        assert done.groupby("job")["length"].sum().tolist() == [2097150, 1258200, 2097150]


def test_a_copy_of_a_slow_task_wins_and_changes_nothing(tmp_path: Path) -> None:
    """On a node with a tenth of the others' speed, LATE starts a second attempt of the slow map elsewhere."""
    burn = {**SCENARIO["workload"]["jobs"][2], "maps": 5, "map": {"cpu": "60s", "write": "16MiB"}}
    late = {"late": {"cap": 0.5, "min_runtime": "40s", "slow_task": 50}}
    path = write_scenario(
        tmp_path,
        workload={"jobs": [burn]},
        faults=[{"at": "1s", "slow": "n3", "cpu": 0.1}],
        speculation=late,
        profiles={"store": "none"},
        policies=["fifo", "capacity"],
    )
    command, out = start_run(tmp_path, path)
    assert command.wait() == 0, command.text()
    attempts = read_tables(out)["attempts"]
    copies = attempts[attempts["speculative"].astype(bool)]
    assert set(copies["policy"]) == {"fifo", "capacity"}
    assert (copies["state"] == "succeeded").any()
    twice = attempts[attempts["state"] == "succeeded"].groupby(["policy", "task"]).size()
    assert (twice == 1).all()
    assert outputs(out, "fifo") == outputs(out, "capacity")
