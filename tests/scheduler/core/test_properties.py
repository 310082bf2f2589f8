"""Random clusters, workloads and failures under every policy, and the properties that must always hold."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from schedbed.scheduler.hooks import Kill
from schedbed.scheduler.order.fair import Fair
from schedbed.scheduler.order.preemption import Preemption
from schedbed.scheduler.policy import Composed
from schedbed.scheduler.registry.registry import POLICIES, build_policy, is_rigid
from schedbed.scheduler.view import View
from schedbed.tasks.chance import chance
from schedbed.tasks.specs import JobSpec, TaskKind
from tests.harness.world import World, job, node

COMPOSED: list[Any] = [
    "order=fair,locality=delay,admission=containers",
    "order=fifo,locality=delay:node_wait=1s+rack_wait=0s",
    {
        "fair": {
            "pools": {"ana": {"weight": 2, "min_share": 2}, "bo": {"inside": "fifo"}},
            "min_share_timeout": "3s",
            "fair_share_timeout": "6s",
        }
    },
]
POLICY_SPECS = [*POLICIES, *COMPOSED]
few = settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@dataclass(frozen=True)
class Story:
    """A random scenario.

    Each node is a tuple (rack, map slots, reduce slots), and `seed` determines lost messages and failures.
    """

    nodes: tuple[tuple[int, int, int], ...]
    jobs: tuple[JobSpec, ...]
    seed: int
    loss: float  # share of messages lost
    failures: float  # share of attempts that fail
    crashes: tuple[tuple[float, int, float], ...]  # when, which node, restart after


def _jobs(count: int, seed: int, nodes: int) -> tuple[JobSpec, ...]:
    luck = chance(seed, "jobs")
    return tuple(
        job(
            f"job_{number:04d}",
            [
                " ".join(f"n{host}" for host in luck.sample(range(nodes), min(nodes, luck.randint(0, 2))))
                for _ in range(luck.randint(0, 6))
            ],
            reduces=luck.randint(0, 3),
            user=luck.choice(["ana", "bo", "cy"]),
            priority=luck.choice(["high", "normal", "low"]),
            submit_s=luck.choice([0.0, 0.0, 3.0, 20.0]),
            memory=luck.choice([1, 2]) * 2**30,
        )
        for number in range(count)
    )


@st.composite
def stories(draw: st.DrawFn, *, accidents: bool = True) -> Story:
    """Draw a scenario on a small cluster. Node n0 never crashes, so that every job can end."""
    nodes = draw(
        st.lists(st.tuples(st.integers(0, 1), st.integers(1, 3), st.integers(1, 2)), min_size=1, max_size=4)
    )
    seed = draw(st.integers(0, 999))
    jobs = _jobs(draw(st.integers(1, 5)), seed, len(nodes))
    crash = st.tuples(
        st.floats(1, 60), st.integers(1, max(1, len(nodes) - 1)), st.sampled_from([0.0, 2.0, 30.0])
    )
    return Story(
        nodes=tuple(nodes),
        jobs=jobs,
        seed=seed,
        loss=draw(st.sampled_from([0.0, 0.1, 0.3])) if accidents else 0.0,
        failures=draw(st.sampled_from([0.0, 0.05])) if accidents else 0.0,
        crashes=tuple(draw(st.lists(crash, max_size=3))) if accidents and len(nodes) > 1 else (),
    )


def run_story(policy: Any, story: Story, *, audit: bool = False) -> World:
    """Run the scenario `story` to the end and return its world.

    If `audit` is true, the core's tables are checked after each event.
    """
    rigid = not hasattr(policy, "decide") and is_rigid(policy)
    nodes = [
        node(f"n{number}", rack=f"r{rack}", maps=6 if rigid else maps, reduces=reduces)
        for number, (rack, maps, reduces) in enumerate(story.nodes)
    ]
    made = policy if hasattr(policy, "decide") else build_policy(policy)
    world = World(made, nodes, audit=audit)
    world.loses = lambda name, count: _lost(story, name, count)
    world.failing = lambda attempt, _: (
        "bad luck" if chance(story.seed, "fail", attempt).random() < story.failures else None
    )
    for time_s, which, pause_s in story.crashes:
        world.at(time_s, lambda name=f"n{which}": world.crash(name))
        world.at(time_s + 1, lambda name=f"n{which}": _replicate(world, name))
        if pause_s:
            world.at(time_s + pause_s, lambda name=f"n{which}": world.restart(name))
    for spec in story.jobs:
        world.submit(spec)
    return world.run()


def _replicate(world: World, lost: str) -> None:
    """Move all replicas on the node `lost` to n0."""
    for spec in world.specs.values():
        for split in spec.splits:
            if split.block is not None and lost in split.hosts:
                hosts = dict.fromkeys("n0" if host == lost else host for host in split.hosts)
                world.core.replicas_changed(world.now_s, split.block, hosts)


def _lost(story: Story, name: str, count: int) -> str:
    luck = chance(story.seed, "message", name, count)
    return luck.choice(["request", "reply"]) if luck.random() < story.loss else ""


@pytest.mark.parametrize("policy", POLICY_SPECS, ids=str)
@few
@given(story=stories())
def test_all_jobs_end_and_each_task_commits_once(policy: Any, story: Story):
    """Every job ends, and no task is committed twice.

    `World` asserts that no attempt is launched twice, and checks the core's tables.
    """
    world = run_story(policy, story, audit=True)
    ended = world.ended_jobs()
    assert set(ended) == {spec.job for spec in story.jobs}
    for spec in story.jobs:
        committed = [task for task in world.outputs if task.startswith(spec.job)]
        wanted = spec.reduces or spec.maps
        assert len(committed) == wanted if ended[spec.job] == "succeeded" else len(committed) <= wanted
        assert ended[spec.job] == "succeeded" or story.failures
    rows = world.tape.attempts
    assert len({row.attempt for row in rows}) == len(rows)
    launched = [row for row in world.tape.decisions if row.answer in ("launch", "split")]
    assert len(launched) == len(rows)


@pytest.mark.parametrize("policy", POLICY_SPECS, ids=str)
@few
@given(story=stories())
def test_a_replay_is_equal(policy: Any, story: Story):
    """Two runs of the same scenario give the same rows."""
    assert run_story(policy, story).history() == run_story(policy, story).history()


@pytest.mark.parametrize("policy", POLICY_SPECS, ids=str)
@few
@given(story=stories(accidents=False), loss=st.sampled_from([0.1, 0.3]))
def test_lost_messages_change_no_outcome(policy: Any, story: Story, loss: float):
    """Lost messages delay tasks but change neither the outputs nor the jobs' final states."""
    calm, rough = run_story(policy, story), run_story(policy, replace(story, loss=loss))
    assert sorted(calm.outputs) == sorted(rough.outputs)
    assert calm.ended_jobs() == rough.ended_jobs()
    assert not rough.ends("lost") and not rough.ends("failed")


