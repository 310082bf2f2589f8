"""Identification of jobs of the same workload: runs of the same program, whose tasks are similar."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Protocol, TypeVar

T = TypeVar("T")
SYNTHETIC = "synthetic"
_COPY = re.compile(r"-\d+$")


class Run(Protocol):
    """The attributes of a planned or submitted job that identify its workload."""

    @property
    def name(self) -> str: ...
    @property
    def app(self) -> str: ...
    @property
    def user(self) -> str: ...


def workload_of(job: Run) -> str:
    """Return the job's name (liu2015 2.2.1) without the number of a copy in a scenario: `wc` for `wc-2`."""
    return _COPY.sub("", job.name) or job.name


def find_profile(profiles: Mapping[str, T], job: Run) -> T | None:
    """Return the profile with the job's name, else its workload, else its application; None if there is none.

    The application of a synthetic job is ignored, since synthetic jobs have only that in common.
    """
    names = [job.name, workload_of(job)] + ([job.app] if job.app != SYNTHETIC else [])
    return next((profiles[name] for name in names if name in profiles), None)
