"""Compares a simulation with live runs of the same scenario, given the tables of both. No I/O.

The error of a metric is (simulated - measured) / measured, computed from the medians of the repeats.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from statistics import median
from typing import TYPE_CHECKING, Any

import numpy as np

from schedbed.deploy.results import metrics
from schedbed.deploy.results.metrics import RunTables
from schedbed.deploy.results.stats import LEVEL, REPEATS_LEAST, quantile_interval

if TYPE_CHECKING:
    import pandas as pd

MAKESPAN_MAX = 0.05  # Relative to the live median.
COMPLETION_MAX = 0.08
LOCALITY_MAX = 0.05  # Five percentage points of all maps.
"""The bounds of the absolute errors."""

PHASES = ("launch", "run", "beyond CPU", "shuffle", "sort", "reduce", "next launch")


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """The values of one metric in all live repeats and in all simulated repeats."""

    live: tuple[float, ...]
    simulated: tuple[float, ...]

    @property
    def measured(self) -> float:
        """Return the median of the values of live repeats."""
        return median(self.live)

    @property
    def sim(self) -> float:
        """Return the median of the values of simulated repeats."""
        return median(self.simulated)

    @property
    def measured_interval(self) -> tuple[float, float, float] | None:
        """Return a confidence interval of the median of live repeats: lower end, upper end, and probability.

        Return None if there are too few repeats.
        """
        return quantile_interval(self.live)

    @property
    def sim_interval(self) -> tuple[float, float, float] | None:
        """Return a confidence interval of the median of simulated repeats: lower end, upper end, probability.

        Return None if there are too few repeats.
        """
        return quantile_interval(self.simulated)

    @property
    def error(self) -> float:
        """Return (simulated - live) / live for the two medians, or 0 if they are equal."""
        if self.measured == self.sim:
            return 0.0
        return self.sim / self.measured - 1 if self.measured else float("inf")

    @property
    def error_interval(self) -> tuple[float, float] | None:
        """Return the 95% confidence interval of the relative error, or None if there are too few repeats.

        The interval is computed from geometric means (`ratio_interval`).
        """
        found = ratio_interval(self.simulated, self.live)
        return None if found is None else (found[0] - 1, found[1] - 1)


def ratio_interval(ones: Sequence[float], others: Sequence[float]) -> tuple[float, float] | None:
    """Return the 95% confidence interval of the geometric mean of `ones` divided by that of `others`.

    The interval comes from Welch's t-test on the logarithms. Return None if one side has fewer than
    `REPEATS_LEAST` values, or a value that is not positive.
    """
    from scipy.special import stdtrit

    sides = [np.asarray(values, float) for values in (ones, others)]
    if min(len(side) for side in sides) < REPEATS_LEAST or min(side.min() for side in sides) <= 0:
        return None
    logs = [np.log(side) for side in sides]
    parts = [float(side.var(ddof=1)) / len(side) for side in logs]
    middle = float(logs[0].mean() - logs[1].mean())
    freedom = (
        sum(parts) ** 2 / sum(p**2 / (len(side) - 1) for p, side in zip(parts, logs, strict=True) if p)
        if sum(parts)
        else 1.0
    )
    half = float(stdtrit(freedom, 0.5 + LEVEL / 2)) * math.sqrt(sum(parts))
    return math.exp(middle - half), math.exp(middle + half)


@dataclass(frozen=True, slots=True, kw_only=True)
class Agreement:
    """The comparison of simulated and live runs under one policy.

    `order` is Kendall's tau between the order of launches in a simulated and in a live run (median over all
    such pairs). `order_live` is Kendall's tau between two live runs, which differ by noise alone; it is None
    with one live run.
    """

    policy: str
    makespan_s: Pair
    completion_s: Pair
    locality: Pair  # Share of node-local maps.
    order: float
    order_live: float | None
    jobs: Mapping[str, Pair] = field(default_factory=dict)  # Completion (s) by "name (id)".
    phases: Mapping[str, Mapping[str, Pair]] = field(
        default_factory=dict
    )  # Seconds by phase, by kind and job.

    @property
    def outside(self) -> list[str]:
        """Return a text for each error of the simulator that is too large.

        The errors of makespan, mean completion time and node-local share are compared with MAKESPAN_MAX,
        COMPLETION_MAX and LOCALITY_MAX.
        """
        found: list[str] = []
        if abs(self.makespan_s.error) > MAKESPAN_MAX:
            found.append(f"makespan {self.makespan_s.error:+.1%} (bound {MAKESPAN_MAX:.0%})")
        if abs(self.completion_s.error) > COMPLETION_MAX:
            found.append(f"mean completion {self.completion_s.error:+.1%} (bound {COMPLETION_MAX:.0%})")
        points = self.locality.sim - self.locality.measured
        if abs(points) > LOCALITY_MAX:
            found.append(f"node-local maps {100 * points:+.1f} points (bound {100 * LOCALITY_MAX:.0f})")
        return found

    def to_json(self) -> dict[str, Any]:
        """Return the comparison as JSON values, with the errors of all metrics."""
        plain = asdict(self)
        for name in ("makespan_s", "completion_s", "locality"):
            plain[name] = _plain(getattr(self, name))
        plain["jobs"] = {name: _plain(pair) for name, pair in self.jobs.items()}
        plain["phases"] = {
            group: {name: _plain(pair) for name, pair in pairs.items()}
            for group, pairs in self.phases.items()
        }
        return plain | {"outside": self.outside}


def agreement(policy: str, live: Sequence[RunTables], sim: Sequence[RunTables]) -> Agreement:
    """Compare the live repeats under a policy with the simulated repeats under it, and return the comparison.

    `live` and `sim` are the tables of the repeats.
    """

    def pair(figure: Any) -> Pair:
        return Pair(
            live=tuple(float(figure(run)) for run in live),
            simulated=tuple(float(figure(run)) for run in sim),
        )

    among = [
        order_agreement(one.attempts, other.attempts) for i, one in enumerate(live) for other in live[i + 1 :]
    ]
    return Agreement(
        policy=policy,
        makespan_s=pair(lambda run: metrics.makespan(run.jobs)["all"]),
        completion_s=pair(lambda run: metrics.completion(run.jobs)["mean"]),
        locality=pair(_node_local),
        order=median(order_agreement(run.attempts, other.attempts) for run in live for other in sim),
        order_live=median(among) if among else None,
        jobs=_by_job(live, sim),
        phases=_by_phase(live, sim),
    )


def order_agreement(one: pd.DataFrame, other: pd.DataFrame) -> float:
    """Return Kendall's tau-b between the orders in which two runs launched the tasks that both have.

    `one` and `other` are the attempts of the runs, and the first attempt of a task counts as its launch. The
    result is 1 for the same order, and 0 for unrelated orders. It is 1 if there are fewer than two tasks.
    """
    from scipy.stats import kendalltau

    first, second = (run.groupby("task")["assigned"].min() for run in (one, other))
    both = first.index.intersection(second.index)
    if len(both) < 2:
        return 1.0
    found: Any = kendalltau(first.loc[both], second.loc[both])
    tau = float(found.statistic)
    return 1.0 if np.isnan(tau) else tau


def _node_local(run: RunTables) -> float:
    """Return the share of maps with input that ran on a node with their input, or 1 if no map has input."""
    share = metrics.locality(run.attempts)["tasks"]["node"]
    return 1.0 if np.isnan(share) else share


def _by_job(live: Sequence[RunTables], sim: Sequence[RunTables]) -> dict[str, Pair]:
    return _pairs([_completions(run) for run in live], [_completions(run) for run in sim])


def _pairs(live: Sequence[Mapping[str, float]], sim: Sequence[Mapping[str, float]]) -> dict[str, Pair]:
    """Return a dictionary from name to `Pair` of live and simulated values, for each name that all repeats
    have.

    Names are those of values such as metrics. `live` and `sim` have a dictionary from name to value for each
    repeat.
    """
    return {
        name: Pair(live=tuple(each[name] for each in live), simulated=tuple(each[name] for each in sim))
        for name in sim[0]
        if all(name in each for each in (*live, *sim))
    }


def _completions(run: RunTables) -> dict[str, float]:
    done = run.jobs[run.jobs["state"] == "succeeded"].sort_values("job")
    took = done["finish"] - done["submit"]
    return {f"{n} ({j})": float(t) for n, j, t in zip(done["name"], done["job"], took, strict=True)}


def _by_phase(live: Sequence[RunTables], sim: Sequence[RunTables]) -> dict[str, dict[str, Pair]]:
    """Return the mean seconds of each phase, as a dictionary from group of tasks to (phase to `Pair`).

    The groups are all maps, all reduces, and the maps and the reduces of each job.
    """
    means, simulated = ([_phase_means(run) for run in runs] for runs in (live, sim))
    return {
        group: _pairs([each.get(group, {}) for each in means], [each.get(group, {}) for each in simulated])
        for group in simulated[0]
    }


def _phase_means(run: RunTables) -> dict[str, dict[str, float]]:
    data = phases(run)
    names = dict(zip(run.jobs["job"], run.jobs["name"], strict=True))
    groups: dict[str, pd.DataFrame] = {}
    for kind, rows in data.groupby("kind"):
        groups[f"all {kind}s"] = rows
    for (job, kind), rows in data.groupby(["job", "kind"]):
        groups[f"{names.get(job, job)} ({job}) {kind}s"] = rows
    return {
        group: {name: float(rows[name].mean()) for name in PHASES if rows[name].notna().any()}
        for group, rows in groups.items()
    }


def phases(run: RunTables) -> pd.DataFrame:
    """Return the successful attempts of a run, with a column of seconds for each phase in PHASES.

    The phase `launch` lasts from the assignment of the attempt to a node until its code starts, and `run`
    from then to its end. `beyond CPU` is `run` without the time that the attempt's CPU time takes at the
    speed of the node's cores. `shuffle`, `sort` and `reduce` are the phases of a reduce. `next launch` lasts
    from the attempt's end to the node's next assignment of the same kind (map or reduce), if that is less
    than a second later.
    """
    done = run.attempts[run.attempts["state"] == "succeeded"]
    speed = done["node"].map({str(node["node"]): float(node["core_speed"]) for node in run.nodes})
    ran = done["end"] - done["start"]
    return done.assign(
        **{
            "launch": done["start"] - done["assigned"],
            "run": ran,
            "beyond CPU": ran - done["cpu_s"] / speed,
            "shuffle": done["shuffle_end"] - done["start"],
            "sort": done["sort_end"] - done["shuffle_end"],
            "reduce": done["end"] - done["sort_end"],
            "next launch": _next_launch(done, run.attempts),
        }
    )


def _next_launch(done: pd.DataFrame, attempts: pd.DataFrame) -> np.ndarray:
    """Return the seconds from the end of each attempt in `done` to the next assignment on its node.

    Only assignments of the same kind (map or reduce) count. The result is NaN if none follows within a
    second.
    """
    gaps = np.full(len(done), np.nan)
    assigned = {key: np.sort(rows["assigned"]) for key, rows in attempts.groupby(["node", "kind"])}
    for place, (node, kind, end) in enumerate(zip(done["node"], done["kind"], done["end"], strict=True)):
        times = assigned[(node, kind)]
        after = np.searchsorted(times, end)
        if after < len(times) and times[after] - end < 1.0:
            gaps[place] = times[after] - end
    return gaps


def _plain(pair: Pair) -> dict[str, Any]:
    return {
        "live": list(pair.live),
        "simulated": list(pair.simulated),
        "measured": pair.measured,
        "measured_interval": pair.measured_interval,
        "sim": pair.sim,
        "sim_interval": pair.sim_interval,
        "error": pair.error,
        "error_interval": pair.error_interval,
    }


# Parts of `schedbed validate`: the repeats used for fitting, the errors of jobs, and the best policy.


def split_repeats(repeats: Iterable[int]) -> tuple[frozenset[int], frozenset[int]]:
    """Return two sets of live repeats: one to compute task costs from, one to compare the simulation with.

    No repeat is in both sets. Costs are computed from every second repeat, so that a slow change of the host
    affects both sets. A single repeat is used for the comparison.
    """
    ordered = sorted(repeats)
    fitted = frozenset(ordered[1::2])
    return fitted, frozenset(ordered) - fitted


def job_errors(found: Agreement) -> str:
    """Return a line of text with the median and the largest absolute error of the jobs' completion times.

    This shows errors of single jobs that cancel each other in the mean completion time.
    """
    errors = {name: abs(pair.error) for name, pair in found.jobs.items()}
    worst = max(errors, key=lambda name: errors[name])
    return f"median absolute error {median(errors.values()):.1%}, worst {errors[worst]:.1%} ({worst})"


@dataclass(frozen=True, slots=True)
class Winner:
    """The names of the policies with the least mean completion time, in live runs and in simulated runs.

    `told_apart` is whether the live runs differ enough to show that their best policy is better than the
    second.
    """

    live: str
    simulated: str
    told_apart: bool

    @property
    def same(self) -> bool | None:
        """Return whether live and simulated runs have the same best policy.

        Return None if the live runs do not show which policy is best.
        """
        return self.live == self.simulated if self.told_apart else None

    def to_json(self) -> dict[str, Any]:
        """Return the fields of this instance, and the value of `same`, as JSON values."""
        return asdict(self) | {"same": self.same}

    def __str__(self) -> str:
        picks = f"least mean completion: live {self.live}, simulated {self.simulated}"
        words = {
            True: "same winner",
            False: "ANOTHER WINNER",
            None: "live repeats do not tell the best two apart",
        }
        return f"{picks}: {words[self.same]}"


def winners(found: Sequence[Agreement], live_s: Mapping[str, Sequence[float]]) -> Winner | None:
    """Return the policies with the least mean completion time, in live runs and in simulated runs.

    Return None if there is only one policy. `live_s` is a dictionary from policy to the mean completion time
    in each live repeat, including the repeats from which task costs were computed. The best live policy is
    told apart from the second if the 95% confidence interval of the ratio of their completion times excludes
    1, which needs three repeats.
    """
    if len(found) < 2:
        return None
    best, second = sorted((each.policy for each in found), key=lambda policy: median(live_s[policy]))[:2]
    fastest = min(found, key=lambda each: each.completion_s.sim)
    ratio = ratio_interval(live_s[second], live_s[best])
    return Winner(best, fastest.policy, ratio is not None and ratio[0] > 1)
