"""Small scenarios whose right answer is argued outside of schedbed: bug reports, and tests of real systems.

They are read from `../shared/cases`, each with the reason in that folder's README.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import schedbed
from schedbed import BadInput

CASES = Path(__file__).parents[4] / "shared" / "cases"
pytestmark = pytest.mark.skipif(
    not CASES.is_dir(), reason="the folder with cases of other projects is not here"
)

Check = Callable[[pd.DataFrame], None]
"""Raises AssertionError for the attempts of one policy, in the order of their starts, with the jobs' names."""


def attempts_of(case: str, **changes: Any) -> dict[str, pd.DataFrame]:
    """Simulate a case. Return the attempts of each policy, with the names of their jobs, in the order of decisions."""
    result: Any = schedbed.run(CASES / f"{case}.yaml", machines="sim", **changes)
    names = dict(zip(result.jobs["job"].astype(str), result.jobs["name"].astype(str), strict=False))
    attempts = result.attempts.assign(name=result.attempts["job"].astype(str).map(names))
    launches = result.decisions[result.decisions["answer"] == "launch"]
    keys = zip(launches["policy"].astype(str), launches["task"].astype(str), strict=True)
    order = {key: place for place, key in reversed(list(enumerate(keys)))}
    places = zip(attempts["policy"].astype(str), attempts["task"].astype(str), strict=True)
    attempts = attempts.assign(place=[order[key] for key in places])
    attempts = attempts.sort_values(["assigned", "place"], kind="stable")
    return {str(policy): rows for policy, rows in attempts.groupby("policy", observed=True)}


def held(attempts: pd.DataFrame, at_s: float) -> dict[str, int]:
    """Return the number of attempts that each job has at a time."""
    live = attempts[(attempts["assigned"] <= at_s) & ~(attempts["end"] <= at_s)]
    return {str(name): len(rows) for name, rows in live.groupby("name")}


def starts(attempts: pd.DataFrame, job: str) -> list[float]:
    """Return the times at which attempts of the job were launched."""
    return attempts.loc[attempts["name"] == job, "assigned"].tolist()


def holds_at_60(job: str, slots: int, kills: int) -> Check:
    def check(attempts: pd.DataFrame) -> None:
        assert held(attempts, 60.0)[job] == slots
        assert (attempts["state"].astype(str) == "killed").sum() <= kills

    return check


def first_jobs(*names: str) -> Check:
    return lambda attempts: _equal(attempts["name"].tolist()[: len(names)], list(names))


def first_start(job: str, least_s: float, most_s: float) -> Check:
    return lambda attempts: _between(starts(attempts, job)[0], least_s, most_s)


def first_on(node: str, least_s: float, most_s: float) -> Check:
    return lambda attempts: _between(
        attempts.loc[attempts["node"].astype(str) == node, "assigned"].min(), least_s, most_s
    )


def running_at(at_s: float, **jobs: int) -> Check:
    return lambda attempts: _equal(held(attempts, at_s), jobs)


def together(attempts: pd.DataFrame) -> None:
    """Each gang starts within two heartbeats, and there are never more attempts than slots."""
    for job, size in (("j1", 8), ("j2", 10)):
        times = starts(attempts, job)
        assert len(times) == size and times[-1] - times[0] < 0.5
    assert max(sum(held(attempts, at_s).values()) for at_s in attempts["assigned"]) <= 12


def copies_at(count: int, least_s: float, most_s: float) -> Check:
    """Check that so many tasks are copied, once each, at that time and on other nodes than their own."""

    def check(attempts: pd.DataFrame) -> None:
        copies = attempts[attempts["speculative"].astype(bool)]
        assert len(copies) == copies["task"].nunique() == count
        for copy in copies.itertuples():
            _between(float(str(copy.assigned)), least_s, most_s)
            mine = attempts.loc[attempts["task"] == copy.task, "node"].astype(str)
            assert mine.nunique() == len(mine)

    return check


def maps_and_reduces(attempts: pd.DataFrame) -> None:
    for kind, names in (("map", ["j2", "j3", "j3", "j1"]), ("reduce", ["j2", "j3", "j2", "j1"])):
        assert attempts.loc[attempts["kind"] == kind, "name"].tolist()[:4] == names


def needy_in_turn(attempts: pd.DataFrame) -> None:
    first_start("jb", 30.0, 46.0)(attempts)
    first_start("ja", 70.0, 86.0)(attempts)


