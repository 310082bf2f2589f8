"""Generates test scenarios from seeds: small clusters, jobs with all features, and faults of every kind.

Node n0 can run every task and never fails permanently, and every fault ends, so every job can succeed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from random import Random
from typing import Any

from schedbed.scheduler.locality.delay import Delay
from schedbed.scheduler.registry.registry import is_rigid
from schedbed.tasks.chance import chance
from tests.search.alone.parts import PARTS
from tests.search.policies import QUEUES, USERS, draw_later_policy, draw_policy, made, with_rare_settings
from tests.search.story import Story, StoryFault, StoryJob, StoryNode

NEWER = 1000
"""Stories from this seed on have further kinds of faults; stories of smaller seeds stay unchanged."""

LATER = 2000
"""Stories from this seed on also have jobs of 100 maps, users' policies, killed jobs, repeated reports, messages
lost between TaskTrackers and agents, and DataNodes that report their real content."""

ALONE = 3000
"""Every fourth story from this seed on, up to PAIRS, tests one component alone, which takes milliseconds."""

SHARED = 10_000
"""Whole stories from this seed on also have jobs that share inputs, and replicas that follow the reads."""

PAIRS = 20_000
"""Stories from this seed on have two overlapping faults of a node, a seed for each pair of kinds in turn."""

RARE = (4140,)
"""Seeds of component stories that reach rare code: the learned share says not to split a map."""

FURTHER = (
    "delay",
    "loss",
    "cut_off",
    "fill_disk",
    "kill_attempt",
    "kill_tracker",
    "corrupt_replica",
    "delete_replica",
)
PAIRED = (
    *("kill", "freeze", "slow", "partition", "crash_jobtracker", "restart_namenode"),
    *("lose_requests", "lose_replies", *FURTHER),
)
CALM_S = 90.0
"""Seconds after which no fault begins or ends."""


def seeds_of_all_kinds(count: int) -> list[int]:
    """Return seeds of all kinds of test scenarios, at least `count` of them.

    A fifth of `count` are small seeds, a fifth are from NEWER on, and the others from LATER on. Further seeds
    give scenarios that share inputs, or that test one component and take milliseconds.
    """
    few = count // 5
    return [
        *range(few),
        *range(NEWER, NEWER + few),
        *(seed for seed in range(SHARED, SHARED + few) if not runs_alone(seed)),
        *range(ALONE, ALONE + 12 * few, 4),
        *RARE,
        *range(PAIRS, PAIRS + few),
        *range(LATER, LATER + count - 2 * few),
    ]


def runs_alone(seed: int) -> bool:
    """Return whether the seed's test scenario tests one component alone."""
    return ALONE <= seed < PAIRS and seed % 4 == 0


