"""The replication scheme DARE, measured under FIFO and under delay scheduling.

With DARE, a node that reads a block from another node for a map keeps the block as an additional replica.
"""

from __future__ import annotations

from schedbed.deploy.papers.bench import Bench
from schedbed.deploy.papers.chapter3.popular_files import DARE, DELAY, FIFO, run_popular
from schedbed.deploy.papers.chapter3.runs import figure_of, gains
from schedbed.deploy.papers.experiment import Experiment, Measured
from schedbed.deploy.papers.figures import draw_values

LOCAL = ("locality", "tasks", "node")


def measure(bench: Bench) -> Measured:
    """Measure the share of maps with local input, completion times and slowdowns with and without DARE."""
    plain, mine = run_popular(bench, "plain"), run_popular(bench, "dare", dynamic=DARE)
    before, after = ([figure_of(finished, FIFO, *LOCAL) for finished in runs] for runs in (plain, mine))
    return Measured(
        values={
            "times": [more / less for more, less in zip(after, before, strict=True)],
            "most_times": [1 / share for share in before],
            "local_plain": [100 * share for share in before],
            "local": [100 * share for share in after],
            "local_delay_plain": [100 * figure_of(finished, DELAY, *LOCAL) for finished in plain],
            "local_delay": [100 * figure_of(finished, DELAY, *LOCAL) for finished in mine],
            "turnaround": gains(mine, FIFO, FIFO, "completion_s", "mean", than_runs=plain),
            "slowdown": gains(mine, FIFO, FIFO, "slowdown", "mean", than_runs=plain),
            "turnaround_delay": gains(mine, DELAY, DELAY, "completion_s", "mean", than_runs=plain),
            "slowdown_delay": gains(mine, DELAY, DELAY, "slowdown", "mean", than_runs=plain),
        }
    )


EXPERIMENT = Experiment(name="dare", measure=measure, draw=draw_values, takes_s={"sim": 30}, repeats=10)