def one_on_each(attempts: pd.DataFrame) -> None:
    assert sorted(attempts["node"].astype(str)) == ["n1", "n2", "n3", "n4"]


def all_local(maps: int) -> Check:
    return lambda attempts: _equal(attempts["locality"].astype(str).tolist(), ["node"] * maps)


def starts_between(job: str, least_s: float, most_s: float) -> Check:
    """Check that all maps of the job start in that time."""

    def check(attempts: pd.DataFrame) -> None:
        times_s = starts(attempts, job)
        _between(min(times_s), least_s, most_s)
        _between(max(times_s), least_s, most_s)

    return check


def in_a_cycle(attempts: pd.DataFrame) -> None:
    times_s = [at_s for job in ("j3", "j4", "j5", "j6") for at_s in starts(attempts, job)]
    assert max(times_s) - min(times_s) <= 1.5 and max(times_s) <= 83.0


def _equal(found: object, wanted: object) -> None:
    assert found == wanted


def _between(found: float, least: float, most: float) -> None:
    assert least <= found <= most


def one_after_the_other(*starts_s: float) -> Check:
    """Check that the jobs 1, 2, ... start at these times or up to 1 s later."""

    def check(attempts: pd.DataFrame) -> None:
        for job, start_s in enumerate(starts_s, start=1):
            _between(starts(attempts, str(job))[0], start_s, start_s + 1)

    return check


def over_promised(attempts: pd.DataFrame) -> None:
    """Check that the pool above its min share loses what the other one lacks, and nothing below its own."""
    running_at(60.0, b1=4, a1=2)(attempts)
    assert (attempts["state"].astype(str) == "killed").sum() == 2


def one_at_a_time(attempts: pd.DataFrame) -> None:
    """Check that the four maps of 10 s run one after the other, beside the job's master."""
    assert max(sum(held(attempts, at_s).values()) for at_s in attempts["assigned"]) == 1
    assert attempts["end"].max() >= 40.0


def first_reduce(least_s: float, most_s: float) -> Check:
    return lambda attempts: _between(
        attempts.loc[attempts["kind"] == "reduce", "assigned"].min(), least_s, most_s
    )


def reduces_before_the_last_map(least: int, most: int) -> Check:
    def check(attempts: pd.DataFrame) -> None:
        last_s = attempts.loc[attempts["kind"] == "map", "assigned"].max()
        reduces = attempts[attempts["kind"] == "reduce"]
        _between(int((reduces["assigned"] < last_s).sum()), least, most)

    return check


def third_after_an_end(attempts: pd.DataFrame) -> None:
    assert starts(attempts, "j3")[0] > attempts.loc[attempts["name"] == "j1", "end"].max()
    assert starts(attempts, "j2")[0] < 20


RIGHT: dict[str, Check] = {
    "yarn-suite/am-holds-room": one_at_a_time,
    "yarn-suite/capacity-am-limit": third_after_an_end,
    "yarn-suite/delay-in-seconds": first_start("j1", 11.0, 13.0),
    "yarn-suite/mapreduce-slow-start": first_reduce(50.0, 56.0),
    "yarn-suite/mapreduce-ramp-up": reduces_before_the_last_map(1, 5),
    "yarn-suite/fair-over-promised": over_promised,
    "swf-preceding": one_after_the_other(0, 1200, 3300),
    "swf-think-time": one_after_the_other(0, 100, 260),
    "min-share-reclaimed": holds_at_60("ja", 3, 3),
    "min-share-reclaimed-10": holds_at_60("ja", 5, 5),
    "starving-pool-waits": holds_at_60("ja", 2, 4),
    "starving-pool-fair-share": holds_at_60("ja", 2, 4),
    "gang-late-nodes": together,
    "hadoop1-suite/needy-pools-by-demand": first_jobs("a", "b", "b", "a"),
    "hadoop1-suite/delay-with-full-trackers": first_start("wait", 10.0, 11.6),
    "hadoop1-suite/user-limit-of-large-tasks": running_at(30.0, a=2),
    "hadoop1-suite/user-without-pending-maps": running_at(30.0, a=1, b=3),
    "hadoop1-suite/queue-of-less-than-a-slot": first_jobs("b", "b", "b"),
    "hadoop1-suite/pool-max-maps": running_at(20.0, j1=2, j2=4),
    "hadoop1-suite/pool-max-jobs": running_at(20.0, j1=2, j2=2),
    "hadoop1-suite/min-maps-and-min-reduces": maps_and_reduces,
    "hadoop1-suite/timeouts-of-pools": needy_in_turn,
    "hadoop1-suite/spread-when-underloaded": one_on_each,
    "spark-suite/local-launches-keep-the-wait": first_on("n2", 4.0, 5.6),
    "spark-suite/wait-runs-while-all-slots-are-taken": first_start("a", 10.4, 11.2),
    "spark-suite/no-wait-for-a-node-without-slots": first_start("a", 1.0, 1.4),
    "spark-suite/stage-without-places-takes-all-offers": first_start("a", 4.0, 5.6),
    "spark-suite/all-offers-at-once": all_local(6),
    "spark-suite/nested-pools": first_jobs("s0", "s4", "s6", "s2"),
    "spark-suite/preset-fair": running_at(5.0, z0=2, z1=2, n2=2),
    "spark-suite/speculation-median": copies_at(1, 16.0, 17.6),
    "spark-suite/speculation-min-runtime": copies_at(1, 21.0, 22.6),
    "spark-suite/speculation-threshold": copies_at(1, 31.0, 32.6),
    "spark-suite/speculation-twice-slow": copies_at(2, 11.0, 12.6),
    "backfill-suite/reserved-nodes": starts_between("j4", 60.0, 63.0),
    "backfill-suite/over-the-limit": starts_between("j2", 60.0, 155.0),
    "backfill-suite/backfill-cycle": in_a_cycle,
    "spark-suite/declared-pool-keeps-the-mode": first_jobs("a0", "b3", "b3", "a1", "b4", "a2", "a2", "b4"),
}


