"""The workload and the cluster of sections 5.1.1 and 5.1.2: twenty IO-bound jobs of three users, 30 s apart.

Users and numbers of maps are drawn at random (the first three users are those of Tables 6 and 7); each repeat draws its
own, so that an interval speaks of such workloads, not of one. Reads and writes are as in SWIM's jobs; what else
an attempt of Hadoop's takes, starting a JVM above all, is CPU here. Pools of equal shares stand in the order of their
names, as in HFS and as Table 6 looks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from schedbed.deploy.papers.bench import Bench, Played
from schedbed.deploy.results.metrics import makespan
from schedbed.tasks.chance import chance

NODES = 5
JOBS, APART_S = 20, 30
USERS = ("user0", "user1", "user2")
FIRST_USERS = ("user2", "user1", "user0")
LEAST_MAPS, MOST_MAPS = 5, 10
BLOCK = "64MB"
START_S, BUSY_START_S = 3.0, 10.0  # of an attempt of Hadoop's: usual, and one that makes the cluster busy
HOT = 0.2  # of the nodes, under skew

DELAY, QUARTER, MOST, LEARNT, COPIES = (
    "delay:ties=name",
    "dtss:p=0.25,ties=name",
    "dtss:p=0.75,ties=name",
    "dtss:p=auto,ties=name",
    "dtss:p=0.25,keep_copy=true,ties=name",
)
NAMES = {DELAY: "delay", QUARTER: "P=0.25", MOST: "P=0.75", LEARNT: "P=auto", COPIES: "P=0.25, copies kept"}
LIVE_SCALE = 0.05


def jobs(seed: int, repeat: int, start_s: float = START_S) -> list[dict[str, Any]]:
    """As in a scenario file."""
    coin, made = chance(seed, "xu2015", repeat), []
    for number in range(JOBS):
        task = {"cpu": f"{start_s}s", "write": BLOCK}
        user = coin.choice(USERS)
        made.append(
            {
                "name": f"job{number + 1}",
                "app": "synthetic",
                "user": FIRST_USERS[number] if number < len(FIRST_USERS) else user,
                "maps": coin.randint(LEAST_MAPS, MOST_MAPS),
                "map": {**task, "read": BLOCK},
                "reduces": 1,
                "reduce": task,
                "submit": f"{number * APART_S}s",
            }
        )
    return made


def scenario(
    jobs: Sequence[Mapping[str, Any]], policies: Sequence[str], *, skewed: bool, live: bool
) -> dict[str, Any]:
    """Five nodes of a map and a reduce slot and 100 Mbit/s, all input on one of them or even; live 20 times as fast."""
    node = {
        "cores": 4,
        "core_speed": 0.08 if live else 1.0,
        "memory": "512MiB" if live else "4GiB",
        "disk": "60MB/s",
        "network": "100Mbit/s",
        "map_slots": 1,
        "reduce_slots": 1,
    }
    return {
        "scale": LIVE_SCALE if live else 1.0,
        "cluster": {"nodes": NODES, "heartbeat": "100ms" if live else "1s", "node": node},
        "blocks": {"size": BLOCK, "replication": 1, "placement": {"skewed": HOT} if skewed else "even"},
        "workload": {"jobs": list(jobs)},
        "policies": list(policies),
    }


def play(bench: Bench, *, skewed: bool, busy: bool = False) -> list[Played]:
    """A run of all policies for each repeat, with jobs of its own."""
    policies = [DELAY, QUARTER, MOST] if busy or bench.live else [DELAY, QUARTER, MOST, LEARNT, COPIES]
    layout = ("skewed" if skewed else "equal") + ("-busy" if busy else "")
    found = []
    for repeat in range(bench.repeats):
        drawn = jobs(bench.seed, repeat, BUSY_START_S if busy else START_S)
        asked = scenario(drawn, policies if skewed else [DELAY, QUARTER], skewed=skewed, live=bench.live)
        asked["seed"] = bench.seed + repeat
        found.append(bench.play(f"{layout}-{repeat + 1}", asked, repeats=1))
    return found


def makespans(played: Played, policy: str) -> Mapping[str, float]:
    """Each user's, s before scale."""
    by_user = makespan(played.of(policy).jobs)["per_user"]
    return {user: took_s / played.run.scenario["scale"] for user, took_s in by_user.items()}


def gains(played: Played, policy: str, than: str = DELAY) -> list[float]:
    """By how many percent each user's makespan is shorter than under another policy."""
    mine, theirs = makespans(played, policy), makespans(played, than)
    return [100 * (1 - mine[user] / theirs[user]) for user in theirs]
