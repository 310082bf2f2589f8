"""What `workload: {generate: ...}` may say: how many jobs, when they come, what they read, and by when they are due."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, model_validator

from schedbed.deploy.scenario.scalars import Duration, Number, Part, Positive, Size

Share = Annotated[float, Number, Field(ge=0, le=1000)]
Above0 = Annotated[float, Number, Field(gt=0, le=1000)]


class Arrivals(Part):
    """`arrivals`: exponential gaps of that mean (poisson), or each job as soon as the load leaves room (threshold)."""

    poisson: Duration | None = None
    threshold: Annotated[float, Number, Field(gt=0, le=10)] | None = None

    @model_validator(mode="after")
    def _one_of(self) -> Arrivals:
        if (self.poisson is None) == (self.threshold is None):
            raise ValueError("expected poisson: DURATION or threshold: SHARE of the slots, one of the two")
        return self


class HeavyTail(Part):
    """`input`: a bounded Pareto law, the share of jobs that read more than x falls as x^-shape."""

    least: Size = 64 * 2**20
    most: Size = 4 * 2**30
    shape: Above0 = 1.0


class Popular(Part):
    """`files`: jobs read one of so many files, the r-th most popular in proportion to r^-exponent."""

    count: Positive
    exponent: Annotated[float, Number, Field(ge=0, le=100)] = 1.0


class Factors(Part):
    """`deadline`: a factor of the time that the job takes alone, uniform between the two."""

    least: Above0 = 1.0
    most: Above0 = 3.0


class Generated(Part):
    """`generate`: how many jobs, when they come, what they read, shuffle and write, and by when they are due."""

    jobs: Positive
    arrivals: Arrivals
    input: HeavyTail = HeavyTail()
    shuffle: Share = 0.5
    output: Share = 0.5
    users: Positive = 5
    files: Popular | None = None
    deadline: Factors | None = None
    seed: Annotated[int, Field(strict=True, ge=0, lt=2**63)] | None = None


GOES_WITH = ("block", "cpu_rate", "reduce_bytes", "limit_bytes")
"""Keys of `workload` that may stand beside `generate`."""
