"""Compares a simulation with live runs of the same scenario, given the tables of both. No I/O.

An error is (simulated - measured) / measured, of the medians of the repeats.
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
        return median(self.live)

    @property
    def sim(self) -> float:
        return median(self.simulated)

    @property
    def measured_interval(self) -> tuple[float, float, float] | None:
        """Return the measured median's interval with its probability, None with few repeats."""
        return quantile_interval(self.live)

    @property
    def sim_interval(self) -> tuple[float, float, float] | None:
        """Return the simulated median's interval with its probability, None with few repeats."""
        return quantile_interval(self.simulated)

    @property
    def error(self) -> float:
        """Return (simulated - live) / live for the two medians, or 0 if they are equal."""
        if self.measured == self.sim:
            return 0.0
        return self.sim / self.measured - 1 if self.measured else float("inf")

    @property
    def error_interval(self) -> tuple[float, float] | None:
        """Return the relative error's 95% interval, of geometric means (`ratio_interval`), None with few repeats."""
        found = ratio_interval(self.simulated, self.live)
        return None if found is None else (found[0] - 1, found[1] - 1)


def ratio_interval(ones: Sequence[float], others: Sequence[float]) -> tuple[float, float] | None:
    """Return the 95% interval of the ratio of geometric means, by Welch's t-test on the logarithms.

    Return None if a side has fewer than `REPEATS_LEAST` values, or one that is not positive.
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

    `order` is the median Kendall's tau of the launches of a simulated and a live run; `order_live` that of
    two live runs, which differ by noise alone, None with one.
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
        """Return a text for each error above MAKESPAN_MAX, COMPLETION_MAX or LOCALITY_MAX."""
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
    """Compare live and simulated repeats under a policy."""

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
    """Return Kendall's tau-b between the orders in which two runs first launched their common tasks.

    It is 1 for the same order or fewer than two tasks, and 0 for unrelated orders.
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
    """Return the share of node-local maps of those with input, 1 if there are none."""
    share = metrics.locality(run.attempts)["tasks"]["node"]
    return 1.0 if np.isnan(share) else share


def _by_job(live: Sequence[RunTables], sim: Sequence[RunTables]) -> dict[str, Pair]:
    return _pairs([_completions(run) for run in live], [_completions(run) for run in sim])


def _pairs(live: Sequence[Mapping[str, float]], sim: Sequence[Mapping[str, float]]) -> dict[str, Pair]:
    """Return the `Pair` of each name that all repeats have."""
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
    """Return mean seconds by phase, for all maps, all reduces, and those of each job."""
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

    `launch` lasts from assignment until the code starts, and `run` from then to the end. `beyond CPU` is
    `run` without what the CPU time takes at the node's core speed. `shuffle`, `sort` and `reduce` are phases
    of a reduce. `next launch` lasts from the end to the node's next assignment of the same kind, if within a
    second.
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
    """Return the seconds to the node's next assignment of the kind, NaN if none follows within a second."""
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
    """Return the live repeats to compute task costs from, and those to compare with.

    Costs are from every second repeat, so that a slow change of the host affects both sets. A single one is
    compared.
    """
    ordered = sorted(repeats)
    fitted = frozenset(ordered[1::2])
    return fitted, frozenset(ordered) - fitted


def job_errors(found: Agreement) -> str:
    """Return text on the jobs' errors, which may cancel each other in the mean completion time."""
    errors = {name: abs(pair.error) for name, pair in found.jobs.items()}
    worst = max(errors, key=lambda name: errors[name])
    return f"median absolute error {median(errors.values()):.1%}, worst {errors[worst]:.1%} ({worst})"


@dataclass(frozen=True, slots=True)
class Winner:
    """The policies with the least mean completion time, live and simulated.

    `told_apart` is whether live runs show that their best is better than the second.
    """

    live: str
    simulated: str
    told_apart: bool

    @property
    def same(self) -> bool | None:
        """Return whether both have the same best policy, None if live runs do not show it."""
        return self.live == self.simulated if self.told_apart else None

    def to_json(self) -> dict[str, Any]:
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
    """Return the policies with the least mean completion time, None with only one policy.

    `live_s` has every live repeat, also those for task costs. The best is told apart if the 95% interval of
    the ratio to the second excludes 1, which needs three repeats.
    """
    if len(found) < 2:
        return None
    best, second = sorted((each.policy for each in found), key=lambda policy: median(live_s[policy]))[:2]
    fastest = min(found, key=lambda each: each.completion_s.sim)
    ratio = ratio_interval(live_s[second], live_s[best])
    return Winner(best, fastest.policy, ratio is not None and ratio[0] > 1)
