"""Accepts jobs from users who have a token: under their own names, within the quota, without the host's files."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from schedbed.deploy.scenario.check import Complaints
from schedbed.deploy.scenario.inputs import filler_path
from schedbed.deploy.scenario.own_code import is_own
from schedbed.deploy.scenario.yaml_file import Document, KeyPath
from schedbed.deploy.service.job_intake import JOBS, Desk, jobs_document
from schedbed.deploy.service.users.quota_ledger import QuotaLedger
from schedbed.deploy.service.users.sent_files import SENT, kept_files, unpack_files
from schedbed.deploy.service.users.user_book import TokenUser
from schedbed.tasks.errors import BadInput
from schedbed.tasks.own.program import is_app_file
from schedbed.tasks.workloads.planned import InputFile, PlannedJob


class UserDesk:
    """Checks the jobs of users with a token for `desk`. The files sent with them are kept in `results`."""

    def __init__(self, desk: Desk, ledger: QuotaLedger, results: Path) -> None:
        self._desk, self._ledger = desk, ledger
        self._folder = results / SENT
        self._locks: defaultdict[str, threading.Lock] = defaultdict(threading.Lock)

    def take(self, request: Mapping[str, Any], user: TokenUser) -> tuple[PlannedJob, ...]:
        """Submit the jobs of a user's request, which has the `files` that they refer to, and return them.

        Raises BadInput if they need a right that the user does not have, Denied if they exceed the quota's
        unused part.
        """
        files = unpack_files(request.get("files") or {})
        document = jobs_document({**request, "user": user.name})
        complaints = Complaints(document)
        for path, message in _wrongs(document, user, files):
            complaints.add(path, message)
        complaints.raise_if_any()
        admitted: list[str] = []

        def admit(jobs: Sequence[PlannedJob], new_files: Sequence[InputFile]) -> None:
            self._ledger.admit(user, jobs, new_files)
            admitted.extend(job.job for job in jobs)

        try:
            with self._place(user, files) as base, _without(base):
                return self._desk.take_document(document, base, admit)
        except BaseException:
            for job in admitted:
                self._ledger.end(job, filler_path(job))
            raise

    @contextmanager
    def _place(self, user: TokenUser, files: Mapping[str, bytes]) -> Iterator[Path]:
        """Yield a folder of this user with the files sent."""
        with self._locks[user.name], kept_files(files, self._folder / user.name) as place:
            yield place


@contextmanager
def _without(base: Path) -> Iterator[None]:
    """Remove the path of `base` from errors, since users must not see paths of the owner's host."""
    try:
        yield
    except BadInput as error:
        raise BadInput(str(error).replace(f"{base.resolve()}/", "").replace(f"{base}/", "")) from None


def _wrongs(document: Document, user: TokenUser, files: Mapping[str, bytes]) -> Iterator[tuple[KeyPath, str]]:
    """Yield each key that the user has no right to set, with a message. Malformed entries are refused later."""
    entries = document.value.get("jobs") if isinstance(document.value, dict) else None
    for index, entry in enumerate(entries if isinstance(entries, list) else ()):
        if isinstance(entry, dict):
            for key, message in _wrongs_of(entry, user, files):
                yield (*JOBS, index, *key), message


def _wrongs_of(
    entry: Mapping[str, Any], user: TokenUser, files: Mapping[str, bytes]
) -> Iterator[tuple[KeyPath, str]]:
    if entry.get("user") != user.name:
        yield ("user",), f"{entry.get('user')!r}, but this token submits for {user.name} only"
    if is_own(str(entry.get("app"))) and not user.own_code:
        yield (
            ("app",),
            f"{user.name} has no right to code of their own, expected a shipped one, see: schedbed apps",
        )
    if "folder" in entry:
        yield ("folder",), "a folder of the cluster's host, expected files that are sent with the job"
    named: list[tuple[KeyPath, Any]] = [(("input",), entry.get("input"))]
    more = entry.get("files")
    named += [(("files", at), name) for at, name in enumerate(more if isinstance(more, list) else ())]
    if is_app_file(str(entry.get("app"))):
        named.append((("app",), str(entry["app"]).partition(".py:")[0].removesuffix(".py") + ".py"))
    for key, name in named:
        if isinstance(name, str) and str(Path(name)) not in files:
            yield key, f"{name!r} was not sent with the job, expected a file below the working folder"
