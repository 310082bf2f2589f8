"""Functions to recognize jobs of the same workload, that is, runs of the same program with similar tasks."""

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
    """Return the job's name without the number of the copy: `wc` for `wc-2` (liu2015, 2.2.1)."""
    return _COPY.sub("", job.name) or job.name


def find_profile(profiles: Mapping[str, T], job: Run) -> T | None:
    """Return the profile of the job's name, else workload, else application, or None.

    Not by the application of synthetic jobs, which unrelated ones share.
    """
    names = [job.name, workload_of(job)] + ([job.app] if job.app != SYNTHETIC else [])
    return next((profiles[name] for name in names if name in profiles), None)
