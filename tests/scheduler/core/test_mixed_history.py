"""A mixed workload with failures and lost nodes: under each policy, rows and effects keep their checksums.

A faster core must make the same decisions. Intended changes of decisions need new checksums in this file.
"""

from __future__ import annotations

import hashlib
import random
from typing import Any

import pytest

from schedbed.scheduler.registry.registry import build_policy
from schedbed.tasks.chance import chance
from schedbed.tasks.specs import JobSpec
from tests.harness.world import World, job, node

NODES = [f"n{number:02d}" for number in range(14)]

SUMS: list[tuple[Any, str]] = [
    ("fifo", "055ce60c8484ca57"),
    ("fair", "f225bb7c3318edcd"),
    ("delay:node_wait=1s,rack_wait=500ms", "d5ecc387b4b76009"),
    ("order=fair:pool_by=queue+inside=fifo,locality=delay,admission=containers", "224472bcf9772c98"),
    (
        {
            "delay": {
                "pools": {"ana": {"weight": 2, "min_share": 4}, "bo": {"inside": "fifo"}},
                "min_share_timeout": "3s",
                "fair_share_timeout": "6s",
            }
        },
        "a3e3271bd38c18fe",
    ),
]


def some_job(number: int, luck: random.Random) -> JobSpec:
    """Return a random job: with or without input, with 1 to 40 maps, with or without reduces."""
    replicas = luck.choice([0, 1, 3, 3, 3])
    maps = luck.choice([1, 4, 12, 40])
    return job(
        f"job_{number:04d}",
        [" ".join(luck.sample(NODES, replicas)) for _ in range(maps)],
        reduces=luck.choice([0, 0, 1, 3]),
        user=luck.choice(["ana", "bo", "cy"]),
        queue=luck.choice(["day", "night"]),
        priority=luck.choice(["high", "normal", "normal", "low"]),
        submit_s=luck.choice([0.0, 0.0, 5.0, 30.0, 31.25]),
        memory=luck.choice([1, 2]) * 2**30,
    )


def mixed_world(policy: Any) -> World:
    """Return a world with forty jobs on fourteen nodes.

    Nodes crash and restart, messages and outputs are lost, tasks fail.
    """
    luck = chance(11, "mixed")
    nodes = [
        node(name, rack=f"r{place % 3}", maps=2 + place % 2, cores=4) for place, name in enumerate(NODES)
    ]
    world = World(build_policy(policy), nodes, audit=False)
    world.failing = lambda attempt, _: "bad luck" if chance(11, attempt).random() < 0.03 else None
    world.commit_fails = lambda attempt: chance(11, "commit", attempt).random() < 0.02
    world.loses = lambda name, count: {3: "reply", 40: "request"}.get((count + int(name[1:])) % 97, "")
    for number in range(40):
        spec = some_job(number, luck)
        world.submit(spec)
        world.durations[spec.job] = luck.choice([700, 4_000, 12_345])
    blocks = [
        (split.block, NODES[:2]) for spec in world.specs.values() for split in spec.splits if split.block
    ]
    for block, hosts in blocks[::9]:
        world.at(8, lambda b=block, h=hosts: world.core.replicas_changed(world.now_s, b, h))
    for when_s, name, pause_s in [(10, "n03", 9), (20, "n07", 2), (33, "n11", 20)]:
        world.at(when_s, lambda n=name: world.crash(n)).at(when_s + pause_s, lambda n=name: world.restart(n))
    world.at(12, lambda: world.core.kill_job(world.now_s, "job_0007", "enough"))
    return world


@pytest.mark.parametrize(("policy", "expected"), SUMS, ids=lambda value: str(value)[:40])
def test_rows_and_effects_stay_the_same(policy: Any, expected: str):
    """The checksum of all rows, effects and launches is `expected`."""
    world = mixed_world(policy).run()
    told = "\n".join(str(effect) for effect in world.effects)
    history = f"{world.history()}{told}\n{world.launched}\n"
    assert hashlib.sha256(history.encode()).hexdigest()[:16] == expected
