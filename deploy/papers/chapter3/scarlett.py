"""The replication scheme Scarlett, compared with three replicas of every file.

Scarlett adds replicas of popular files.
"""

from __future__ import annotations

from schedbed.deploy.papers.bench import Bench
from schedbed.deploy.papers.chapter3.popular_files import ALL_LOCAL, DELAY, FIFO, SCARLETT, run_popular
from schedbed.deploy.papers.chapter3.runs import figure_of, gains
from schedbed.deploy.papers.experiment import Experiment, Measured
from schedbed.deploy.papers.figures import draw_values

MEAN = ("completion_s", "mean")
LOCAL = ("locality", "tasks", "node")


def measure(bench: Bench) -> Measured:
    """Measure by how many percent the scheme Scarlett reduces the mean job completion time, in each repeat.

    The value `most` is a reduction without Scarlett: FIFO waits for nodes with a map's input, so that more
    input is local, and is compared with FIFO that does not wait.
    """
    plain, mine = run_popular(bench, "plain"), run_popular(bench, "scarlett", dynamic=SCARLETT)
    return Measured(
        values={
            "fifo": gains(mine, FIFO, FIFO, *MEAN, than_runs=plain),
            "delay": gains(mine, DELAY, DELAY, *MEAN, than_runs=plain),
            "most": gains(plain, ALL_LOCAL, FIFO, *MEAN),
            "local": [100 * figure_of(finished, FIFO, *LOCAL) for finished in mine],
            "local_most": [100 * figure_of(finished, ALL_LOCAL, *LOCAL) for finished in plain],
            "local_plain": [100 * figure_of(finished, FIFO, *LOCAL) for finished in plain],
        }
    )


EXPERIMENT = Experiment(name="scarlett", measure=measure, draw=draw_values, takes_s={"sim": 70}, repeats=10)
