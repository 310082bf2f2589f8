"""Beyond Figure 4: the gain of the policy CSLA with other queues, other disks, and another order of jobs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import TYPE_CHECKING

import numpy as np

from schedbed.deploy.papers.bench import Bench, FinishedRun
from schedbed.deploy.papers.experiment import Experiment, Measured, Values
from schedbed.deploy.papers.figures import PAPER, grouped_bars
from schedbed.deploy.papers.lakshmi2019.two_jobs import (
    PAIRS,
    POLICIES,
    QUEUES,
    PairRun,
    cpu_heavy_first,
    earlier,
    mean_gain,
    pair_gains,
    pair_spans,
    run_alone,
    run_pairs,
    split_gains,
    tags_of,
    unlike,
)
from schedbed.deploy.results.metrics import RunTables, heartbeat_intervals
from schedbed.deploy.results.plots import OKABE
from schedbed.deploy.results.stats import mean_interval

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ONE = PairRun(name="pairs-3GB")  # the pairs of 3 GB in one queue, a run shared with the experiment `pairs`
EACH = PairRun(name="pairs-3GB-each", queues=QUEUES, factor=1)
CPU_FIRST = "pairs-3GB-cpu-first"  # the run with the CPU-heavy job of each unlike pair ahead
EACH_GROWN = PairRun(name="pairs-3GB-each-grown", queues=QUEUES)
DISKS_MBPS = (25, 50)
SHOWN = ("", "_each", "_each_grown", *(f"_{rate}" for rate in DISKS_MBPS))
TITLES = ("one queue", "a queue each", "each grown", *(f"{rate} MB/s" for rate in DISKS_MBPS))


def of_disk(rate_mbps: int) -> PairRun:
    """Return the settings for pairs of 3 GB in one queue, on a host's disk of `rate_mbps` MB/s."""
    return PairRun(name=f"pairs-3GB-{rate_mbps}MBps", disk_mbps=rate_mbps)


def measure(bench: Bench) -> Measured:
    """Measure the gains of the policy CSLA for pairs of jobs with other queues, disks or job orders.

    Each job has 3 GB of data.
    """
    tags = tags_of(run_alone(bench))
    one, each = pair_spans(bench, ONE), pair_spans(bench, EACH_GROWN)
    gains = {
        "": earlier(one["csla"], one["capacity"]),
        "_each": pair_gains(bench, EACH),
        "_each_grown": earlier(each["csla"], each["capacity"]),
    }
    for rate in DISKS_MBPS:
        gains[f"_{rate}"] = pair_gains(bench, of_disk(rate))
    values: dict[str, list[float]] = {}
    for way, found in gains.items():
        values[f"unlike{way}"], values[f"alike{way}"], values[f"difference{way}"] = split_gains(found, tags)
    mixed = earlier(each["capacity"], one["capacity"])
    values["mixed"] = mean_gain(mixed, [pair for pair in PAIRS if unlike(tags, pair)])
    return Measured(values=values | _orders(bench, tags) | _reasons(bench, tags))


def _reasons(bench: Bench, tags: Mapping[str, int]) -> dict[str, list[float]]:
    """Return how much any policy could gain, and how long both jobs of a pair run at the same time.

    The values are means over the pairs with different tags, in percent. `tags` is a dictionary from job to
    tag.
    """
    ahead = PairRun(name=CPU_FIRST, pairs=cpu_heavy_first(tags))
    found: dict[str, list[float]] = {}
    for key, way in (("room", ONE), *((f"room_{rate}", of_disk(rate)) for rate in DISKS_MBPS)):
        found[key] = _mean_unlike(tags, way, rooms(run_pairs(bench, way)))
    for key, way in (("cpu_first", ahead), ("each", EACH)):
        finished = run_pairs(bench, way)
        for name, policy in zip(POLICIES, finished.policies, strict=True):
            found[f"together_{key}_{name}"] = _mean_unlike(tags, way, together(finished, policy))
    return found


def _mean_unlike(tags: Mapping[str, int], way: PairRun, by_pair: Sequence[Sequence[float]]) -> list[float]:
    """Return the mean of values over the pairs with different tags, one number per repeat.

    `by_pair` has a list for each pair of `way`.
    """
    pairs = [pair for pair in way.pairs if unlike(tags, pair)]
    return mean_gain(dict(zip(way.pairs, by_pair, strict=True)), pairs)


