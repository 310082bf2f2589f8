"""Beyond Figures 4 to 6: why the policy FGCS gains more, and maps are slower, than in the paper.

The experiment varies task lengths, and the numbers of virtual cores (vcores) and cores. Gains are reductions
of job times.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import TYPE_CHECKING, Any

from schedbed.deploy.papers.bench import Bench, job_times
from schedbed.deploy.papers.experiment import Experiment, Measured, Values
from schedbed.deploy.papers.figures import PAPER, legend
from schedbed.deploy.papers.liu2015.eight_tests import (
    CONTAINERS,
    CORES,
    MIXES,
    RESERVED_CORES,
    YARN,
    Mix,
    demands,
    jobs_of,
    samples,
    scenario,
)
from schedbed.deploy.papers.liu2015.mixes import extremes, map_changes, most_changed
from schedbed.deploy.results.plots import OKABE
from schedbed.deploy.scenario.resolve import resolve
from schedbed.tasks.chance import chance

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SPREADS = (5, 10)  # spreads of the tasks' CPU time in %; `tests` has 5
BASES = {"": YARN, "_8": CONTAINERS}
"""YARN with a core reserved as FGCS has it, and with all eight: section 3 has 8 tasks a node for YARN, and reserves a
core in FGCS's units."""
MORE_CORES = 2
"""That no task is given, beside the reserved one: for tasks that compute more at times than they ask for."""

Job = tuple[str, str]  # names of a test and of a job in it


def measure(bench: Bench) -> Measured:
    """Measure FGCS's gains with other spreads of task lengths and other numbers of vcores and cores.

    A spread is the relative variation of task lengths. Random task lengths differ between repeats, but are
    the same for all policies.
    """
    profiles = demands(samples(bench, live=bench.live))
    values: dict[str, list[float]] = {}
    for spread in SPREADS:
        gains = {base: dict[Job, list[float]]() for base in BASES}
        for mix in MIXES:
            for repeat in range(bench.repeats):
                for base, found in _gains(bench, mix, spread, profiles, repeat).items():
                    for name, gain in found.items():
                        gains[base].setdefault((mix.name, name), []).append(gain)
        for base, found in gains.items():
            summed = _summed(found)
            values |= {f"{key}_{spread}{base}": each for key, each in summed.items()}
    values["map_worst_cores"] = _with_more_cores(bench, profiles)
    return Measured(values=values)


def _gains(
    bench: Bench, mix: Mix, spread: int, profiles: Mapping[str, Any], repeat: int
) -> dict[str, dict[str, float]]:
    """Return by how many percent FGCS reduces the times of the CPU-bound jobs of a test in one repeat.

    The result is a dictionary from each policy that FGCS is compared with to a dictionary from job name to
    percent. `mix` is the test, `spread` is the variation of task lengths in percent, and `profiles` are the
    CPU demands that FGCS uses.
    """
    jobs = [{**job, "map": {**job["map"], "variance": spread / 100}} for job in jobs_of(mix, live=False)]
    asked = scenario(jobs, [{"fgcs": {"profiles": profiles}}, *BASES.values()], live=False)
    seed = chance(bench.seed, "causes", mix.name, repeat).getrandbits(62)
    resolved = resolve({"name": mix.name, "seed": seed, "profiles": {"store": "none"}, **asked})
    fgcs_s, *others_s = (
        {job.name: job.took_s for job in job_times(resolved, policy)} for policy in resolved.policies
    )
    bench.simulations += len(resolved.policies)
    return {
        base: {name: 100 * (1 - fgcs_s[name] / base_s[name]) for name in mix.cpu}
        for base, base_s in zip(BASES, others_s, strict=True)
    }


def _summed(gains: Mapping[Job, list[float]]) -> dict[str, list[float]]:
    """Compute the values that the paper prints: least, largest or mean gain of the jobs of each kind of test.

    `gains` is a dictionary from pairs of test and job to the job's gains in percent. Each list has one number
    per repeat.
    """
    found: dict[str, list[float]] = {}
    for pattern in ("balanced", "io", "cpu"):
        names = {mix.name for mix in MIXES if mix.pattern == pattern}
        mine = {job: each for job, each in gains.items() if job[0] in names}
        if pattern == "cpu":
            found["cpu_mean"] = [fmean(repeat) for repeat in zip(*mine.values(), strict=True)]
        elif mine:
            found[f"{pattern}_least"], found[f"{pattern}_most"] = extremes(mine)
    return found


def _with_more_cores(bench: Bench, profiles: Mapping[str, Any]) -> list[float]:
    """Return by how many percent maps take longer under FGCS than under YARN on nodes with two more cores.

    Neither policy uses the additional cores for tasks. Only the I/O-heavy test with the largest change of
    the mean map time is returned, as one number per repeat. `profiles` are the CPU demands that FGCS uses.
    """
    reserved = RESERVED_CORES + MORE_CORES
    policies = [
        f"{CONTAINERS}:reserved_cores={reserved}",
        {"fgcs": {"profiles": profiles, "reserved_cores": reserved}},
    ]
    changes: dict[str, list[float]] = {}
    for mix in MIXES:
        if mix.pattern == "io":
            asked = scenario(jobs_of(mix, live=False), policies, live=False)
            node = {**asked["cluster"]["node"], "cores": CORES + MORE_CORES}
            finished = bench.run(
                f"{mix.name}-cores", {**asked, "cluster": {**asked["cluster"], "node": node}}
            )
            changes[mix.name] = map_changes(finished, mix.cpu[0])
    return most_changed(changes)


def draw(figure: Figure, said: Values, measured: Measured) -> None:
    """Draw the least and the largest gain of FGCS for each variation of task lengths.

    There is one panel for each kind of test and each policy that FGCS is compared with.
    """
    panels = [(pattern, base) for base in BASES for pattern in ("balanced", "io")]
    axes: Sequence[Any] = figure.subplots(len(BASES), 2, sharey=True, sharex=True).flat
    titles = {"balanced": "balanced", "io": "I/O-heavy", "": "7 vcores", "_8": "8 vcores"}
    for ax, (pattern, base) in zip(axes, panels, strict=True):
        for shade, which in zip(OKABE, ("least", "most"), strict=False):
            keys = [f"{pattern}_{which}_{spread}{base}" for spread in SPREADS]
            ours = [fmean(measured.samples(key)) for key in keys]
            ax.plot(SPREADS, ours, marker="o", color=shade, label=f"{which} gain")
            ax.axhline(said[keys[0]].number, color=PAPER, linestyle="--")
        ax.set_title(f"{titles[pattern]}, YARN with {titles[base]}", loc="right", fontsize=8)
        ax.set(ylabel="job time saved [%]", ylim=(0, None))
        if base == "_8":
            ax.set_xlabel("spread of task lengths [%]")
    legend(axes[0])


EXPERIMENT = Experiment(
    name="causes", measure=measure, draw=draw, takes_s={"sim": 80}, repeats=3, size=(6.4, 4.8)
)
