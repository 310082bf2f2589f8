"""`framework`: the time and CPU that a framework such as Hadoop 1 adds to the tasks of a simulated run.

The value is the name of a profile, or a profile with some changed costs.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field, Tag, model_validator

from schedbed.deploy.scenario.scalars import Duration, Rate, Section, Slots, says
from schedbed.scheduler.simulate.framework import PROFILES, Framework

Cost = Annotated[Duration, Field(le=3600)]


class FrameworkCosts(Section):
    """Values that replace those of a framework profile (the delays that Hadoop, for example, adds to tasks).

    A missing key leaves the profile's value unchanged. The scenario's key `scale` does not change these
    values.
    """

    maps_per_heartbeat: Annotated[Slots | None, says("maps that a heartbeat's reply starts, 0 for all")] = (
        None
    )
    reduces_per_heartbeat: Annotated[
        Slots | None, says("reduces that a heartbeat's reply starts, 0 for all")
    ] = None
    out_of_band: Annotated[
        Annotated[bool, Field(strict=True)] | None,
        says("let the end of a task send a heartbeat at once; else the timer's next one reports the end"),
    ] = None
    init_poll: Annotated[Cost | None, says("time between polls for jobs to initialize, 0s for no polls")] = (
        None
    )
    init: Annotated[Cost | None, says("time from a poll or the submission until a job is initialized")] = None
    init_jobs: Annotated[
        Slots | None, says("jobs of a user that polls initialize before one of them starts a task, 0 for all")
    ] = None
    setup: Annotated[Cost | None, says("time of a job's set-up task, before all others")] = None
    cleanup: Annotated[Cost | None, says("time of a job's clean-up task, after all others")] = None
    localize: Annotated[Cost | None, says("time in which a node fetches a job's files, once a job")] = None
    jvm: Annotated[Cost | None, says("time from the start of an attempt to its first line")] = None
    fetch_poll: Annotated[
        Cost | None, says("time until a reduce has heard of map outputs and fetched the last one")
    ] = None
    fetch_rate: Annotated[
        Annotated[Rate, Field(gt=0)] | None, says("rate at which one reduce fetches map outputs at most")
    ] = None
    recorded_shuffle: Annotated[
        Annotated[bool, Field(strict=True)] | None,
        says(
            "take a traced reduce's time in its shuffle after the last map from the trace, where it has that"
        ),
    ] = None

    def applied(self, profile: Framework) -> Framework:
        """Return a copy of the profile in which the values given here replace the profile's values."""
        given = self.model_dump(exclude_none=True)
        seconds = ("init_poll", "init", "setup", "cleanup", "localize", "jvm", "fetch_poll")
        return replace(
            profile, **{f"{key}_s" if key in seconds else key: value for key, value in given.items()}
        )


class FrameworkChoice(Section):
    """`framework: {hadoop1: {setup: 2s}}`: a framework profile with some of its costs changed."""

    hadoop1: Annotated[FrameworkCosts | None, says("Hadoop 1 (MRv1), with these numbers")] = None
    yarn: Annotated[FrameworkCosts | None, says("MapReduce on YARN, with these numbers")] = None

    @model_validator(mode="after")
    def _one_of(self) -> FrameworkChoice:
        if (self.hadoop1 is None) == (self.yarn is None):
            raise ValueError("expected one of hadoop1: {...} and yarn: {...}")
        return self


def _form(value: object) -> str:
    return "costs" if isinstance(value, dict | FrameworkChoice) else "name"


FrameworkModel = Annotated[
    Annotated[Literal["none", "hadoop1", "yarn"], Tag("name")] | Annotated[FrameworkChoice, Tag("costs")],
    Discriminator(_form),
]


def framework_of(given: Any) -> Framework:
    """Return the framework costs for the value of the key `framework`, which has been validated already."""
    if isinstance(given, str):
        return PROFILES[given]
    assert isinstance(given, FrameworkChoice)
    name = "hadoop1" if given.hadoop1 is not None else "yarn"
    costs = given.hadoop1 or given.yarn
    assert costs is not None
    return costs.applied(PROFILES[name])
