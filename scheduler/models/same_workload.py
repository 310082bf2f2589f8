"""Which jobs are the same workload: runs of one program, whose tasks behave the same."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Protocol, TypeVar

T = TypeVar("T")
SYNTHETIC = "synthetic"
_COPY = re.compile(r"-\d+$")


class Run(Protocol):
    """A job, planned or submitted."""

    @property
    def name(self) -> str: ...
    @property
    def app(self) -> str: ...
    @property
    def user(self) -> str: ...


def workload_of(job: Run) -> str:
    """Return the job's name (liu2015 2.2.1), without the number that copies of a scenario's job carry (`wc-2`)."""
    return _COPY.sub("", job.name) or job.name


def find_profile(profiles: Mapping[str, T], job: Run) -> T | None:
    """Return what is known of the job: by its own name, by its workload's, by its application's.

    Synthetic jobs have nothing in common but the application, which says nothing of them.
    """
    names = [job.name, workload_of(job)] + ([job.app] if job.app != SYNTHETIC else [])
    return next((profiles[name] for name in names if name in profiles), None)
