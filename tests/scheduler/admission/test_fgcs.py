"""Admission of the policy FGCS on small clusters: which tasks fit, what is learned from sample jobs, and that
FGCS equals admission by vcores when no demands are known.
"""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schedbed.scheduler.admission.fgcs import DEMAND, IO_RATES, Fgcs, disk_name
from schedbed.scheduler.models.fgcs_demand import Demands, Hardware, read_demands
from schedbed.scheduler.policy import Composed
from schedbed.scheduler.profiles import ProfileStore
from schedbed.scheduler.registry.registry import build_policy
from schedbed.tasks.errors import BadInput
from schedbed.tasks.specs import Counters
from tests.harness.world import GIB, World, job, node
from tests.scheduler.core.test_properties import Story, few, run_story, stories

SMALL = GIB // 16


def concurrent_maps(demands: dict[str, Any], *, cores: int, reserved: int = 1, **more: Any) -> dict[str, int]:
    """Return a dictionary from job name to the number of its maps that run at once on one empty node.

    `demands` is a dictionary from job name to its demands in percent of a core. Jobs are submitted in the
    order of their names.
    """
    spec = {
        "order": "fifo",
        "admission": {"fgcs": {"profiles": demands, "reserved_cores": reserved, **more}},
    }
    world = World(build_policy(spec), [node("n1", cores=cores)])
    for name in sorted(demands):
        world.submit(job(name, 50, memory=SMALL))
    world.run(until_s=5)
    rows = [row.job for row in world.tape.decisions if row.answer == "launch"]
    return {name: rows.count(name) for name in sorted(demands)}


def test_tasks_fit_by_their_share_of_a_core():
    """Tables 1 and 3 of liu2015: 8 cores with one reserved have 700% to use.

    TeraGen at 49% runs 14 maps (686%), Pi at 100% runs 7.
    """
    assert concurrent_maps({"pi": {"map": 100}}, cores=8) == {"pi": 7}
    assert concurrent_maps({"teragen": {"map": 49}}, cores=8) == {"teragen": 14}
    # The 14 leave 14 of 700, too little for a map at 47, but not for one at 14.
    assert concurrent_maps({"a": {"map": 49}, "b": {"map": 47}}, cores=8) == {"a": 14, "b": 0}
    assert concurrent_maps({"a": {"map": 49}, "b": {"map": 14}}, cores=8) == {"a": 14, "b": 1}


def test_an_idle_node_takes_a_task_whatever_is_reserved():
    """An idle node with one core, which is reserved, starts one map. Otherwise no task could ever run."""
    assert concurrent_maps({"pi": {"map": 100}}, cores=1) == {"pi": 1}


def test_with_disk_a_task_also_needs_what_it_does_not_compute():
    """Maps that compute 60% of their time read or write for 40%: two share a disk, though eleven fit 7 cores.

    A job that only computes takes what cores they leave, and one of unknown demand counts as such.
    """
    assert concurrent_maps({"io": {"map": 60}}, cores=8, disk=True) == {"io": 2}
    assert concurrent_maps({"io": {"map": 60}, "pi": {"map": 100}}, cores=8, disk=True) == {
        "io": 2,
        "pi": 5,
    }
    assert concurrent_maps({"io": {"map": 60}}, cores=8) == {"io": 11}
    assert concurrent_maps({"copy": {"map": 1}}, cores=8, disk=True) == {"copy": 1}
    with pytest.raises(BadInput, match="disk: 'perhaps' is not one of true, false"):
        build_policy("fgcs:disk=perhaps")


class Etl(World):
    """A world with one node under FGCS.

    Each attempt uses 4 core-seconds and writes 600 MB, which takes 6 s at 100 MB/s.
    """

    def __init__(self, parameters: dict[str, str] | None = None, **changes: Any) -> None:
        policy = build_policy({"fgcs": {"profiles": "none", **(parameters or {})}})
        assert isinstance(policy, Composed) and isinstance(policy.admission, Fgcs)
        super().__init__(policy, [node("n1", **changes)])
        self.fgcs = policy.admission
        self.counters = Counters(cpu_s=4.0, output_bytes=600 * 10**6)

    def demands(self) -> dict[str, Any]:
        """Return the demands of maps that FGCS has learned, in percent of a core, by job name."""
        learnt = self.fgcs.report().get("profiles", {}).get(DEMAND, {})
        return {name: {"map": values["map"]} for name, values in learnt.items()}


def test_the_first_job_of_a_name_is_the_sample_of_the_rest():
    """A map of the first job, `etl`, demands 4 / (4 + 6) = 40% of a core.

    With one of 2 cores reserved, `etl` runs one map at a time, and the later job of that name runs two (80 of
    100%).
    """
    world = Etl()
    world.submit(job("etl", 2)).submit(job("etl-2", 4, submit_s=60)).run()
    assert world.demands() == {"etl": {"map": 40}}
    launches = [(row.t, row.job) for row in world.tape.decisions if row.answer == "launch"]
    first, second = (
        [t for t, name in launches if name == "etl"],
        [t for t, name in launches if name == "etl-2"],
    )
    assert first[1] - first[0] >= 10 and second[1] == second[0] and second[2] - second[0] >= 10


@pytest.mark.parametrize(("learn", "whole_cores"), [(0, 6), (1, 2), (2, 3)])
def test_a_sample_can_learn_from_its_own_first_maps(learn: int, whole_cores: int):
    """Maps run one at a time on the core that is not reserved, until the demand of 40% is known after `learn` maps.

    The map that starts when the last of these ends still demands a whole core. Then two maps fit, and the second
    starts at the next heartbeat, although the node was full and rested.
    """
    world = Etl({"learn": str(learn)}, cores=2)
    world.submit(job("etl", 6)).run()
    launches = [row for row in world.tape.decisions if row.answer == "launch"]
    assert [" asks 100% " in row.reason for row in launches] == [True] * whole_cores + [False] * (
        6 - whole_cores
    )
    starts_s = [row.t for row in launches]
    assert all(later - earlier > 9.9 for earlier, later in pairwise(starts_s[:whole_cores]))
    assert learn == 0 or starts_s[whole_cores] - starts_s[whole_cores - 1] < 1
    assert world.demands() == {"etl": {"map": 40}}


