"""Slots for a deadline: the profile of the paper's job WikiTrends, and Figures 4 and 5.

The policy ARIA computes the slots that a job needs to meet its deadline from a profile, which contains the
durations of the job's phases.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from math import ceil
from pathlib import Path
from statistics import fmean, mean
from typing import TYPE_CHECKING, Any

from schedbed.deploy.papers import paper_file
from schedbed.deploy.papers.bench import Bench, FinishedRun
from schedbed.deploy.papers.experiment import FEW_REPEATS, Experiment, Measured, Values
from schedbed.deploy.papers.figures import OURS, PAPER, legend, mean_bars
from schedbed.deploy.papers.live_and_simulated import live_experiment
from schedbed.deploy.papers.verdict import Exact
from schedbed.deploy.results.metrics import RunTables, useful
from schedbed.deploy.results.plots import OKABE
from schedbed.scheduler.hooks import QUIET, Limits, Proposal
from schedbed.scheduler.locality.greedy import Greedy
from schedbed.scheduler.models.aria_bounds import BOUNDS, WAVES, allocate, allocate_waves, curve, waves_time_s
from schedbed.scheduler.models.job_profile import JobProfile, Profiler, Times
from schedbed.scheduler.view import JobView, NodeView, View
from schedbed.tasks.specs import TaskKind

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MAPS, REDUCES = 71, 64
"""Numbers of tasks of WikiTrends in section 5.2."""


def wikitrends(said: Values) -> JobProfile:
    """Return a profile of the job WikiTrends from which the policy ARIA computes the slots in Figure 5.

    The slots depend only on the sum of the maximum durations in four phases. Here the maxima of shuffles and
    reduces equal their means, and the longest map takes the rest of the sum.
    """
    map_s, shuffle_s, reduce_s = (said[key].number for key in ("map_avg", "shuffle_avg", "reduce_avg"))
    longest_map_s = said["maxima"].number - 2 * shuffle_s - reduce_s
    return JobProfile(
        map=Times(map_s, longest_map_s),
        first_shuffle=Times(shuffle_s, shuffle_s),
        typical_shuffle=Times(shuffle_s, shuffle_s),
        reduce=Times(reduce_s, reduce_s),
    )


def profile_of(run: RunTables, job: str) -> JobProfile:
    """Return the profile of a job in a finished run, as the profiler of the policy ARIA would measure it.

    A profile contains the durations of the job's phases. `job` is the job's id. Raises ValueError if no map
    ended.
    """
    profiler = Profiler()
    for row in useful(run.attempts[run.attempts["job"] == job]).to_dict("records"):
        if row["kind"] == "map":
            profiler.map_ended(row["assigned"], row["end"], row["length"], row["output_bytes"])
            continue
        marks = [row[mark] for mark in ("sort_end", "shuffle_end") if row[mark] == row[mark]]
        sorted_s = marks[0] if marks else None
        profiler.reduce_ended(
            row["assigned"], sorted_s, row["end"], row["shuffle_bytes"], row["output_bytes"]
        )
    profile = profiler.profile()
    if profile is None:
        raise ValueError(f"{job}: no map of it has ended")
    return profile


# Figure 4: the allocations of map and reduce slots that meet a deadline, and the one with fewest slots.

SLO_S = 300.0


def fig4(bench: Bench) -> Measured:
    """Compute all pairs of map slots and reduce slots that just meet the deadline, and points A, B and C.

    There is one pair for each number of map slots. A has the most map slots, B the most reduce slots, and C
    the fewest slots in total.
    """
    model = curve(wikitrends(paper_file.load("verma2011").experiments["fig5"].values), MAPS, REDUCES)
    left_s = SLO_S - model.c
    on_curve = [
        (maps, ceil(model.b / (left_s - model.a / maps) - 1e-9))
        for maps in range(1, MAPS + 1)
        if left_s - model.a / maps > model.b / REDUCES - 1e-9
    ]
    best = allocate(model, SLO_S, MAPS, REDUCES)
    most_maps, most_reduces, cheapest = on_curve[-1], on_curve[0], sum(best[:2])
    return Measured(
        values={
            "fewest": Exact(value=cheapest - min(map(sum, on_curve))),
            "a_slots": Exact(value=sum(most_maps) / cheapest),
            "b_slots": Exact(value=sum(most_reduces) / cheapest),
        },
        series={"curve": on_curve, "points": {"A": most_maps, "B": most_reduces, "C": best[:2]}},
    )


def draw_fig4(figure: Figure, said: Values, measured: Measured) -> None:
    """Draw the pairs of map slots and reduce slots on the left, and the sums of each pair on the right."""
    left, right = figure.subplots(1, 2)
    points = measured.series["points"]
    maps, reduces = zip(*measured.series["curve"], strict=True)
    left.plot(maps, reduces, color=OURS, label="meets the deadline")
    right.plot(maps, [m + r for m, r in measured.series["curve"]], color=OURS, label="maps + reduces")
    for name, (m, r) in points.items():
        for ax, y in ((left, r), (right, m + r)):
            ax.plot(m, y, "o", color="black", markersize=4)
            ax.annotate(name, (m, y), textcoords="offset points", xytext=(4, 5))
    best = sum(points["C"])
    right.axhline(best, color=PAPER, linestyle=":", linewidth=1)
    left.set(xlabel="map slots", ylabel="reduce slots", xlim=(0, None), ylim=(0, None))
    right.set(xlabel="map slots", ylabel="slots in all", xlim=(0, None), ylim=(0, None))
    for ax in (left, right):
        legend(ax)


# Figure 5: the slots that the policy ARIA computes for a deadline, and the resulting completion times. ARIA's
# model has several bounds of the completion time, and each results in other numbers of slots.

TRIED = (*BOUNDS, WAVES)
SLOS_S = (240, 300, 360, 420)
SLOTS = 64
APART_S = 600  # gap between submissions, in which each job runs alone
LIVE_PART, LIVE_SCALE = 4, 0.03
"""The divisor of tasks and slots, and the factor of all times, when the experiment is live."""


def fig5(bench: Bench) -> Measured:
    """Compute Figure 5's table of slots, and measure completion times with slots computed from a profile.

    The profile is that of the simulated or live job, which is measured first. Slots are computed for each
    deadline and each bound of the policy ARIA's model.
    """
    model = wikitrends(paper_file.load("verma2011").experiments["fig5"].values)
    found: dict[str, Exact | list[float]] = {
        f"{bound}_{slo_s}": Exact(value=_asked(model, MAPS, REDUCES, bound, slo_s, SLOTS))
        for slo_s in SLOS_S
        for bound in BOUNDS
    }
    alone = bench.run("fig5-alone", scenario([job(live=bench.live)], ["fifo"], live=bench.live))
    profiles = [profile_of(run, "job_0001").at_scale(1 / alone.scale) for run in alone.each("fifo")]
    profile = reduce(JobProfile.merged, profiles)
    jobs = jobs_by_bound(profile, job(live=bench.live), _slots(live=bench.live))
    finished = bench.run("fig5", scenario(jobs, [SPEC], live=bench.live))
    ratios = [completion_ratios(run) for run in finished.each(finished.policies[0])]
    took = {
        bound: [each[first : first + len(SLOS_S)] for each in ratios]
        for bound, first in zip(TRIED, range(0, len(TRIED) * len(SLOS_S), len(SLOS_S)), strict=True)
    }
    return Measured(
        values={**found, **profile_values(profiles), **_figures(took)},
        series={"took": took},
        notes=[
            f"Completion against SLO: average bound {_by_slo(took['avg'])}; in whole waves {_by_slo(took[WAVES])}, of "
            f"which the slots were meant to leave {_by_slo([_planned(profile, live=bench.live)])}."
        ],
    )


def _by_slo(took: Sequence[Sequence[float]]) -> str:
    found = [mean(ratios) for ratios in zip(*took, strict=True)]
    return ", ".join(f"{slo_s} s {100 * (r - 1):+.1f}%" for slo_s, r in zip(SLOS_S, found, strict=True))


def _asked(
    profile: JobProfile, maps: int, reduces: int, bound: str, slo_s: float, slots: int
) -> tuple[int, int]:
    if bound == WAVES:
        return allocate_waves(profile, maps, reduces, slo_s, slots, slots)[:2]
    return allocate(curve(profile, maps, reduces, bound), slo_s, slots, slots)[:2]


def _planned(profile: JobProfile, *, live: bool) -> list[float]:
    """Return the predicted completion time divided by the deadline, one number per deadline.

    The prediction assumes that tasks run in whole waves (rounds). Slots and times are computed from
    `profile`, the durations of the job's phases. With `live`, the job has a quarter of the tasks.
    """
    plain, slots = job(live=live), _slots(live=live)
    tasks = plain["maps"], plain["reduces"]
    return [
        waves_time_s(profile, *tasks, allocate_waves(profile, *tasks, slo_s, slots, slots)) / slo_s
        for slo_s in SLOS_S
    ]


def _slots(*, live: bool) -> int:
    """Return the number of slots of each kind."""
    return SLOTS // LIVE_PART if live else SLOTS


def job(*, live: bool) -> dict[str, Any]:
    """Return a job as in a scenario file that takes about as long in each phase as the paper's job.

    A live job has a quarter of the tasks and a tenth of the shuffle data.
    """
    size = LIVE_PART if live else 1
    return {
        "name": "wikitrends",
        "app": "synthetic",
        "maps": -(-MAPS // size),
        "map": {"cpu": "84s", "read": "60MB", "write": "60MB" if live else "600MB", "variance": 0.09},
        "reduces": REDUCES // size,
        "reduce": {"cpu": "19s", "write": "20MB" if live else "200MB", "variance": 0.05},
    }


def jobs_by_bound(
    profile: JobProfile, plain: Mapping[str, Any], slots: int, tried: Sequence[str] = TRIED
) -> list[dict[str, Any]]:
    """Return a copy of the job `plain` for each bound in `tried` and each deadline.

    A copy's name contains its numbers of map and reduce slots, as in `wikitrends@41x21`. These numbers are
    computed from the job's profile and the bound, and are at most `slots` each. The copies are submitted
    `APART_S` seconds apart.
    """
    made: list[dict[str, Any]] = []
    for bound in tried:
        for slo_s in SLOS_S:
            maps, reduces = _asked(profile, plain["maps"], plain["reduces"], bound, slo_s, slots)
            submit = {"submit": f"{APART_S * len(made)}s", "deadline": f"{slo_s}s"}
            made.append({**plain, **submit, "name": f"wikitrends@{maps}x{reduces}"})
    return made


def scenario(jobs: list[dict[str, Any]], policies: list[Any], *, live: bool) -> dict[str, Any]:
    """Return a scenario of these jobs and policies on 64 nodes of one map slot and one reduce slot each.

    A live scenario has four nodes with a quarter of the slots in total. Its cores must not be slower: a fetch of a map
    output costs about 1 ms of a host's core, and at a speed of 0.03 and a scale of 0.03 those of a reduce add 40 s.
    """
    cluster: dict[str, Any] = {
        "nodes": SLOTS,
        "racks": 2,
        "heartbeat": "1s",
        "node": {
            "cores": 4,
            "core_speed": 1.0,
            "memory": "8GiB",
            "disk": "120MB/s",
            "network": "500Mbit/s",  # the part of a gigabit that Hadoop's shuffle achieves
            "map_slots": 1,
            "reduce_slots": 1,
        },
    }
    if live:
        node = {"cores": 8, "core_speed": 0.06, "memory": "512MiB", "map_slots": 4, "reduce_slots": 4}
        cluster = {"nodes": 4, "racks": 2, "heartbeat": "100ms", "node": node}
    return {
        "scale": LIVE_SCALE if live else 1.0,
        "cluster": cluster,
        "blocks": {"size": "64MB"},
        "workload": {"jobs": jobs},
        "policies": policies,
    }


def completion_ratios(run: RunTables) -> list[float]:
    """Return the completion time divided by the deadline for each job, in order of submission."""
    jobs = run.jobs.sort_values("submit")
    return ((jobs["finish"] - jobs["submit"]) / (jobs["deadline"] - jobs["submit"])).tolist()


def profile_values(profiles: Sequence[JobProfile]) -> Mapping[str, list[float]]:
    """Return the durations in job profiles that determine Figure 5's table, in s, by key in paper.yaml.

    Each duration has one number per profile.
    """
    return {
        "map_avg": [one.map.avg_s for one in profiles],
        "shuffle_avg": [one.first_shuffle.avg_s for one in profiles],
        "reduce_avg": [one.reduce.avg_s for one in profiles],
        "maxima": [
            one.map.max_s + one.first_shuffle.max_s + one.typical_shuffle.max_s + one.reduce.max_s
            for one in profiles
        ],
    }


def _figures(took: Mapping[str, list[list[float]]]) -> Mapping[str, list[float]]:
    return {
        **{
            f"{bound}_off": [100 * max(abs(ratio - 1) for ratio in ratios) for ratios in took[bound]]
            for bound in ("avg", WAVES)
        },
        **{
            f"{bound}_missed": [sum(ratio > 1 for ratio in ratios) for ratios in took[bound]]
            for bound in (WAVES, "low", "up")
        },
        "up_early": [100 * (1 - mean(ratios)) for ratios in took["up"]],
    }


def draw_fig5(figure: Figure, said: Values, measured: Measured) -> None:
    """Draw the completion time of the job for each deadline and each bound of the policy ARIA's model.

    The deadlines, and ranges of 7% around them as in the paper, are gray.
    """
    ax = figure.subplots()
    names = {"low": "lower bound", "avg": "average", "up": "upper bound", WAVES: "whole waves (ours)"}
    bars = [
        (
            names[bound],
            shade,
            [
                [ratio * slo_s for ratio in ratios]
                for ratios, slo_s in zip(
                    zip(*measured.series["took"][bound], strict=True), SLOS_S, strict=True
                )
            ],
        )
        for bound, shade in zip(names, OKABE, strict=False)
    ]
    for place, slo_s in enumerate(SLOS_S):
        label = "SLO, and the paper's 7% around it" if not place else ""
        ax.hlines(slo_s, place - 0.45, place + 0.45, color=PAPER, linewidth=1.2, label=label)
        ax.fill_between(
            [place - 0.45, place + 0.45], 0.93 * slo_s, 1.07 * slo_s, color=PAPER, alpha=0.25, linewidth=0
        )
    mean_bars(ax, [f"{slo_s} s" for slo_s in SLOS_S], bars)
    ax.set(xlabel="deadline (SLO)", ylabel="job's completion [s], before scale")


# A policy that gives each job a fixed number of slots from its start to its end, as in Figure 5.

SPEC = f"{Path(__file__)}:FixedSlots"


def slots_of(name: str) -> tuple[int, int]:
    """Return the numbers of map slots and reduce slots that a job's name contains, as in `wikitrends@41x21`.

    Raises ValueError if the name contains none.
    """
    _, at, slots = name.rpartition("@")
    maps, by, reduces = slots.partition("x")
    if not at or not by:
        raise ValueError(f"{name!r} does not end in @MAPSxREDUCES")
    return int(maps), int(reduces)


class FixedSlots:
    """A policy that serves jobs in order of submission and limits each job to the slots in its name.

    Maps whose input is on the offering node are launched first.
    """

    limits = Limits(slots=True)
    quiet = QUIET

    def __init__(self) -> None:
        self._nearest = Greedy()

    def decide(self, view: View, node: NodeView, kind: TaskKind) -> Proposal | None:
        """Implement `Policy.decide`: propose a task of the first job that is below its number of slots.

        A job's number of slots is in its name. Return None if there is no such task.
        """
        for job in view.jobs.values():
            stage = job.stage(kind)
            if not stage.ready or stage.running >= self._most(job, kind):
                continue
            if kind is TaskKind.MAP:
                picked = self._nearest.pick(view, node, job)
                if isinstance(picked, Proposal):
                    return picked
            elif (task := job.any_reduce()) is not None:
                return Proposal(task, "below its number of slots")
        return None

    def _most(self, job: JobView, kind: TaskKind) -> int:
        maps, reduces = slots_of(job.spec.name)
        return maps if kind is TaskKind.MAP else reduces


# Figure 5's main result in live runs: a job runs with the slots that ARIA computes from the average bound.


def headline(bench: Bench) -> Mapping[str, Any]:
    """Return the live scenario for a profile that was measured in a run of the job alone on the same nodes."""
    alone = bench.run("alone", scenario([job(live=True)], ["fifo"], live=True), repeats=1)
    return plan(profile_of(alone.of("fifo"), "job_0001").at_scale(1 / alone.scale))


def plan(profile: JobProfile) -> Mapping[str, Any]:
    """Return the live scenario of Figure 5: a copy of the job for each deadline, with the slots it needs.

    The slots are computed from the job's profile with the average bound of the policy ARIA's model.
    """
    jobs = jobs_by_bound(profile, job(live=True), _slots(live=True), ("avg",))
    return scenario(jobs, [SPEC], live=True)


def left(finished: FinishedRun) -> Sequence[float]:
    """Return how long before their deadlines jobs end on average, in percent of the deadline.

    The result has one number per repeat.
    """
    return [100 * (1 - fmean(completion_ratios(run))) for run in finished.each(finished.policies[0])]


EXPERIMENTS = (
    Experiment("fig4", fig4, draw_fig4, {"sim": 1, "process": 1}, repeats=1, sim_repeats=1),
    Experiment("fig5", fig5, draw_fig5, {"sim": 137, "process": 1900}, repeats=2, sim_repeats=FEW_REPEATS),
)
LIVE = live_experiment(headline, left, 420)