@pytest.mark.parametrize(("case", "end_s"), [("alibaba-waits", 10), ("alibaba-waits-chain", 40)])
def test_waiting_in_a_recorded_duration_is_not_run_as_work(case: str, end_s: float) -> None:
    [attempts] = attempts_of(case).values()
    assert attempts["end"].max() == pytest.approx(end_s, abs=0.2)


def one_of_user(attempts: pd.DataFrame) -> None:
    """Check that the user's second job starts after the first one ends, and another user's job at once."""
    end_s = attempts.loc[attempts["name"] == "j1", "end"].max()
    _between(starts(attempts, "j2")[0], end_s, end_s + 3)
    _between(starts(attempts, "j3")[0], 0.0, 3.0)
    assert held(attempts, 30.0)["j1"] == 2


def by_heartbeat(*containers: int) -> Check:
    """Check that the first heartbeats with launches start these numbers of containers."""
    return lambda attempts: _equal(
        attempts.groupby("assigned").size().tolist()[: len(containers)], list(containers)
    )


def after_end(job: str, of: str, least_s: float, most_s: float) -> Check:
    """Check how long after the end of another job's tasks the job starts."""

    def check(attempts: pd.DataFrame) -> None:
        end_s = attempts.loc[attempts["name"] == of, "end"].min()
        _between(starts(attempts, job)[0] - end_s, least_s, most_s)

    return check


def killed(least_s: float, most_s: float, **jobs: int) -> Check:
    """Check how many attempts of each job are killed up to 200 s, all within these times."""

    def check(attempts: pd.DataFrame) -> None:
        kills = attempts[(attempts["state"].astype(str) == "killed") & (attempts["end"] <= 200)]
        _equal({str(name): len(rows) for name, rows in kills.groupby("name")}, jobs)
        _between(kills["end"].min(), least_s, most_s)
        _between(kills["end"].max(), least_s, most_s)

    return check


def all_of(*checks: Check) -> Check:
    def check(attempts: pd.DataFrame) -> None:
        for each in checks:
            each(attempts)

    return check


