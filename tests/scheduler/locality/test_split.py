"""The policy DTSS, which splits maps, step by step (Algorithm 1 of xu2015), and the bytes that each part must
own.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from schedbed.scheduler.admission.slots import Slots
from schedbed.scheduler.hooks import Proposal
from schedbed.scheduler.locality.split import Known, SplitLocality
from schedbed.scheduler.models.dtss import best_share
from schedbed.scheduler.order.fair import Fair
from schedbed.scheduler.policy import Composed, PolicyError
from schedbed.scheduler.registry.registry import build_policy
from schedbed.tasks.errors import BadInput
from schedbed.tasks.specs import TaskKind
from tests.harness.world import World, job, node
from tests.scheduler.core.test_properties import Story, run_story, stories
from tests.scheduler.locality.test_delay import LOCAL
from tests.scheduler.locality.test_delay import Steps as DelaySteps


class Steps(DelaySteps):
    """The core of the tests of delay scheduling under DTSS, with a second job that has one reduce."""

    def __init__(self, hosts: list[str], policy: str = "dtss", slots: int = 9, **changes: Any) -> None:
        super().__init__([], policy, slots)
        self.core.submit(0, job("job_0002", hosts, reduces=1, **changes))


def test_a_map_without_data_here_is_split_and_its_rest_waits():
    """Node n3 is in another rack than the blocks.

    It starts the first quarter of each map, and the rests wait for local nodes.
    """
    steps = Steps(["n1", "n1"])
    reason = "off-rack, the first 25% of 100 bytes, has waited 0.0 of 5.0 s; the rest is job_0002_m_00000"
    assert steps.heartbeat(0, "n3") == [f"{reason}2", f"{reason}3", LOCAL]
    assert [row.answer for row in steps.tape.decisions] == ["split", "split", "skip"]
    assert steps.heartbeat(1, "n1")[:2] == ["node-local"] * 2  # the rests


def test_the_wait_goes_on_over_a_split_and_the_licence_ends():
    """Heartbeats of three more nodes follow the first split.

    Three maps are split, and n1 starts the fourth as a whole.
    """
    steps = Steps(["n1", "n1", "n1", "n1"], "dtss:node_wait=5s", slots=1)
    assert steps.heartbeat(0, "n2")[0].startswith("rack-local, the first 25%")
    for tracker in ("n3", "n4", "n1"):
        steps.heartbeat(0.1, tracker)
    jobs = [row.job for row in steps.tape.decisions if row.answer == "split"]
    assert len(jobs) == 3  # n1 took one whole


def test_a_whole_map_goes_away_after_the_wait():
    """Lines 12 to 18 of Algorithm 1: a map that has waited long enough starts as a whole before other maps
    are split.
    """
    steps = Steps(["n9"], "dtss:node_wait=5s,rack_wait=3s", slots=1)
    assert "the first 25%" in steps.heartbeat(0, "n3")[0]
    assert steps.heartbeat(0, "n2") == [LOCAL]
    assert steps.heartbeat(8, "n2") == ["off-rack after 8.0 s"]


def rows(world: World) -> list[tuple[Any, ...]]:
    return [tuple(row) for row in [*world.tape.decisions, *world.tape.attempts, *world.tape.jobs]]


few = settings(max_examples=15, deadline=None, phases=[Phase.explicit, Phase.reuse, Phase.generate])


@few
@given(story=stories())
def test_p_0_is_delay_decision_for_decision(story: Story):
    assert rows(run_story("dtss:p=0,node_wait=3s", story)) == rows(run_story("delay:node_wait=3s", story))


@few
@given(story=stories())
def test_p_1_is_no_wait_decision_for_decision(story: Story):
    """With the split share 1, DTSS makes the decisions of delay scheduling without waits.

    Only the reasons differ.
    """
    worlds = [run_story("dtss:p=1", story), run_story("delay:node_wait=0,rack_wait=0", story)]
    first, second = [[row[:6] for row in rows(world)] for world in worlds]
    assert first == second


@few
@given(story=stories(), share=st.sampled_from(["0.01", "0.25", "0.5", "0.99", "auto"]))
def test_every_byte_is_read_once_under_any_split(story: Story, share: str):
    """`World` asserts that reduces read every byte once and that no task's byte range changes, whatever the
    split share.

    A second run gives the same rows.
    """
    world = run_story(f"dtss:p={share},node_wait=2s", story, audit=True)
    states = set(world.ended_jobs().values())
    assert states == {"succeeded"} or (states == {"succeeded", "failed"} and story.failures)
    parts = [row for row in world.tape.attempts if row.split_of]
    splits = [row for row in world.tape.decisions if row.answer == "split"]
    assert len({row.split_of for row in parts}) <= len(splits)
    for row in splits:
        assert re.search(r"the rest is job_\d+_m_\d+$", row.reason)
    again = run_story(f"dtss:p={share},node_wait=2s", story)
    assert rows(again) == rows(world)


def test_rows_name_the_task_that_was_split():
    world = World(build_policy("dtss"), [node("n1"), node("n2", rack="r1")], task_ms=4000)
    world.submit(job("job_0001", ["n1"] * 3, reduces=1)).run()
    parts = {(row.task[-1], row.split_of[-1:], row.offset, row.length) for row in world.tape.attempts[:-1]}
    assert ("1", "1", 100, 25) in parts and ("3", "1", 125, 75) in parts and ("0", "", 0, 100) in parts
    assert world.tape.jobs[0].maps == sum(1 for row in world.tape.attempts if row.kind == "map") > 3


def test_both_parts_run_again_as_they_are_when_their_node_is_lost():
    """Outputs of parts are on n2 when it crashes.

    The parts run again, and `World` asserts that each keeps its bytes.
    """
    world = World(build_policy("dtss"), [node("n1"), node("n2", rack="r1", reduces=0)], task_ms=4000)
    world.submit(job("job_0001", ["n1"] * 4, reduces=1)).at(6, lambda: world.crash("n2")).run()
    again = [row for row in world.tape.attempts if row.split_of and row.attempt.endswith("_1")]
    assert again and set(world.ended_jobs().values()) == {"succeeded"}


@pytest.mark.parametrize("share", [-0.5, 0.0, 0.001, 1.0, 1.5])
def test_a_share_that_leaves_a_part_empty_is_refused(share: float):
    assert "leaves a part without any" in refused(share, ["n9"], 1)


def test_what_has_no_reader_or_no_input_is_not_split():
    assert "output goes to reduces" in refused(0.5, ["n9"], 0)
    assert "only maps with input" in refused(0.5, [""], 1)


class Splits:
    """A policy that splits any unstarted map of the job at `share`."""

    def __init__(self, share: float) -> None:
        self._share = share

    def decide(self, view: Any, node: Any, kind: TaskKind) -> Proposal | None:
        task = view.jobs["job_0001"].any_map()
        return Proposal(task, "", split=self._share)


def refused(share: float, hosts: list[str], reduces: int) -> str:
    """Return the error with which the core refuses to split the first map of a job at `share`."""
    world = World(Splits(share), [node("n1")]).submit(job("job_0001", hosts, reduces=reduces))
    with pytest.raises(PolicyError) as error:
        world.run()
    return str(error.value)


def test_auto_learns_and_says_what_from():
    """With `p=auto` the first split uses 25%. Later splits use the best share for measured times.

    The reasons state the measured times. All maps and parts take 4 s, so a quarter of a map far from its
    block takes four times as long per byte as a whole map.
    """
    world = World(
        build_policy("dtss:p=auto"), [node(f"n{i}", rack=f"r{i}") for i in range(1, 4)], task_ms=4000
    )
    for number in range(2):
        spec = job(f"job_{number}", ["n1"] * 8, reduces=1, submit_s=100.0 * number)
        world.submit(replace(spec, name="same"))
    world.run()
    splits = [row for row in world.tape.decisions if row.answer == "split"]
    assert "first 25% of 100 bytes" in splits[0].reason and "nothing is known yet" in splits[0].reason
    late = [row for row in splits if "nothing" not in row.reason]
    assert len(late) == 5
    for row in late:
        match = re.search(r"first (\d+)% .* N ([\d.]+) s, M ([\d.]+) s, D ([\d.]+) s;", row.reason)
        assert match is not None, row
        share, *times = map(float, match.groups())
        assert times[0] >= 4 and times[1] > times[0]
        assert share / 100 == pytest.approx(best_share(*times), abs=0.02)
    # By then the rests have waited for longer than a map takes anywhere, so that waiting gains nothing.
    assert all(row.answer == "launch" for row in world.tape.decisions if row.job == "job_1")
    assert any("off-rack at once; N 6.0 s, M 11.4 s" in row.reason for row in world.tape.decisions)


def test_auto_does_not_split_for_less_than_a_launch_takes():
    """A split of maps of 1 ms gains less than the 0.5 s of a launch.

    So the job waits as under delay scheduling.
    """
    split = SplitLocality(share=None)
    split._launch_s, known = 0.5, Known()
    known.local_s = known.remote_s = 0.001 / 100
    known.delay_s = 0.1
    split._known["job_0001"] = known
    world = World(Composed(Fair(), split, Slots()), [node("n1"), node("n2")])
    world.submit(job("job_0001", ["n1"] * 2, reduces=1)).run(until_s=1)
    reasons = [row.reason for row in world.tape.decisions if row.node == "n2"]
    assert reasons and all("a split gains 0.1 s, a launch takes 0.5 s" in reason for reason in reasons)


def test_shares_are_checked():
    with pytest.raises(BadInput, match="p: '2' is not a share"):
        build_policy("dtss:p=2")
    with pytest.raises(BadInput, match="keep_copy: 'perhaps' is not one of true, false"):
        build_policy("dtss:keep_copy=perhaps")
    with pytest.raises(BadInput, match="copy_budget: '2' is not a share"):
        build_policy("dtss:keep_copy=true,copy_budget=2")
