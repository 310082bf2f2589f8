"""Runs mutants against generated test scenarios (stories) until a check fails."""

from __future__ import annotations

import gc
import signal
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, fields
from itertools import accumulate
from typing import Any

from schedbed.tasks.chance import chance
from tests.search.alone.parts import run_alone
from tests.search.generate import make_story, seeds_of_all_kinds
from tests.search.mutation.forks import Forks
from tests.search.mutation.mutant import Mutant
from tests.search.mutation.reach import Hits, Place
from tests.search.mutation.targets import MODULES
from tests.search.search import examine
from tests.search.simulated_story import simulate
from tests.search.story import Story

HANG = "every story ends"
ALONE = "alone"
"""The trait of a test scenario for one component alone."""
ALONE_S = 2.0
"""CPU seconds per mutant for scenarios of one component; there are many, and each takes milliseconds."""
LEAST_S = 5.0
"""CPU seconds that any scenario may take; scenarios that are slow without the mutant may take more."""


class Hangs(BaseException):
    """Raised when a test scenario uses more CPU time than allowed, so that it probably never ends."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """The result of testing a mutant.

    `killed_by`, `seen` and `seed` describe the check that failed (empty if the mutant survived), `stories` is
    the number of test scenarios run with the mutant, `hits` the number of executions of the edited statement
    in all surveyed scenarios.
    """

    hits: int
    stories: int = 0
    seed: int = -1
    killed_by: str = ""
    seen: str = ""

    def __str__(self) -> str:
        if self.killed_by:
            return f"killed at seed {self.seed}, story {self.stories}: {self.killed_by} ({self.seen[:120]})"
        return f"survived {self.stories} stories, {self.hits} hits" if self.hits else "never reached"


@dataclass(frozen=True, slots=True)
class Surveyed:
    """Measurements of a test scenario without mutants: CPU time, executed lines, and its `traits`.

    The traits distinguish the scenario from others.
    """

    seed: int
    cost_s: float
    hits: Mapping[Place, int]
    traits: frozenset[str]


class Judge:
    """Tests each mutant against generated test scenarios until a check fails.

    At most `tries` of the `count` scenarios are run for a mutant, and additional short scenarios of one
    component.
    """

    def __init__(self, seed: int, count: int, *, jobs: int, tries: int) -> None:
        self._seed = seed
        self._seeds = seeds_of_all_kinds(count)
        self._jobs, self._tries = jobs, tries
        self._stories: dict[int, Surveyed] = {}

    def survey(self) -> None:
        """Run all test scenarios once without mutants, and record the lines that each scenario executes."""
        parts = [self._seeds[begin :: self._jobs * 4] for begin in range(self._jobs * 4)]
        forks = Forks(_survey, jobs=self._jobs, patience_s=1800.0)
        for part, surveyed in forks.results([part for part in parts if part]):
            assert surveyed is not None, f"the survey of {part} ended early"
            self._stories.update({each.seed: each for each in surveyed})

    def verdicts(self, mutants: Iterable[Mutant], *, until_s: float) -> Iterator[tuple[Mutant, Verdict]]:
        """Yield mutants with their results, until the monotonic clock reads `until_s`."""
        gc.freeze()  # Forked processes share memory that the garbage collector does not touch.
        forks = Forks(self._judge, jobs=self._jobs, patience_s=600.0)
        for mutant, verdict in forks.results(_until(mutants, until_s)):
            yield mutant, verdict or Verdict(self._hits(mutant), 1, -1, HANG, "the process died")

    def _hits(self, mutant: Mutant) -> int:
        return sum(story.hits.get(mutant.place, 0) for story in self._stories.values())

    def _reaching(self, mutant: Mutant) -> list[Surveyed]:
        """Return the test scenarios to run with a mutant, all of which execute the edited statement.

        Short scenarios of one component come first. Further scenarios are chosen one by one, by new features
        per CPU second.
        """
        reaching = [story for story in self._stories.values() if mutant.place in story.hits]
        luck = chance(self._seed, "stories", mutant.name, mutant.change)
        luck.shuffle(reaching)
        alone = sorted(
            (story for story in reaching if ALONE in story.traits),
            key=lambda story: -story.hits[mutant.place],
        )
        costs = list(accumulate(story.cost_s for story in alone))
        chosen = [story for story, cost_s in zip(alone, costs, strict=True) if cost_s < ALONE_S]
        most = len(chosen) + self._tries - min(len(chosen), self._tries // 2)
        reaching = [story for story in reaching if ALONE not in story.traits]
        seen: Counter[str] = Counter()  # The number of chosen stories with each trait.

        def worth(story: Surveyed) -> float:
            return sum(0.25 ** seen[trait] for trait in story.traits) / (0.05 + story.cost_s)

        while reaching and len(chosen) < most:
            best = max(range(len(reaching)), key=lambda place: worth(reaching[place]))
            chosen.append(reaching.pop(best))
            seen.update(chosen[-1].traits)
        return chosen

    def _judge(self, mutant: Mutant) -> Verdict:
        hits, tried = self._hits(mutant), 0
        try:
            mutant.apply()
        except (ValueError, SyntaxError) as error:
            return Verdict(hits, 0, -1, "it compiles", str(error))
        for story in self._reaching(mutant):
            tried += 1
            killed_by, seen = _failing(story)
            if killed_by:
                return Verdict(hits, tried, story.seed, killed_by, seen)
        return Verdict(hits, tried)


def _failing(story: Surveyed) -> tuple[str, str]:
    """Return the check that fails in a test scenario and the observed values; both empty if none fails."""
    try:
        with _at_most(LEAST_S + 20 * story.cost_s):
            violation = examine(make_story(story.seed))
    except Hangs:
        return HANG, ""
    except Exception as error:
        return "the checks can be made", f"{type(error).__name__}: {error}"
    return ("", "") if violation is None else (violation.check, violation.seen)


@contextmanager
def _at_most(seconds: float) -> Iterator[None]:
    """Raise `Hangs` if the body of the `with` statement takes more than `seconds` of CPU time."""

    def ring(signum: int, frame: Any) -> None:
        raise Hangs

    signal.signal(signal.SIGVTALRM, ring)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)


def _survey(seeds: list[int]) -> list[Surveyed]:
    """Run test scenarios and return the lines that each scenario executes.

    Instrumentation changes the code of this process, so the process must not run anything else later.
    """
    hits, surveyed = Hits(MODULES), []
    for seed in seeds:
        begin_s = time.process_time()
        story = make_story(seed)
        _reach(story)
        surveyed.append(Surveyed(seed, time.process_time() - begin_s, hits.take(), traits_of(story)))
    return surveyed


def traits_of(story: Story) -> frozenset[str]:
    """Return the features that distinguish a test scenario from others.

    These are its component, policy, faults and the settings that differ from their defaults.
    """
    if story.alone:
        return frozenset({ALONE})
    traits = {fault.kind for fault in story.faults}
    traits |= {each.name for each in fields(story) if getattr(story, each.name) != each.default}
    policy = story.policy if isinstance(story.policy, dict) else {story.policy: {}}
    for name, chosen in policy.items():
        traits.add(f"{name}={chosen}" if isinstance(chosen, str) else str(name))
        for part, parameters in chosen.items() if isinstance(chosen, dict) else ():
            traits.add(str(part))
            traits |= (
                {f"{part}.{key}" for key in parameters}
                if isinstance(parameters, dict)
                else {f"{part}={parameters}"}
            )
    return frozenset(traits)


def _reach(story: Story) -> None:
    """Run a test scenario so that all lines that its checks would execute are executed.

    A scenario in which the JobTracker crashes also runs with snapshots.
    """
    if story.alone:
        run_alone(story.alone, story.seed, story.steps)
        return
    simulate(story, audit=False)
    if any(fault.kind == "crash_jobtracker" for fault in story.faults):
        simulate(story, audit=False, snapshots=True)


def _until(mutants: Iterable[Mutant], until_s: float) -> Iterator[Mutant]:
    for mutant in mutants:
        if time.monotonic() >= until_s:
            return
        yield mutant
