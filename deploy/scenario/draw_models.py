"""Models of the key `workload.generate`: the number of drawn jobs, their arrivals, inputs and deadlines."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, model_validator

from schedbed.deploy.scenario.scalars import Duration, Number, Positive, Section, Size, says

Share = Annotated[float, Number, Field(ge=0, le=1000)]
Above0 = Annotated[float, Number, Field(gt=0, le=1000)]


class Arrivals(Section):
    """`arrivals`: the submit times of drawn jobs, set by one of two keys.

    `poisson` is the mean of exponentially distributed times between jobs. `threshold` is a share of the
    cluster's slots: the next job is submitted as soon as the load, together with this job, is at most this
    share. The load of a job is the share of slots with which the job meets its deadline, or ends in the time
    that it takes alone.
    """

    poisson: Annotated[
        Duration | None,
        says("mean time between two submissions. The times are random (exponentially distributed)"),
    ] = None
    threshold: Annotated[
        Annotated[float, Number, Field(gt=0, le=10)] | None,
        says(
            "largest load, as a share of all slots (0.8 is 80%): the next job is submitted as soon "
            "as the running jobs leave room for it"
        ),
    ] = None

    @model_validator(mode="after")
    def _one_of(self) -> Arrivals:
        if (self.poisson is None) == (self.threshold is None):
            raise ValueError("expected poisson: DURATION or threshold: SHARE of the slots, one of the two")
        return self


class HeavyTail(Section):
    """`input`: the distribution of the jobs' input sizes, a bounded Pareto distribution from `least` to `most`.

    The share of jobs that read more than x bytes falls as x^-shape.
    """

    least: Annotated[Size, says("smallest possible input of a job")] = 64 * 2**20
    most: Annotated[Size, says("largest possible input of a job")] = 4 * 2**30
    shape: Annotated[
        Above0,
        says(
            "exponent of the bounded Pareto distribution of input sizes: the larger, the fewer large inputs"
        ),
    ] = 1.0


class Popular(Section):
    """`files`: the input files that jobs share.

    The popularity of files differs: a job reads the r-th most popular file with a probability proportional to
    r^-exponent.
    """

    count: Annotated[Positive, says("number of different input files")]
    exponent: Annotated[
        float,
        Number,
        Field(ge=0, le=100),
        says(
            "how unequally jobs choose files: 0 makes all files equally popular, larger "
            "values favor a few files"
        ),
    ] = 1.0


class Factors(Section):
    """`deadline`: the random deadlines of the jobs.

    A deadline is the time that the job takes alone on the cluster, multiplied by a random factor between
    `least` and `most` (uniformly distributed).
    """

    least: Annotated[
        Above0,
        says("smallest deadline of a job, as a multiple of the time that the job takes alone on the cluster"),
    ] = 1.0
    most: Annotated[
        Above0,
        says("largest deadline of a job, as a multiple of the time that the job takes alone on the cluster"),
    ] = 3.0


class Generated(Section):
    """`generate`: jobs drawn at random.

    The keys set the number of jobs, the submit times, the deadlines, and the sizes of input, shuffle and
    output.
    """

    jobs: Annotated[Positive, says("number of jobs to draw")]
    arrivals: Annotated[
        Arrivals | None,
        says(
            "submit times of the jobs: random with a given mean gap, or as soon as the load permits. "
            "Give this or `load`"
        ),
    ] = None
    load: Annotated[
        Annotated[float, Number, Field(gt=0, le=10)] | None,
        says(
            "share of the slots that the jobs keep busy on average, at random submit times. Give "
            "this or `arrivals`"
        ),
    ] = None
    input: Annotated[HeavyTail, says("range and distribution of the jobs' input sizes")] = HeavyTail()
    shuffle: Annotated[
        Share, says("amount of data that maps pass to reduces per byte of input, 0 for jobs without reduces")
    ] = 0.5
    output: Annotated[Share, says("amount of data that a job writes as output per byte of its input")] = 0.5
    users: Annotated[Positive, says("number of users. Each job belongs to one of them, chosen at random")] = 5
    files: Annotated[
        Popular | None, says("input files that several jobs read. Without it, each job has its own input")
    ] = None
    deadline: Annotated[
        Factors | None, says("range of the jobs' random deadlines. Without it, jobs have no deadlines")
    ] = None
    seed: Annotated[
        Annotated[int, Field(strict=True, ge=0, lt=2**63)] | None,
        says("seed of the random jobs, by default the scenario's `seed`"),
    ] = None

    @model_validator(mode="after")
    def _one_of(self) -> Generated:
        if (self.arrivals is None) == (self.load is None):
            raise ValueError(
                "expected arrivals: {poisson or threshold} or load: SHARE of the slots, one of the two"
            )
        return self


GOES_WITH = ("block", "cpu_rate", "reduce_bytes", "limit_bytes")
"""Keys of `workload` that can be combined with `generate`."""