def _orders(bench: Bench, tags: Mapping[str, int]) -> dict[str, list[float]]:
    """Return the mean gain of the policy CSLA for pairs with different tags, for both orders of submission.

    The CPU-heavy job of each pair is submitted either first or last. `tags` is a dictionary from job to tag.
    """
    first = cpu_heavy_first(tags)
    last = [(second, head) for head, second in first]
    ways = {
        "cpu_first": PairRun(name=CPU_FIRST, pairs=first),
        "io_first": PairRun(name="pairs-3GB-io-first", pairs=last),
        "io_first_bytes": PairRun(name="pairs-3GB-io-first-bytes", pairs=last, host_disk=False),
    }
    return {key: mean_gain(pair_gains(bench, way), way.pairs) for key, way in ways.items()}


def draw(figure: Figure, said: Values, measured: Measured) -> None:
    """Draw by how many percent the policy CSLA shortens the makespan of pairs of jobs, for each setting.

    Pairs with different tags and pairs with equal tags have separate bars.
    """
    ax = figure.subplots()
    bars, errors = [], []
    for shade, kind in zip(OKABE, ("unlike", "alike"), strict=False):
        found = [measured.samples(f"{kind}{way}") for way in SHOWN]
        bars.append((f"{kind} pairs", shade, [fmean(each) for each in found]))
        errors.append([mean_interval(each) for each in found])
    ax.axhspan(12, 23, color=PAPER, alpha=0.3, linewidth=0, label="paper, unlike: 12 to 23%")
    ax.axhline(0, color="black", linewidth=0.6)
    grouped_bars(ax, TITLES, bars, errors)
    ax.set(ylabel="makespan saved [%]")


EXPERIMENT = Experiment(name="ways", measure=measure, draw=draw, takes_s={"sim": 190}, repeats=3)


# The use of CPU and disk while a group of jobs runs, and the time in which the jobs of a group run
# together.
#
# No policy can gain from a resource that is busy all the time.


def rooms(finished: FinishedRun) -> list[list[float]]:
    """Return by how many percent any policy could shorten each group's makespan under Capacity at most.

    No policy can be faster than the busiest resource needs for the group's work: the cores of all nodes
    together, or the disk that they share. The result has one list per group, with one number per repeat.
    """
    return _by_group([_rooms(run) for run in finished.each(finished.policies[0])])


def _rooms(run: RunTables) -> np.ndarray:
    """Return a run's share of each makespan in percent in which the busiest resource is idle."""
    by_submit = run.jobs.groupby("submit", sort=True)["finish"].max()
    began_s = by_submit.index.to_numpy(float)
    took_s = by_submit.to_numpy(float) - began_s
    heartbeats = run.tables["heartbeats"]
    covered_s = heartbeat_intervals(heartbeats)
    # A heartbeat is about the time before it, so one at a submission belongs to the group before.
    groups = np.clip(np.searchsorted(began_s, heartbeats["t"].to_numpy(float)) - 1, 0, None)
    cpu_s, disk_s = (
        np.bincount(groups, heartbeats[column].fillna(0.0).to_numpy(float) * covered_s, len(began_s))
        for column in ("cpu_util", "disk_util")
    )
    # Each node's shares are of its own cores, but of the whole shared disk.
    return 100 * (1 - np.maximum(cpu_s / len(run.nodes), disk_s) / took_s)


def together(finished: FinishedRun, policy: str) -> list[list[float]]:
    """Return for how much of the time until a pair's first job ends, in percent, both jobs run under `policy`.

    The result has one list per pair, with one number per repeat.
    """
    return _by_group([_together(run) for run in finished.each(policy)])


def _together(run: RunTables) -> np.ndarray:
    pairs = run.jobs.groupby("submit", sort=True)
    first_ends_s = pairs["finish"].min()
    both_s = first_ends_s - pairs["start"].max()
    return (
        100 * np.clip(both_s.to_numpy(float), 0, None) / (first_ends_s - first_ends_s.index).to_numpy(float)
    )


def _by_group(repeats: list[np.ndarray]) -> list[list[float]]:
    return np.transpose(repeats).tolist()
