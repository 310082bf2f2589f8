"""Runs a generated test scenario (story), checks it, and runs variants that must give the same rows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from tests.search.alone.parts import run_alone
from tests.search.generate import make_story, with_small_gangs
from tests.search.oracles.no_false_alarm import check_referee
from tests.search.outcome import check_outcome
from tests.search.simulated_story import SimulatedStory, simulate
from tests.search.story import Story
from tests.search.violation import Violation, hold

LOSSES = ("lose_requests", "lose_replies")
HARMLESS = (*LOSSES, "slow")
"""Kinds of faults that cannot make a job fail or lose a replica."""


def examine(story: Story) -> Violation | None:
    """Run a test scenario with all checks; return the first violation, None if all checks pass."""
    story = with_small_gangs(story)
    try:
        if story.alone:
            run_alone(story.alone, story.seed, story.steps)
            return None
        finished = simulate(story)
        check_outcome(finished)
        check_referee(finished.sim, finished.rows)
        _check_repeats(finished)
        _check_losses(finished)
        _check_elision(finished)
        _check_snapshots(finished)
    except Violation as violation:
        return violation
    return None


def search(seeds: Iterable[int], policies: Sequence[str] | None = None) -> tuple[Story, Violation] | None:
    """Run the test scenarios of the seeds until a check fails; return the scenario and the violation.

    Return None if all checks pass.
    """
    for seed in seeds:
        story = make_story(seed, policies)
        violation = examine(story)
        if violation is not None:
            return story, violation
    return None


def _check_repeats(finished: SimulatedStory) -> None:
    """Check that the rows are the same in a run without repeated messages."""
    if finished.postman.repeated or finished.postman.strays:
        once = simulate(replace(finished.story, repeats=0.0, strays=0.0), audit=False)
        _hold_same(once, finished, "a repeated message changes nothing")


def _check_elision(finished: SimulatedStory) -> None:
    """Check that the rows are the same in a run that simulates every heartbeat.

    Other runs skip heartbeats that change nothing.
    """
    if finished.sim.timers.elides:
        full = simulate(finished.story, audit=False, process_all_heartbeats=True)
        _hold_same(full, finished, "a heartbeat that is not played changes nothing")


def _check_snapshots(finished: SimulatedStory) -> None:
    """Check that the rows are the same in a run whose JobTracker recovers from snapshots after a crash."""
    if any(fault.kind == "crash_jobtracker" for fault in finished.story.faults):
        kept = simulate(finished.story, audit=False, snapshots=True)
        _hold_same(kept, finished, "a snapshot changes nothing")


def _hold_same(one: SimulatedStory, other: SimulatedStory, check: str) -> None:
    first, second = one.rows.history(), other.rows.history()
    for left, right in zip(first, second, strict=False):
        if left != right:
            raise Violation(check, f"{right} instead of {left}")
    hold(len(first) == len(second), check, f"{len(second)} rows instead of {len(first)}")


def _check_losses(finished: SimulatedStory) -> None:
    """Check that a run without lost heartbeats has the same job states and outputs.

    Skip test scenarios that have other faults which may fail a job.
    """
    story = finished.story
    if any(fault.kind in LOSSES for fault in story.faults) and all(
        fault.kind in HARMLESS for fault in story.faults
    ):
        kept = tuple(fault for fault in story.faults if fault.kind not in LOSSES)
        calm = simulate(replace(story, faults=kept), audit=False)
        states = [sorted((row.job, row.state) for row in each.rows.jobs) for each in (calm, finished)]
        hold(states[0] == states[1], "a lost heartbeat changes no outcome", states)
        hold(sorted(calm.committed) == sorted(finished.committed), "a lost heartbeat changes no outcome", "")