def test_what_was_free_and_asked_for_is_told():
    """With 60 of 100% of a core in use, a map that asks for 60% is skipped and one that asks for 10% starts.

    The reasons state the amounts.
    """
    profiles = {"etl": {"map": 60}, "small": {"map": 10}}
    policy = build_policy({"order": "fifo", "admission": {"fgcs": {"profiles": profiles}}})
    world = World(policy, [node("n1")])
    world.submit(job("etl", 2)).submit(job("small", 1)).run(until_s=1)
    assert [(row.answer, row.job, row.reason) for row in world.tape.decisions] == [
        ("launch", "etl", "no preferred node; asks 60% of a core, 100% free"),
        ("skip", "etl", "not enough CPU: asks 60% of a core, 40% free"),
        ("launch", "small", "no preferred node; asks 10% of a core, 40% free"),
    ]


def test_a_core_of_half_the_speed_needs_twice_the_time():
    """4 core-seconds of the host take 8 s on an emulated core of half the speed: 8 / (8 + 6) = 57.1%, rounded
    up.
    """
    world = Etl(core_speed=0.5)
    world.submit(job("etl", 2)).run()
    assert world.demands() == {"etl": {"map": 58}}


@pytest.mark.parametrize(
    ("parameters", "demand"),
    [
        ({"disk_rate": "200MB/s"}, 58),  # the block store is as fast as the disk: 4 / (4 + 3) = 57.1
        ({"disk_rate": "1MB/s", "hdfs_rate": "600MB/s"}, 80),  # 4 / (4 + 1); nothing on the local disk
        ({"shortest": "11s"}, 100),  # tasks of 10 s are too short then
    ],
)
def test_rates_and_shortest(parameters: dict[str, str], demand: int):
    world = Etl(parameters)
    world.submit(job("etl", 2)).run()
    assert world.demands() == {"etl": {"map": demand}}


def test_failed_attempts_and_failed_jobs_teach_nothing():
    world = Etl()
    world.failing = lambda attempt, _: "bad luck" if attempt.startswith("bad_m_000001") else None
    world.submit(job("bad", 2)).run()
    assert world.ended_jobs() == {"bad": "failed"} and world.demands() == {}


def test_the_store_is_read_and_measured_rates_count(tmp_path: Path):
    """600 MB at the 300 MB/s in the profile store: 4 / (4 + 2) = 66.7%.

    A job whose demand is in the store is not measured.
    """
    store = ProfileStore(tmp_path / "p.sqlite")
    store.save(DEMAND, "known", {"map": 10})
    store.save(IO_RATES, disk_name(node("n1")), {"disk_bps": 1e6, "hdfs_bps": 300e6})
    world = Etl({"profiles": str(store.path)})
    world.submit(job("etl", 1)).submit(job("known", 1)).run()
    assert world.demands() == {"etl": {"map": 67}}


def test_what_was_learnt_on_other_hardware_is_learnt_anew(tmp_path: Path):
    """Section 2.2 of liu2015: demands depend on the speeds of cores and disks, so another speed needs a new
    sample.
    """
    store = ProfileStore(tmp_path / "p.sqlite")
    store.save(DEMAND, "etl", {"map": 10, "hardware": {"core_speed": 1.0, "disk_bps": 1e8}})
    for core_speed, learnt in ((1.0, {}), (0.5, {"etl": {"map": 58}})):
        world = Etl({"profiles": str(store.path)}, core_speed=core_speed)
        world.submit(job("etl", 1)).run()
        assert world.demands() == learnt


def test_what_is_learnt_can_be_kept():
    world = Etl()
    world.submit(job("etl", 1)).run()
    learnt = world.fgcs.report()["profiles"][DEMAND]["etl"]
    assert read_demands(learnt) == Demands(map=40, hardware=Hardware(1.0, 1e8))


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("no/such/file", "there is no profile store no/such/file"),
        ({"a": {"map": 300}}, "profiles: a: map: 300 is not above 0 and at most 100"),
        ({"a": {"maps": 30}}, "'maps' is unknown, expected map or reduce"),
        ({"a": 30}, "a: 30 is not a mapping"),
        ({"a": {"hardware": {"cores": 3}}}, "a: hardware: {'cores': 3} is not core_speed and disk_bps"),
        (3, "3 is not store, none"),
    ],
)
def test_wrong_profiles_are_bad_input(value: object, message: str):
    with pytest.raises(BadInput) as error:
        build_policy({"fgcs": {"profiles": value}})
    assert message in str(error.value) and "\n" not in str(error.value)


@few
@given(story=stories(), reserved=st.sampled_from([0, 1]))
def test_with_nothing_known_it_is_the_vcore_baseline(story: Story, reserved: int):
    """If each task demands 100% of a core, FGCS launches and kills the same tasks as admission by vcores, at
    the same times and on the same nodes.
    """
    rows = []
    for admission in ("fgcs", "containers"):
        parameters: dict[str, Any] = {"reserved_cores": reserved}
        if admission == "fgcs":
            parameters |= {"profiles": "none", "shortest": "1h"}
        world = run_story({"order": "fair", "locality": "delay", "admission": {admission: parameters}}, story)
        rows.append([row[:-1] for row in world.tape.decisions if row.answer != "skip"])
    assert rows[0] == rows[1]
