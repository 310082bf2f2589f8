"""A JobTracker that restarts from a snapshot has the same state at each event and the same rows as without a
crash.
"""

from __future__ import annotations

import pickle
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from schedbed.cluster.faults import PlannedFault
from schedbed.cluster.tracker import Tracker
from schedbed.scheduler.core.core_tables import STATE
from schedbed.scheduler.core.rows import NoSink
from schedbed.scheduler.core.snapshots import freeze, thaw
from schedbed.scheduler.driver import Driver
from schedbed.scheduler.event_log import EventList
from schedbed.scheduler.hooks import Proposal
from schedbed.scheduler.policy import Policy
from schedbed.scheduler.registry.registry import POLICIES, build_policy
from schedbed.scheduler.registry.speculation import with_speculation
from schedbed.scheduler.simulate.setup import Setup, Timing
from schedbed.scheduler.simulate.simulation import Simulation
from schedbed.tasks.specs import TaskKind
from tests.harness.described import described
from tests.harness.simulation import Tape, random_jobs, setup, simulate, with_room_for_gangs
from tests.harness.world import job, node

DECIDED = ("decision", "attempt", "job")
LATE = {"late": {"min_runtime": "1s"}}
EXAMPLES = Path(__file__).parents[2] / "examples" / "policies"


def given(policy: str, speculation: Any = "none", seed: int = 5, count: int = 8) -> Setup:
    jobs, files = random_jobs(seed, count)
    plain = setup(jobs, 4, files=files, seed=seed, timing=Timing(), process_all_heartbeats=True)
    roomy = with_room_for_gangs(plain, policy)
    return replace(roomy, policy=lambda: with_speculation(build_policy(policy), speculation))


def crashes(*times_s: float) -> list[PlannedFault]:
    """Return one crash of the JobTracker per time.

    Each lasts only a nanosecond, so that no message is missed.
    """
    return [PlannedFault(at_s=at_s, kind="crash_jobtracker", until_s=at_s + 1e-9) for at_s in times_s]


def crashed(setup: Setup) -> tuple[Tape, Driver, int]:
    """Run the simulation. Return the rows, the driver and the number of restarts from a snapshot."""
    tape, gone_back = Tape(), 0
    simulation = Simulation(setup, tape)
    master: Any = simulation.master
    inner = master._go_back

    def go_back(snapshot: bytes) -> None:
        nonlocal gone_back
        gone_back += 1
        inner(snapshot)

    master._go_back = go_back
    simulation.run()
    return tape, simulation.master, gone_back


TIMES_S = (3.3, 11.07, 17.77, 30.01, 41.13)


