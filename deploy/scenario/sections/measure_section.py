"""`measure`: the jobs on which a run's figures are based, so that a warm-up and a cool-down are left out."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, model_validator

from schedbed.deploy.scenario.scalars import Duration, Section, says


class Measure(Section):
    """`measure: {from: 10m, until: 1h}`: a run's figures are based on the jobs submitted in [from, until).

    Both times are multiplied by `scale`.
    """

    from_: Annotated[
        Duration, Field(alias="from"), says("figures are of jobs submitted from this time on")
    ] = 0.0
    until: Annotated[Duration | None, says("figures are of jobs submitted before this time")] = None

    @model_validator(mode="after")
    def _not_empty(self) -> Measure:
        if self.until is not None and self.until <= self.from_:
            raise ValueError("until is not after from")
        return self
