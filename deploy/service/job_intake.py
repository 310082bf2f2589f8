"""Accepts jobs while a cluster runs: checks and numbers the jobs, uploads their input and submits them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Protocol

from pydantic import Field

from schedbed.cluster.blocks.block_errors import BlockStoreError
from schedbed.cluster.masters import MasterGone
from schedbed.deploy.failures import RunFailed
from schedbed.deploy.scenario.check import Complaints, check_as
from schedbed.deploy.scenario.inputs import JobInputs
from schedbed.deploy.scenario.jobs import plan_jobs
from schedbed.deploy.scenario.models import JobModel, Scenario, Section
from schedbed.deploy.scenario.own_code import is_own
from schedbed.deploy.scenario.policies import apply_change, check_rigid, closed_queues
from schedbed.deploy.scenario.resolved import ResolvedScenario
from schedbed.deploy.scenario.sections import Change
from schedbed.deploy.scenario.yaml_file import Document, from_values, load_text
from schedbed.scheduler.driver import PolicyChange
from schedbed.scheduler.policy import Policy
from schedbed.tasks.specs import id_key
from schedbed.tasks.workloads.planned import InputFile, PlannedJob

JOBS = ("jobs",)

Admit = Callable[[Sequence[PlannedJob], Sequence[InputFile]], None]


class Submission(Section):
    """The content of a YAML file of jobs: a list `jobs`, with the keys of jobs in a scenario file."""

    jobs: Annotated[list[JobModel], Field(min_length=1)]


class RunningCluster(Protocol):
    """The protocol of the methods of a running cluster (`deploy.live.live_session`) that `Desk` calls."""

    @property
    def duration_s(self) -> float: ...

    def upload(self, file: InputFile) -> None: ...
    def submit(self, jobs: Sequence[PlannedJob]) -> dict[str, float]: ...
    def change(self, given: Mapping[str, Any]) -> None: ...


class Desk:
    """Accepts jobs for the running cluster `session`. Several threads may call the methods at the same time.

    Jobs may use only the queues that `policy` has, if they are fixed. `scenario` has all jobs and changes of the policy
    at their actual times, so that a run of it repeats them. The event `changed` is set after each.
    """

    def __init__(
        self, scenario: ResolvedScenario, session: RunningCluster, policy: Policy | None = None
    ) -> None:
        self.scenario = scenario
        self.jobs = {job.job: job for job in scenario.jobs}
        self.changed = threading.Event()
        self._session = session
        self._policy = policy
        self._model = Scenario.model_validate(scenario.given)
        self._lock = threading.Lock()
        self._number = len(scenario.jobs)
        self._files = {file.path: file for file in scenario.inputs}
        self._known: dict[tuple[object, ...], str] = {}
        self._uploads: dict[str, Future[None]] = {}
        for path in self._files:
            self._uploads[path] = Future()
            self._uploads[path].set_result(None)
        self._busy = 0
        self._closed = False

    @property
    def busy(self) -> bool:
        """Return whether jobs are being submitted."""
        return self._busy > 0

    def close(self) -> None:
        with self._lock:
            self._closed = True

    def take(self, request: Mapping[str, Any]) -> tuple[PlannedJob, ...]:
        """Submit the jobs of a client's request, and return them with their submit times.

        The request has `jobs` (a list), or `text` (YAML) and `file` (its name), and `base`, the folder of
        relative file names, and `user`, for jobs without one. Raises BadInput if a job is wrong, RunFailed if
        none can be accepted.
        """
        return self.take_document(jobs_document(request), Path(str(request.get("base") or ".")))

    def take_document(
        self, document: Document, base: Path, admit: Admit | None = None
    ) -> tuple[PlannedJob, ...]:
        """Submit a document's jobs, with input files relative to `base`. Return them with submit times.

        Before any upload, `admit` gets the planned jobs and their new input files, and may refuse them by an
        exception. Raises BadInput if a job is wrong, RunFailed if none can be accepted.
        """
        with self._counted():
            with self._lock:
                planned = self._plan(document, base, admit)
            try:
                for path in dict.fromkeys(path for job in planned for path in job.reads):
                    self._upload(path)
                times = self._session.submit(planned)
            except (BlockStoreError, MasterGone) as error:
                raise RunFailed(f"not submitted: {error}") from None
            with self._lock:
                return self._note(document, base, planned, times)

    def change(self, request: Mapping[str, Any]) -> float:
        """Give the policy the new values of parameters in a request now. Return the time since the run's start.

        The request has the keys of an entry of a scenario's `changes`. Raises BadInput for values that the policy
        cannot have, RunFailed if the cluster does not answer.
        """
        with self._lock:
            now_s = self._session.duration_s
            entry = {**request, "at": now_s / self.scenario.scale}
            given = check_as(Change, from_values(entry, "change"), "at").given
            apply_change([] if self.scenario.policies[0].is_own else [self._policy], given)
            try:
                self._session.change(given)
            except MasterGone as error:
                raise RunFailed(f"not changed: {error}") from None
            self.scenario = replace(
                self.scenario,
                changes=(*self.scenario.changes, PolicyChange(now_s, given)),
                given={**self.scenario.given, "changes": [*self.scenario.given.get("changes", ()), entry]},
            )
            self.changed.set()
            return now_s

    @contextmanager
    def _counted(self) -> Iterator[None]:
        with self._lock:
            if self._closed:
                raise RunFailed("the cluster goes down and takes no more jobs")
            self._busy += 1
        try:
            yield
        finally:
            with self._lock:
                self._busy -= 1

    def _plan(self, document: Document, base: Path, admit: Admit | None) -> tuple[PlannedJob, ...]:
        jobs = check_as(Submission, document, "jobs").jobs
        complaints = Complaints(document)
        files, known = dict(self._files), dict(self._known)
        inputs = JobInputs(self._model, self.scenario.cluster, base, complaints, files, known)
        planned = plan_jobs(jobs, inputs, JOBS, self._number + 1)
        queues = closed_queues(self._policy)
        for index, job in enumerate(jobs):
            if queues and job.queue not in queues:
                message = f"{job.queue!r} is no queue of the policy, expected one of {', '.join(queues)}"
                complaints.add((*JOBS, index, "queue"), message)
        check_rigid(self.scenario.policies, planned, self.scenario.cluster, JOBS, complaints)
        complaints.raise_if_any()
        if admit is not None:
            admit(planned, [file for path, file in files.items() if path not in self._files])
        self._files, self._known = files, known
        self._number += len(planned)
        return planned

    def _upload(self, path: str) -> None:
        """Upload a file, or wait for the thread that does.

        If it fails, all waiting threads raise the error, and the next call tries again.
        """
        with self._lock:
            upload = self._uploads.get(path)
            mine = upload is None
            if upload is None:
                upload = self._uploads[path] = Future()
        if not mine:
            upload.result()
            return
        try:
            self._session.upload(self._files[path])
        except BaseException as error:
            with self._lock:
                del self._uploads[path]
            upload.set_exception(error)
            raise
        upload.set_result(None)

    def _note(
        self, document: Document, base: Path, planned: Sequence[PlannedJob], times: Mapping[str, float]
    ) -> tuple[PlannedJob, ...]:
        """Add submitted jobs, planned from the document's entries, to `scenario`. Return them with actual times."""
        came_s = min(times[job.job] - job.submit_s for job in planned)
        timed = tuple(
            replace(
                job,
                submit_s=times[job.job],
                deadline_s=None if job.deadline_s is None else job.deadline_s - job.submit_s + times[job.job],
            )
            for job in planned
        )
        jobs = sorted((*self.scenario.jobs, *timed), key=lambda job: (job.submit_s, *id_key(job.job)))
        read = {file.path for file in self.scenario.inputs}
        read |= {path for job in planned for path in job.reads}
        given = dict(self.scenario.given)
        workload = given.get("workload") or {"jobs": []}
        if "jobs" in workload:  # A trace or a suite cannot be extended.
            entries = [_entry(entry, came_s / self.scenario.scale, base) for entry in document.value["jobs"]]
            given["workload"] = {"jobs": [*workload["jobs"], *entries]}
        self.scenario = replace(
            self.scenario,
            jobs=tuple(jobs),
            inputs=tuple(file for path, file in self._files.items() if path in read),
            given=given,
        )
        self.jobs.update((job.job, job) for job in timed)
        self.changed.set()
        return timed


def jobs_document(request: Mapping[str, Any]) -> Document:
    """Return a request's jobs, with its user for those without one, and lines if they are YAML text."""
    if "text" in request:
        document = load_text(str(request["text"]), str(request.get("file") or "jobs"))
    else:
        document = from_values({"jobs": request.get("jobs")}, "submit")
    entries = document.value.get("jobs") if isinstance(document.value, dict) else None
    for entry in entries if isinstance(entries, list) else ():
        if isinstance(entry, dict) and request.get("user"):
            entry.setdefault("user", str(request["user"]))
    return document


def _entry(entry: Mapping[str, Any], came_s: float, base: Path) -> dict[str, Any]:
    """Return an entry of a scenario file that submits the same job at the same time, with absolute paths."""
    again = dict(entry)
    again["submit"] = round(JobModel.model_validate(entry).submit + came_s, 3)
    if isinstance(entry.get("input"), str):
        again["input"] = str((base / Path(entry["input"]).expanduser()).resolve())
    if is_own(str(entry.get("app"))):
        again["folder"] = str((base / Path(entry.get("folder") or ".").expanduser()).resolve())
    return again