class Watched(Fair):
    """The order Fair, which asserts that pre-emption leaves each pool its share, rounded down."""

    def preempt(self, view: View) -> list[Kill]:
        """Return the kills of `Fair`. Assert that no pool that loses attempts falls a slot below its share."""
        kills = list(super().preempt(view))
        for kind in TaskKind:
            shares = Preemption.shares(view, self.pools, kind)
            for name, share in shares.items():
                tally = self.pools[name].tallies[kind]
                taken = sum(
                    kill.attempt.task.job.user == name and kill.attempt.task.kind is kind for kill in kills
                )
                assert not taken or tally.running - tally.killing - taken > share - 1
        return kills


@few
@given(
    story=stories(accidents=False),
    timeouts=st.tuples(st.sampled_from([1.0, 4.0]), st.sampled_from([1.0, 8.0])),
)
def test_preemption_never_takes_a_pool_below_its_share(story: Story, timeouts: tuple[float, float]):
    """Pre-emption leaves each pool its fair share, whatever the two timeouts are."""
    fair = build_policy(COMPOSED[2])
    assert isinstance(fair, Composed) and isinstance(fair.order, Fair)
    watched = Watched(
        pools=fair.order._settings, min_share_timeout_s=timeouts[0], fair_share_timeout_s=timeouts[1]
    )
    nodes = [node(f"n{i}", maps=maps, reduces=reduces) for i, (_, maps, reduces) in enumerate(story.nodes)]
    world = World(Composed(watched, fair.locality, fair.admission), nodes)
    for spec in story.jobs:
        world.submit(spec)
    world.run()
    assert set(world.ended_jobs().values()) == {"succeeded"}
