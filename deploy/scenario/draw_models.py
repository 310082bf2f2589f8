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
    cluster's slots: the next job is submitted as soon as the load is below this share.
    """

    poisson: Annotated[Duration | None, says("mean of the exponential gaps between jobs")] = None
    threshold: Annotated[
        Annotated[float, Number, Field(gt=0, le=10)] | None,
        says("share of the slots: the next job comes as soon as the load is below"),
    ] = None

    @model_validator(mode="after")
    def _one_of(self) -> Arrivals:
        if (self.poisson is None) == (self.threshold is None):
            raise ValueError("expected poisson: DURATION or threshold: SHARE of the slots, one of the two")
        return self


class HeavyTail(Section):
    """`input`: the law of the jobs' input sizes, a bounded Pareto law between `least` and `most`.

    The share of jobs that read more than x bytes falls as x^-shape.
    """

    least: Annotated[Size, says("smallest input")] = 64 * 2**20
    most: Annotated[Size, says("largest input")] = 4 * 2**30
    shape: Annotated[Above0, says("exponent of the bounded Pareto law")] = 1.0


class Popular(Section):
    """`files`: the input files that jobs share.

    The popularity of files differs: a job reads the r-th most popular file with a probability proportional to
    r^-exponent.
    """

    count: Annotated[Positive, says("number of files")]
    exponent: Annotated[float, Number, Field(ge=0, le=100), says("of the popularity by rank")] = 1.0


class Factors(Section):
    """`deadline`: the law of the jobs' deadlines.

    A deadline is the time that the job takes alone on the cluster, multiplied by a random factor between
    `least` and `most` (uniformly distributed).
    """

    least: Annotated[Above0, says("smallest factor of the time that the job takes alone")] = 1.0
    most: Annotated[Above0, says("largest factor")] = 3.0


class Generated(Section):
    """`generate`: the law from which jobs are drawn at random.

    The keys set the number of jobs, the submit times, the deadlines, and the sizes of input, shuffle and
    output.
    """

    jobs: Annotated[Positive, says("number of jobs")]
    arrivals: Annotated[Arrivals | None, says("when jobs come")] = None
    load: Annotated[
        Annotated[float, Number, Field(gt=0, le=10)] | None,
        says(
            "instead of arrivals: exponential gaps such that the jobs' tasks keep this share of the slots busy"
        ),
    ] = None
    input: Annotated[HeavyTail, says("law of the jobs' input sizes")] = HeavyTail()
    shuffle: Annotated[Share, says("bytes that maps write per byte of input")] = 0.5
    output: Annotated[Share, says("bytes that reduces write per byte of shuffle")] = 0.5
    users: Annotated[Positive, says("users that jobs are dealt over")] = 5
    files: Annotated[Popular | None, says("files that jobs share")] = None
    deadline: Annotated[Factors | None, says("law of the jobs' deadlines")] = None
    seed: Annotated[
        Annotated[int, Field(strict=True, ge=0, lt=2**63)] | None,
        says("seed of the drawn jobs; the scenario's unless given"),
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