@pytest.mark.parametrize("speculation", ("none", LATE), ids=("plain", "late"))
@pytest.mark.parametrize(
    "policy",
    [
        "fifo",
        *(pytest.param(each, marks=pytest.mark.long) for each in POLICIES if each != "fifo"),
        pytest.param("order=capacity,locality=split,admission=gang", marks=pytest.mark.long),
    ],
)
def test_the_rows_are_the_same_as_without_crashes(
    policy: str, speculation: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(EventList, "EVERY", 23)
    whole = given(policy, speculation)
    tape, driver, gone_back = crashed(replace(whole, faults=crashes(*TIMES_S)))
    assert tape.text(*DECIDED) == simulate(whole).text(*DECIDED)
    assert gone_back == len(TIMES_S)
    assert "journal" not in driver.report()


@pytest.mark.parametrize(
    "policy",
    [pytest.param(each, marks=pytest.mark.long) for each in ("delay", "order=fair,locality=split", "aria")],
)
def test_the_state_is_the_same_after_a_crash_at_any_event(
    policy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before every third event, a driver restored from a snapshot and the later events has the state of the
    running driver.
    """
    monkeypatch.setattr(EventList, "EVERY", 17)
    setup = replace(given(policy, count=2), faults=crashes(1e6))
    simulation = Simulation(setup, Tape())
    master: Any = simulation.master
    inner, asked, checked = master.do, 0, 0

    def do(now_s: float, kind: str, *arguments: Any) -> Any:
        nonlocal asked, checked
        asked += 1
        for snapshot, events in master._journal.beginnings() if asked % 3 == 0 else ():
            other: Any = Driver(master._config, setup.policy, NoSink(), seed=setup.seed, journal=EventList())
            other._start_over() if snapshot is None else other._go_back(snapshot)
            other._replay(events)
            other.core.check_tables()
            assert told(other) == told(master), (now_s, kind)
            checked += snapshot is not None
        return inner(now_s, kind, *arguments)

    master.do = do
    while simulation.step() and simulation.now_s < 30.0:
        pass
    assert checked > 100


def told(driver: Any) -> str:
    """Return the driver's state as text, without effects, which the simulator has already carried out."""
    return described({**driver._state(), "open": None})


def test_a_snapshot_holds_every_attribute_of_the_ledger_that_events_change() -> None:
    """Attributes of the ledger that are not in a snapshot are exactly those that its constructor sets from
    the policy and the settings.
    """
    driver = Driver(Simulation(given("fair"), Tape()).master._config, lambda: build_policy("fair"), NoSink())
    fixed = {name for name in vars(driver.ledger) if name not in STATE}
    assert fixed == {
        "_master",
        "_max_attempts",
        "_node_failures",
        "_on_changed",
        "_on_ended",
        "_on_finished",
        "_on_kill",
        "_on_ready",
        "_on_submitted",
        "_possible",
        "_sink",
        "_slowstart",
        "_writes_ends",
        "limits",
        "pooled",
        "records_skips",
        "seed",
        "size_view",
        "sizes",
        "speculation",
    }


def test_circles_deeper_than_the_stack_are_kept() -> None:
    driver: Any = Simulation(given("fifo"), Tape()).master
    driver.do(0.0, "submit", job("first"))
    for number in range(200):  # each node runs a map of the job before and one of the next
        driver.do(0.0, "submit", job(f"job_{number:04d}", 2))
        driver.do(0.0, "register", node(f"x{number}", maps=2), 1)
        driver.do(0.0, "heartbeat", Tracker(f"x{number}", 1).heartbeat())
    driver.take_effects()
    with pytest.raises(RecursionError):
        pickle.dumps(driver.core.state())
    assert described(thaw(freeze(driver._state()))) == described(driver._state())


@pytest.mark.parametrize("name", ("two_levels.py:TwoLevels", "by_chance.py:ByChance"))
def test_a_policy_of_ones_own_goes_on_from_its_state_or_sees_all_events_again(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(EventList, "EVERY", 23)
    whole = given(f"{EXAMPLES / name}")
    tape, driver, gone_back = crashed(replace(whole, faults=crashes(*TIMES_S)))
    assert tape.text(*DECIDED) == simulate(whole).text(*DECIDED)
    has_state = "two_levels" in name
    assert gone_back == (len(TIMES_S) if has_state else 0)
    told = driver.report().get("journal", "")
    assert told == "" if has_state else "no state() and restore()" in told and "\n" not in told


class Secretive:
    """A policy whose attributes cannot be pickled."""

    def __init__(self) -> None:
        self.answers = (number for number in range(10**9))

    def decide(self, view: Any, node: Any, kind: TaskKind) -> Proposal | None:
        number = next(self.answers)
        for each in view.jobs.values():
            task = each.any_map() if kind is TaskKind.MAP else each.any_reduce()
            if task is not None and number % 3:
                return Proposal(task, f"answer {number}")
        return None


def test_a_policy_that_cannot_be_kept_sees_all_events_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(EventList, "EVERY", 23)
    policy: Any = Secretive

    def make() -> Policy:
        return policy()

    whole = replace(given("fifo"), policy=make)
    tape, driver, gone_back = crashed(replace(whole, faults=crashes(*TIMES_S)))
    assert tape.text(*DECIDED) == simulate(whole).text(*DECIDED)
    assert gone_back == 0
    assert "cannot pickle 'generator' object" in driver.report()["journal"]


def test_ended_jobs_and_files_that_nobody_reads_are_forgotten() -> None:
    simulation = Simulation(given("fifo"), Tape())
    driver = simulation.master
    jobs = set(driver.jobs)
    assert len(jobs) == 8
    simulation.run()
    assert driver.jobs == {} and set(driver.submit_times_s) == jobs