YARN: dict[str, Check] = {
    "fair-tree": running_at(60.0, d1=4, x1=2, y1=2),
    "fair-memory-shares": running_at(60.0, s1=6, b1=2),
    "fair-drf": first_jobs("a1", "b1", "b1", "a2"),
    "fair-zero-weight": running_at(60.0, n1=8),
    "fair-max-resources": running_at(60.0, a1=1, b1=3),
    "fair-user-max-apps": one_of_user,
    "fair-dynamic-max-assign": by_heartbeat(5, 2, 1),
    "fair-threshold-rack": first_start("j1", 4.0, 7.5),  # At 4 to 5 s without framework: n10 begins at 0 s.
    "fair-reservation": first_start("big", 20.0, 33.0),
    "fair-preempts-by-memory": all_of(running_at(60.0, greedy=4, hungry=2), killed(20.0, 30.0, greedy=4)),
    "fair-preempts-inside-queue": all_of(running_at(60.0, greedy=4, hungry=2), killed(20.0, 30.0, greedy=4)),
    "fair-preemption-threshold": all_of(running_at(60.0, a1=2, b1=6), killed(20.0, 30.0, b1=2)),
    "fair-wait-before-kill": killed(35.0, 42.0, b1=4),
    "capacity-user-limits": first_jobs("u0a", "u1a", "u0a", "u1a"),
    "capacity-one-beyond-user-limit": running_at(60.0, j1=5),
    "capacity-active-users": running_at(60.0, j1=6, j2=2),
    "capacity-ordering-fair": running_at(60.0, j1=3, j2=6),
    "capacity-off-switch-delay": after_end("j1", "hold", 3.0, 5.0),
    "capacity-node-locality-delay": after_end("j1", "hold", 5.0, 7.0),
    "capacity-off-switch-ends-turn": lambda attempts: _between(
        starts(attempts, "y")[0] - starts(attempts, "x")[0], 3.8, 5.0
    ),
    "capacity-reservation": first_start("big", 20.0, 33.0),
    "capacity-max-parallel-apps": after_end("j3", "j1", 0.0, 3.0),
    "capacity-preempts-over-guarantee": all_of(
        running_at(60.0, a1=20, b1=60, c1=10, c2=10), killed(20.0, 40.0, a1=10)
    ),
    "capacity-preempts-to-guarantee": killed(20.0, 40.0, b1=5, c1=15),
    "capacity-preempts-inside-queue": all_of(running_at(60.0, j1=70, j2=30), killed(20.0, 40.0, j1=30)),
}
"""Facts that the tests of Hadoop 3.4.1's schedulers assert, which hold with any framework."""


OFFERS = ("capacity-off-switch-delay", "capacity-node-locality-delay", "capacity-user-limits")
"""Cases that count heartbeats, of which the first, and the next one after an end, come later with the framework."""


@pytest.mark.parametrize(
    ("case", "framework"),
    [(case, each) for case in YARN for each in ("none", "yarn-bare") if case not in OFFERS or each != "none"],
)
def test_yarns_schedulers_are_right_with_and_without_the_framework(case: str, framework: str) -> None:
    for attempts in attempts_of(f"yarn-suite/{case}", sets=[f"framework={framework}"]).values():
        YARN[case](attempts)


ENDS_S = {
    "conservative": (100, 200, 300, 550),
    "conservative-early-end": (600, 800, 102, 109, 132),
    "reservations-two": (100, 200, 300, 500, 400),
    "reservations-all": (100, 200, 300, 400, 750),
}


@pytest.mark.parametrize("case", ENDS_S)
def test_jobs_end_as_the_papers_on_backfilling_say(case: str) -> None:
    [attempts] = attempts_of(f"backfill-suite/{case}").values()
    assert attempts.groupby("name")["end"].max().tolist() == pytest.approx(ENDS_S[case], abs=0.6)


@pytest.mark.parametrize("case", RIGHT)
def test_the_answer_is_right_under_each_policy(case: str) -> None:
    for attempts in attempts_of(case).values():
        RIGHT[case](attempts)


@pytest.mark.parametrize(
    "case", ["backfill-suite/larger-than-the-machine", "spark-suite/barrier-larger-than-the-cluster"]
)
def test_a_gang_larger_than_the_machine_is_refused_with_the_reason(case: str) -> None:
    with pytest.raises(
        BadInput, match=r"starts all maps of a job at once, but .* has \d maps and the cluster"
    ):
        schedbed.run(CASES / f"{case}.yaml", machines="sim")


@pytest.mark.parametrize("reset", ["full", "launch"])
@pytest.mark.parametrize("share", [0.25, 0.5, 0.75, 0.95])
def test_seconds_are_seconds_by_the_clock_of_spark(share: float, reset: str) -> None:
    """The first map elsewhere starts 3 to 4 s after the submission at any load.

    Before Spark 3.1, launches near the data, which all come within the first second here, restart the wait.
    """
    spec = f"delay:node_wait=3s,rack_wait=0s,clock=wall,reset={reset}"
    sets = [f"blocks.placement.skewed={share}"]
    [attempts] = attempts_of("delay-on-a-busy-cluster", policies=[spec], sets=sets).values()
    _between(attempts.loc[attempts["locality"].astype(str) != "node", "assigned"].min(), 3.0, 4.5)
