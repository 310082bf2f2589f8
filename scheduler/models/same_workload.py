"""Identifies jobs of the same workload: runs of one program, which have similar tasks."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Protocol, TypeVar

T = TypeVar("T")
SYNTHETIC = "synthetic"
_COPY = re.compile(r"-\d+$")


class Run(Protocol):
    """A planned or submitted job."""

    @property
    def name(self) -> str: ...
    @property
    def app(self) -> str: ...
    @property
    def user(self) -> str: ...


def workload_of(job: Run) -> str:
    """Return the job's name (liu2015 2.2.1) without the number added to copies of a scenario's job (`wc-2`)."""
    return _COPY.sub("", job.name) or job.name


def find_profile(profiles: Mapping[str, T], job: Run) -> T | None:
    """Return the profile found under the job's name, else its workload, else its application.

    Synthetic jobs are not looked up by application, since they have nothing else in common.
    """
    names = [job.name, workload_of(job)] + ([job.app] if job.app != SYNTHETIC else [])
    return next((profiles[name] for name in names if name in profiles), None)