def make_story(seed: int, policies: Sequence[str] | None = None) -> Story:
    """Return the test scenario of a seed, under one of `policies` (None: any policy)."""
    if policies is None and runs_alone(seed):
        return Story(seed=seed, alone=list(PARTS)[seed // 4 % len(PARTS)])
    luck = chance(seed, "story")
    nodes = _nodes(chance(seed, "nodes"))
    jobs = tuple(_job(chance(seed, "job", number)) for number in range(luck.choice((1, 2, 3, 3, 5, 8))))
    names = [f"n{place}" for place in range(len(nodes))]
    calm = luck.random() < 0.1
    story = Story(
        seed=seed,
        policy=draw_policy(chance(seed, "policy"), policies),
        speculation=_speculation(chance(seed, "speculation")) if policies is None else "none",
        heartbeat_s=luck.choice((0.5, 0.5, 1.0)),
        replication=min(len(nodes), luck.choice((1, 2, 2, 3))),
        contention=luck.random() < 0.3,
        failing=0.0 if calm else luck.choice((0.0, 0.0, 0.1, 0.3)),
        commits_failing=0.0 if calm else luck.choice((0.0, 0.0, 0.0, 0.3)),
        repeats=0.0 if calm else luck.choice((0.0, 0.1, 0.4)),
        commit_s=chance(seed, "commits").choice((0.008, 0.008, 1.0)),
        nodes=nodes,
        jobs=jobs,
        faults=() if calm else _faults(chance(seed, "faults"), names, FURTHER if seed >= NEWER else ()),
    )
    if seed >= LATER:
        story = _later(story, chance(seed, "later"), policies)
    if seed >= PAIRS:
        return _with_pair(story)
    return _shared(story, chance(seed, "shared")) if seed >= SHARED else story


def with_small_gangs(story: Story) -> Story:
    """Return the test scenario without jobs that a policy of gangs could not start once nodes are lost for good."""
    if not is_rigid(story.policy):
        return story
    lost = {
        name for fault in story.faults if fault.kind == "kill" and not fault.until_s for name in fault.nodes
    }
    slots = sum(node.map_slots for place, node in enumerate(story.nodes) if f"n{place}" not in lost)
    return replace(story, jobs=tuple(replace(job, maps=min(job.maps, slots)) for job in story.jobs))


def _with_pair(story: Story) -> Story:
    """Return the test scenario with faults of two kinds at one node, of which the second begins during the first.

    The first may end before, while or after the node is back from the second.
    """
    first, second = divmod((story.seed - PAIRS) % len(PAIRED) ** 2, len(PAIRED))
    luck = chance(story.seed, "pair")
    if len(story.nodes) < 2:
        return story
    names = ["n0", f"n{luck.randrange(1, len(story.nodes))}"]
    faults = [_fault(luck, names, (), PAIRED[place]) for place in (first, second)]
    made = [fault for fault in faults if fault is not None]
    at_s = round(luck.uniform(1.0, 6.0), 2)
    for place, fault in enumerate(made):
        begin_s = round(at_s + place * luck.choice((0.05, 0.3, 1.0)), 2)
        lasts_s = luck.choice((0.4, 1.5, 3.0, 8.0))
        until_s = None if fault.until_s is None else round(begin_s + lasts_s, 2)
        made[place] = replace(fault, at_s=begin_s, until_s=until_s)
    return replace(story, faults=tuple(sorted((*story.faults, *made), key=lambda fault: fault.at_s)))


def _later(story: Story, luck: Random, policies: Sequence[str] | None) -> Story:
    """Return the test scenario with the features of scenarios from seed LATER on."""
    jobs, faults = list(story.jobs), list(story.faults)
    if luck.random() < 0.15:
        wide = luck.randrange(len(jobs))
        jobs[wide] = replace(
            jobs[wide], maps=100, map_s=luck.choice((0.4, 2.0)), input_mib=luck.choice((0, 8))
        )
    for _ in range(luck.choice((0, 0, 0, 1, 2))):
        at_s = round(luck.uniform(0.2, 25.0), 2)
        faults.append(StoryFault(at_s=at_s, kind="kill_job", luck=luck.randrange(1000) / 1000))
    policy = story.policy
    if policies is None:
        policy = with_rare_settings(chance(story.seed, "rare"), draw_later_policy(luck))
    return replace(
        story,
        jobs=tuple(jobs),
        faults=tuple(sorted(faults, key=lambda fault: fault.at_s)),
        policy=policy,
        strays=luck.choice((0.0, 0.2)),
        lost_orders=luck.choice((0.0, 0.0, 0.05, 0.2)),
        disks=True,
        per_heartbeat=luck.choice((0, 0, 0, 1)),
        skip_rows=luck.random() < 0.8,
    )


def _shared(story: Story, luck: Random) -> Story:
    """Return the test scenario with inputs that several jobs read.

    A scheme adds replicas of inputs that are read often.
    """
    read = StoryJob(maps=luck.choice((2, 5, 12)), input_mib=luck.choice((8, 64)))
    jobs = tuple(
        replace(job, maps=read.maps, input_mib=read.input_mib) if luck.random() < 0.6 else job
        for job in story.jobs
    )
    scheme = luck.choice(("dare", "scarlett", "scarlett", "cdrm"))
    nodes = story.nodes
    policy = made(story.policy)
    if isinstance(getattr(getattr(policy, "own", policy), "locality", None), Delay):
        # A job's wait grows only until the next heartbeat of any node, for hours if only one has map slots.
        nodes = tuple(replace(node, map_slots=max(1, node.map_slots)) for node in nodes)
    return replace(story, nodes=nodes, jobs=jobs, shared=True, scheme=scheme)


def _speculation(luck: Random) -> Any:
    """Return random settings of speculation: mostly none, sometimes eager."""
    eager = {"late": {"cap": 1, "slow_task": 100, "slow_node": 0, "min_runtime": luck.choice(("0s", "1s"))}}
    return luck.choice(("none", "none", "none", {"late": {"min_runtime": "2s", "cap": 0.3}}, eager))


def _nodes(luck: Random) -> tuple[StoryNode, ...]:
    first = StoryNode(cores=4, map_slots=luck.randint(1, 3), reduce_slots=luck.randint(1, 2))
    racks = luck.choice((1, 2, 2, 3))
    others = [
        StoryNode(
            rack=luck.randrange(racks),
            cores=luck.randint(2, 4),
            memory_mib=luck.choice((2048, 4096, 8192)),
            map_slots=luck.choice((0, 1, 1, 2, 4)),
            reduce_slots=luck.choice((0, 1, 1, 2)),
            speed=luck.choice((1.0, 1.0, 0.5)),
        )
        for _ in range(luck.randint(0, 7))
    ]
    return (first, *others)


def _job(luck: Random) -> StoryJob:
    return StoryJob(
        submit_s=luck.choice((0.0, 0.0, 1.0, 5.0, 12.0)),
        maps=luck.choice((0, 1, 2, 3, 5, 8, 12, 16)),
        map_s=luck.choice((0.0, 0.4, 2.0, 5.0, 10.0)),
        reduces=luck.choice((0, 1, 1, 2, 4)),
        reduce_s=luck.choice((0.0, 1.0, 4.0, 8.0)),
        input_mib=luck.choice((0, 8, 8, 64)),
        output_mib=luck.choice((0, 4, 32)),
        user=luck.choice(USERS),
        queue=luck.choice(QUEUES),
        priority=luck.choice(("very_high", "normal", "normal", "low")),
        deadline_s=luck.choice((None, None, 10.0, 60.0, 300.0)),
        memory_mib=luck.choice((512, 1024, 2048)),
        vcores=luck.choice((1, 1, 2)),
    )


def _faults(luck: Random, names: Sequence[str], further: Sequence[str]) -> tuple[StoryFault, ...]:
    faults = [_fault(luck, names, further) for _ in range(luck.choice((0, 1, 2, 3, 5, 8)))]
    return tuple(sorted((fault for fault in faults if fault is not None), key=lambda fault: fault.at_s))


def _fault(
    luck: Random, names: Sequence[str], further: Sequence[str], kind: str | None = None
) -> StoryFault | None:
    """Return a random fault, of one kind if given; None if the cluster has too few nodes for it."""
    kind = kind or luck.choice(
        (
            *("kill",) * 4,
            *("freeze",) * 2,
            *("lose_requests", "lose_replies", "bad_node", "lose_output") * 2,
            *("slow", "partition", "crash_jobtracker", "restart_namenode"),
            *(*further, *further),
        )
    )
    at_s = round(luck.uniform(0.2, luck.choice((6.0, 15.0, 30.0))), 2)
    until_s = round(min(CALM_S, at_s + luck.choice((0.3, 1.5, 5.0, 12.0, 40.0))), 2)
    others = list(names[1:])
    one = (luck.choice(others),) if others else ()
    if kind in ("lose_requests", "lose_replies"):
        some = tuple(name for name in names if luck.random() < 0.5)
        share = luck.choice((0.1, 0.3, 0.7))
        return StoryFault(at_s=at_s, kind=kind, nodes=some, until_s=until_s, share=share)
    if kind == "crash_jobtracker":
        return StoryFault(at_s=at_s, kind=kind, until_s=round(at_s + luck.choice((0.2, 2.0, 6.0)), 2))
    if kind == "restart_namenode":
        return StoryFault(at_s=at_s, kind=kind)
    if kind == "lose_output":
        return StoryFault(at_s=at_s, kind=kind, nodes=(luck.choice(list(names)),))
    if kind in ("kill_attempt", "corrupt_replica", "delete_replica"):
        return StoryFault(at_s=at_s, kind=kind, luck=int(luck.random() * 1000) / 1000)
    if not one:
        return None
    if kind == "loss":
        return StoryFault(at_s=at_s, kind=kind, nodes=one, until_s=until_s, share=luck.choice((0.1, 0.3)))
    if kind == "delay":
        return StoryFault(
            at_s=at_s, kind=kind, nodes=one, until_s=until_s, by_s=luck.choice((0.05, 0.3, 1.0))
        )
    if kind == "kill_tracker":
        return StoryFault(at_s=at_s, kind=kind, nodes=one)
    if kind == "kill":
        back_s = luck.choice((until_s, until_s, None))
        return StoryFault(at_s=at_s, kind=kind, nodes=one, until_s=back_s)
    if kind == "slow":
        return StoryFault(at_s=at_s, kind=kind, nodes=one, until_s=until_s, factor=luck.choice((0.1, 0.5)))
    if kind == "partition":
        some = tuple(name for name in others if luck.random() < 0.4) or one
        return StoryFault(at_s=at_s, kind=kind, nodes=some, until_s=until_s)
    return StoryFault(at_s=at_s, kind=kind, nodes=one, until_s=until_s)
