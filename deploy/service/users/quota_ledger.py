"""Records the used part of each user's quota: jobs that have not ended, their tasks, bytes of input."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from schedbed.deploy.failures import TOO_MANY, Denied
from schedbed.deploy.service.users.user_book import TokenUser
from schedbed.tasks.errors import BadInput
from schedbed.tasks.units import format_bytes
from schedbed.tasks.workloads.planned import InputFile, PlannedJob


@dataclass(slots=True)
class _Account:
    """A user's jobs, with their numbers of tasks, and input files, with their sizes in bytes."""

    jobs: dict[str, int] = field(default_factory=dict)
    files: dict[str, int] = field(default_factory=dict)


class QuotaLedger:
    """Records the jobs and input files that use each user's quota. Several threads may call the methods.

    A file uses the quota of the user who first submits it, not that of other readers, until it is removed or
    the cluster is shut down.
    """

    def __init__(self) -> None:
        self._accounts: dict[str, _Account] = {}
        self._lock = threading.Lock()

    def admit(self, user: TokenUser, jobs: Sequence[PlannedJob], new_files: Iterable[InputFile]) -> None:
        """Charge jobs and their new input files to the user's quota.

        Raises BadInput if they need more than the whole quota, Denied if more than its unused part.
        """
        quota, tasks = user.quota, {job.job: job.maps + job.reduces for job in jobs}
        brought = {file.path: file.length for file in new_files}
        with self._lock:
            account = self._accounts.setdefault(user.name, _Account())
            has_input = sum(account.files.values())
            _check(user, "jobs", quota.jobs, len(account.jobs), len(tasks))
            _check(user, "tasks", quota.tasks, sum(account.jobs.values()), sum(tasks.values()))
            if has_input + sum(brought.values()) > quota.input_bytes:
                most, asked = format_bytes(quota.input_bytes), format_bytes(sum(brought.values()))
                raise Denied(
                    f"{user.name} has {format_bytes(has_input)} of {most} input in the cluster and these jobs bring "
                    f"{asked}: use input that is there, or ask the cluster's owner for more",
                    TOO_MANY,
                )
            account.jobs |= tasks
            account.files |= brought

    def end(self, job: str, forgotten: str = "") -> None:
        """Release an ended job's quota, and that of its input file `forgotten`, if removed with it."""
        with self._lock:
            for account in self._accounts.values():
                if account.jobs.pop(job, None) is not None:
                    account.files.pop(forgotten, None)

    def use(self, user: str) -> dict[str, int]:
        """Return the used part of a user's quota, with the keys `jobs`, `tasks` and `input_bytes`."""
        with self._lock:
            account = self._accounts.get(user, _Account())
            return {
                "jobs": len(account.jobs),
                "tasks": sum(account.jobs.values()),
                "input_bytes": sum(account.files.values()),
            }


def _check(user: TokenUser, what: str, most: int, has: int, asked: int) -> None:
    if asked > most:
        raise BadInput(f"{asked} {what} are more than {user.name}'s quota of {most}")
    if has + asked > most:
        raise Denied(
            f"{user.name} has {has} of {most} {what} in use and these jobs need {asked}: wait for jobs to end, or "
            "kill some",
            TOO_MANY,
        )


def shown_use(use: Mapping[str, int], quota: Mapping[str, Any]) -> list[str]:
    """Return texts such as `2 of 5` for jobs, tasks and input."""
    counts = [f"{use[key]} of {quota[key]}" for key in ("jobs", "tasks")]
    return [*counts, f"{format_bytes(use['input_bytes'])} of {format_bytes(quota['input_bytes'])}"]
