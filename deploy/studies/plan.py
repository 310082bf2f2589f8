"""`schedbed plan`: the least number of nodes on which all jobs of a scenario meet their deadlines, simulated."""

from __future__ import annotations

import contextlib
import io
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING

from schedbed.deploy.failures import RunFailed
from schedbed.deploy.options import RunOptions
from schedbed.deploy.results.record_check import open_record
from schedbed.deploy.results.recorded import Recorded
from schedbed.deploy.scenario.resolved import PolicyChoice, ResolvedScenario
from schedbed.deploy.studies.whatif import resized
from schedbed.deploy.whole_run import run_scenario
from schedbed.tasks.errors import BadInput

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, slots=True, kw_only=True)
class TriedSize:
    """A number of nodes, and what the repeats on them gave.

    `late` is the number of jobs that missed their deadline in any repeat. `used` is the largest share of the time
    from submission to deadline that a job with a deadline took, by the job `worst`, None if it did not succeed.
    """

    nodes: int
    late: int
    used: float | None
    worst: str
    makespan_s: float

    @property
    def holds(self) -> bool:
        return not self.late


@dataclass(frozen=True, slots=True, kw_only=True)
class LeastNodes:
    """The sizes that were tried under a policy. `least` is the least that holds, None if there is none."""

    policy: str
    tried: tuple[TriedSize, ...]
    least: TriedSize | None


def plan(
    scenario: ResolvedScenario,
    *,
    most: int,
    at_once: int = 1,
    show: Callable[[str, TriedSize], None] = lambda policy, tried: None,
) -> list[LeastNodes]:
    """Return for each policy the least number of nodes, up to `most`, on which no job of any repeat is late.

    Nodes are the scenario's first ones, then copies of them in turn. The size is doubled until all deadlines hold,
    then halved in between; so the result is the least if more nodes never make a job late, and one node fewer was
    always tried. Raises BadInput if no job has a deadline, or for `most` below the number of replicas.
    """
    if all(job.deadline_s is None for job in scenario.jobs):
        raise BadInput(f"plan {scenario.name}: no job has a deadline, expected workload.jobs[...].deadline")
    least = scenario.cluster.blocks.replication
    if most < least:
        raise BadInput(f"--most {most}: {least} replicas of a block need as many nodes")
    plain = replace(scenario.without_learning(), measure=None)
    return [_plan_for(plain, choice, range(least, most + 1), at_once, show) for choice in scenario.policies]


def _plan_for(
    scenario: ResolvedScenario,
    choice: PolicyChoice,
    sizes: range,
    at_once: int,
    show: Callable[[str, TriedSize], None],
) -> LeastNodes:
    tried: dict[int, TriedSize] = {}

    def holds(nodes: int) -> bool:
        tried[nodes] = _try(replace(resized(scenario, nodes), policies=(choice,)), at_once)
        show(choice.spec, tried[nodes])
        return tried[nodes].holds

    low, high = sizes[0] - 1, min(max(len(scenario.cluster.nodes), sizes[0]), sizes[-1])
    while not holds(high):
        if high == sizes[-1]:
            return LeastNodes(policy=choice.spec, tried=_sorted(tried), least=None)
        low, high = high, min(2 * high, sizes[-1])
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return LeastNodes(policy=choice.spec, tried=_sorted(tried), least=tried[high])


def _sorted(tried: dict[int, TriedSize]) -> tuple[TriedSize, ...]:
    return tuple(tried[nodes] for nodes in sorted(tried))


def _try(scenario: ResolvedScenario, at_once: int) -> TriedSize:
    """Simulate all repeats of the scenario's one policy. Raises RunFailed if one has not ended all jobs."""
    with tempfile.TemporaryDirectory(prefix="schedbed-plan-") as name:
        folder, failed = Path(name) / "run", None
        options = RunOptions(out=folder, machines="sim", live=False, report=False, jobs=at_once)
        with contextlib.redirect_stdout(io.StringIO()):
            try:
                run_scenario(scenario, options)
            except RunFailed as error:  # Also if a job failed, which then is late.
                failed = error
        recorded, spec = Recorded(folder, open_record(folder)), scenario.policies[0].spec
        repeats = [recorded.tables(spec, repeat).jobs for repeat in range(scenario.repeats)]
        if failed is not None and not all(_ended(jobs, scenario) for jobs in repeats):
            raise failed
        return _judged(len(scenario.cluster.nodes), repeats)


def _ended(jobs: pd.DataFrame, scenario: ResolvedScenario) -> bool:
    return len(jobs) == len(scenario.jobs) and bool(jobs["finish"].notna().all())


def _judged(nodes: int, repeats: Sequence[pd.DataFrame]) -> TriedSize:
    used = []
    for jobs in repeats:
        due = jobs[jobs["deadline"].notna()].set_index("job")
        took = (due["finish"] - due["submit"]) / (due["deadline"] - due["submit"])
        used.append(took.where(due["state"] == "succeeded", inf).fillna(inf))
    worst = max(used, key=lambda each: each.max())
    names = repeats[0].set_index("job")["name"]
    return TriedSize(
        nodes=nodes,
        late=len({job for each in used for job in each.index[each > 1]}),
        used=float(worst.max()) if worst.max() < inf else None,
        worst=f"{names[worst.idxmax()]} ({worst.idxmax()})",
        makespan_s=max(float(jobs["finish"].max() - jobs["submit"].min()) for jobs in repeats),
    )
