"""Records which part of each user's quota is in use.

A quota limits the jobs that have not ended, their tasks, and the bytes of input in the block store.
"""

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
    """The resources that one user uses.

    `jobs` is a dictionary from job id to number of tasks, and `files` from path of an input file to size in
    bytes.
    """

    jobs: dict[str, int] = field(default_factory=dict)
    files: dict[str, int] = field(default_factory=dict)


class QuotaLedger:
    """Records the jobs and input files of each user with a token, as far as they use the user's quota.

    An input file uses the quota of the user who first submits it, until the cluster is shut down or the file
    is removed. Other users who read the file use no quota for it. Several threads may call the methods at the
    same time.
    """

    def __init__(self) -> None:
        self._accounts: dict[str, _Account] = {}
        self._lock = threading.Lock()

    def admit(self, user: TokenUser, jobs: Sequence[PlannedJob], new_files: Iterable[InputFile]) -> None:
        """Charge new jobs, and the input files that they add, to the user's quota.

        Raises BadInput if the jobs need more than the whole quota, Denied if they need more than its unused
        part.
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
        """Release the part of a quota that an ended job used.

        `forgotten` is the path of the job's input file if it was removed with the job; its size is released
        as well.
        """
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
    """Return three texts about a quota and its used part, for jobs, tasks and input, such as `2 of 5`."""
    counts = [f"{use[key]} of {quota[key]}" for key in ("jobs", "tasks")]
    return [*counts, f"{format_bytes(use['input_bytes'])} of {format_bytes(quota['input_bytes'])}"]
