"""Python client of a cluster that stays up: submit jobs, read their states and outputs, inject faults.

Several users and processes may use a cluster at the same time. Requests are JSON over HTTP to the cluster's
API on the loopback interface. The cluster's owner gets the API's address and token from a private file; other
users pass the address and a token that the owner gave to them.
"""

from __future__ import annotations

import getpass
import json
import os
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from schedbed.deploy.display.display import ENDED
from schedbed.deploy.failures import RunFailed
from schedbed.deploy.service.cluster_files import ClusterRecord, clusters, find, has_ended
from schedbed.tasks.errors import BadInput
from schedbed.tasks.plain_file import is_plain_file

CLUSTER_VARIABLE, TOKEN_VARIABLE = "SCHEDBED_CLUSTER", "SCHEDBED_TOKEN"
LOOPBACK = ("127.0.0.1", "localhost")
LOOK_S = 0.5
# A submission is answered when its input has been uploaded.
ANSWER_S = 600.0
PIECE_BYTES = 1 << 20

Json = dict[str, Any]


def connect(name: str | None = None, *, token: str | None = None, patience_s: float = 30.0) -> Cluster:
    """Return a client of this user's cluster with the given name, or of the only cluster that is up.

    To use a cluster of another user, pass the address of its API as `name`, and the token from its owner as
    `token`. A missing `name` or `token` is read from SCHEDBED_CLUSTER or SCHEDBED_TOKEN in the environment.
    If a cluster of this user stops answering, the client waits up to `patience_s` seconds for it to end.
    Raises BadInput if there is no such cluster, RunFailed if the cluster ended without `down`.
    """
    name = name or os.environ.get(CLUSTER_VARIABLE) or None
    if name is None or "://" not in name:
        return Cluster(find(name), patience_s=patience_s)
    address, token = _checked_address(name), token or os.environ.get(TOKEN_VARIABLE)
    if not token:
        raise BadInput(f"{name}: expected the token that the cluster's owner gave you in {TOKEN_VARIABLE}")
    return Cluster(
        ClusterRecord(
            name=address,
            url=address,
            token=token,
            pid=0,
            out="",
            policy="",
            machines="",
            started="",
        ),
        is_owner=False,
    )


def _checked_address(url: str) -> str:
    """Return the address of an API without a slash at its end.

    Raises BadInput unless the address is on the loopback interface, since a token must not cross a network
    unencrypted.
    """
    parts = urllib.parse.urlsplit(url)
    try:
        is_local = parts.scheme == "http" and parts.hostname in LOOPBACK and parts.port is not None
    except ValueError:  # The port is invalid.
        is_local = False
    if not is_local or parts.path not in ("", "/") or parts.query or parts.fragment:
        hint = "of another host by: ssh -N -L PORT:127.0.0.1:PORT HOST"
        raise BadInput(f"{url}: expected http://127.0.0.1:PORT, {hint}")
    return url.rstrip("/")


class Cluster:
    """A client of one cluster.

    Methods raise BadInput if the cluster refuses a request as wrong, and RunFailed if the cluster fails, ends
    or does not answer. A cluster that does not answer is probably about to end. The client of its owner then
    waits up to `patience_s` seconds for the end, so that the exception can include the cause.
    """

    def __init__(self, record: ClusterRecord, *, patience_s: float = 30.0, is_owner: bool = True) -> None:
        self.record = record
        self.is_owner = is_owner
        self._patience_s = patience_s
        # Proxies of the environment are ignored, since the API is on the loopback interface.
        self._open = urllib.request.build_opener(urllib.request.ProxyHandler({})).open

    @property
    def name(self) -> str:
        """Return the cluster's name."""
        return self.record.name

    def submit(self, job: Mapping[str, Any], *, base: Path | str | None = None) -> SubmittedJob:
        """Submit a job, and return it once the cluster has accepted it.

        `job` is a mapping with the keys of a job in a scenario file, for example `app` and `input`. Its key
        `submit` is a delay after which the job is submitted; the default is no delay. Names of input files
        are relative to the folder `base`, by default the working folder.
        """
        return self.submit_all([job], base=base)[0]

    def submit_all(
        self, jobs: Sequence[Mapping[str, Any]], *, base: Path | str | None = None
    ) -> list[SubmittedJob]:
        """Submit several jobs in one request, and return them in order of submission.

        Each job is a mapping as for `submit`. A mapping with the key `count` becomes that number of jobs.
        """
        return self._submit({"jobs": [dict(job) for job in jobs]}, base)

    def submit_file(self, path: Path | str) -> list[SubmittedJob]:
        """Submit the jobs that a YAML file lists under `jobs:`, and return them in order of submission.

        Names of input files are relative to the file's folder.
        """
        path = Path(path)
        if path.exists() and not is_plain_file(path):
            raise BadInput(f"{path}: cannot read these jobs: not a regular file")
        try:
            text = path.read_bytes().decode("utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise BadInput(f"{path}: cannot read these jobs: {error}") from None
        return self._submit({"text": text, "file": str(path)}, path.parent)

    def _submit(self, what: Json, base: Path | str | None) -> list[SubmittedJob]:
        folder = Path(base or ".").resolve()
        about: Json = {"base": str(folder), "user": getpass.getuser()}
        if not self.is_owner:
            about = {"files": _files_named(what, folder)}
        return [SubmittedJob(self, told["job"]) for told in self._call("POST", "/jobs", what | about)["jobs"]]

    def job(self, job: str) -> SubmittedJob:
        """Return the job with the id `job`, such as `job_0001`. Raises BadInput if there is no such job."""
        self._call("GET", f"/jobs/{job}")
        return SubmittedJob(self, job)

    def status(self) -> Json:
        """Return the status of the cluster, its nodes, users and jobs, as JSON values."""
        return self._call("GET", "/status")

    def fault(self, fault: Mapping[str, Any]) -> Json:
        """Inject a fault now, and return the kind, target, start time and end time of the fault.

        `fault` is a mapping with the keys of a fault in a scenario file, for example `{"kill": "n3"}`.
        """
        return self._call("POST", "/faults", {"fault": dict(fault)})

    def change(self, parameters: Mapping[str, Any]) -> float:
        """Change parameters of the policy now, and return the time in seconds since the cluster's start.

        `parameters` has the keys of an entry of `changes` in a scenario file, for example
        `{"accounts": {"ana": {"bid": 5}}}`.
        """
        return self._call("POST", "/changes", dict(parameters))["t"]

    def down(self, *, wait: bool = False) -> Path:
        """Shut the cluster down, and return the folder of its results.

        If `wait` is True, the cluster first waits for all jobs to end. Otherwise running jobs are killed.
        """
        self._call("POST", "/down", {"wait": wait})
        if not self.is_owner:
            raise RunFailed(f"{self.name}: goes down, its owner has the results")
        while not has_ended(self.record):
            time.sleep(LOOK_S)
        gone = clusters()[1]
        if self.name in gone:
            raise RunFailed(gone[self.name])
        return Path(self.record.out)

    def users(self) -> list[Json]:
        """Return all users who have a token, each with the quota, its used part, and other settings."""
        return self._call("GET", "/users")["users"]

    def add_user(self, user: str, **settings: Any) -> Json:
        """Add a user, and return the user's settings with the new `token`, which cannot be read again later.

        `settings` are the largest number of `jobs`, of their `tasks` and of `input_bytes`, and whether the
        user may submit code of their own (`own_code`).
        """
        return self._call("PUT", _user_path(user), _given(settings))

    def set_user(self, user: str, **settings: Any) -> Json:
        """Change the settings of a user, and return all settings of the user.

        The settings are those of `add_user`, and `new_token=True`, which replaces the token.
        """
        return self._call("POST", _user_path(user), _given(settings))

    def remove_user(self, user: str) -> None:
        """Remove a user. The user's token becomes invalid, but jobs that the user has submitted continue."""
        self._call("DELETE", _user_path(user))

    # ------------------------------------------------------------------------------------------------ the wire

    def _call(self, method: str, path: str, body: Json | None = None) -> Json:
        with self._request(method, path, body) as answer:
            return json.load(answer)

    @contextmanager
    def _request(self, method: str, path: str, body: Json | None = None) -> Iterator[BinaryIO]:
        request = urllib.request.Request(
            self.record.url + path,
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Authorization": f"Bearer {self.record.token}", "Content-Type": "application/json"},
        )
        try:
            with self._open(request, timeout=ANSWER_S) as answer:
                yield answer
        except urllib.error.HTTPError as error:
            raise _refusal(error) from None
        except (OSError, ValueError) as error:
            raise self._silence(error) from None

    def _silence(self, error: Exception) -> Exception:
        """Return the exception to raise for a request that the cluster did not answer.

        `error` is the exception of that request. If the client belongs to the cluster's owner, first wait for
        the end of the cluster, so that the result can describe the cause.
        """
        if not self.is_owner:
            return RunFailed(
                f"the cluster at {self.name} does not answer ({error}): is it up, is the port forwarded?"
            )
        give_up_s = time.monotonic() + self._patience_s
        while not has_ended(self.record):
            if time.monotonic() > give_up_s:
                return RunFailed(f"cluster {self.name} does not answer: {error}")
            time.sleep(LOOK_S)
        return RunFailed(
            clusters()[1].get(self.name, f"cluster {self.name} is down, results in {self.record.out}")
        )


class SubmittedJob:
    """A job that was submitted to a cluster, with methods to read its state and outputs."""

    def __init__(self, cluster: Cluster, job: str) -> None:
        self._cluster = cluster
        self.job = job

    def status(self) -> Json:
        """Return the job's name, user, queue, state, numbers of tasks, and submit and finish time (s)."""
        return self._cluster._call("GET", f"/jobs/{self.job}")

    @property
    def state(self) -> str:
        """Return the job's state: waiting, running, succeeded, failed, killed or timeout.

        A job is waiting until its submit time.
        """
        return self.status()["state"]

    def wait(self, timeout_s: float | None = None) -> str:
        """Wait until the job ends and return its final state. Raises TimeoutError after `timeout_s` seconds."""
        end_s = None if timeout_s is None else time.monotonic() + timeout_s
        while (state := self.state) not in ENDED:
            if end_s is not None and time.monotonic() > end_s:
                raise TimeoutError(f"{self.job} is still {state} after {timeout_s:g} s")
            time.sleep(LOOK_S)
        return state

    def kill(self) -> None:
        """Kill the job. If the job has ended, nothing happens."""
        self._cluster._call("POST", f"/jobs/{self.job}/kill", {})

    def parts(self) -> dict[str, int]:
        """Return a dictionary from the name of each committed output part to its length in bytes.

        The parts of a job's output have names such as `part-00000`.
        """
        return self._cluster._call("GET", f"/jobs/{self.job}/outputs")["parts"]

    def outputs(self) -> dict[str, bytes]:
        """Return a dictionary from the name of each committed output part to its content."""
        return {part: b"".join(self._read(part, length)) for part, length in self.parts().items()}

    def save(self, folder: Path | str) -> list[Path]:
        """Copy the committed parts of the job's output to `folder/<job>/part-NNNNN`. Return the paths."""
        saved = []
        for part, length in self.parts().items():
            path = Path(folder) / self.job / part
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("wb") as file:
                file.writelines(self._read(part, length))
            saved.append(path)
        return saved

    def _read(self, part: str, length: int) -> Iterator[bytes]:
        with self._cluster._request("GET", f"/jobs/{self.job}/outputs/{part}") as answer:
            while piece := answer.read(PIECE_BYTES):
                length -= len(piece)
                yield piece
        if length:
            raise RunFailed(f"{self.job}: {part} ended {length} bytes early")


def wait_for(jobs: Iterable[SubmittedJob], on_end: Callable[[SubmittedJob, Json], None]) -> bool:
    """Wait until all jobs have ended, and return whether all succeeded.

    When a job ends, `on_end` is called with the job and its status.
    """
    left, well = list(jobs), True
    while left:
        for job in list(left):
            status = job.status()
            if status["state"] in ENDED:
                left.remove(job)
                well = well and status["state"] == "succeeded"
                on_end(job, status)
        if left:
            time.sleep(LOOK_S)
    return well


def _files_named(what: Json, folder: Path) -> dict[str, str]:
    """Return the files in `folder` that jobs use as input or code, encoded for a request.

    `what` is the part of the request that describes the jobs.
    """
    from schedbed.deploy.service.job_intake import jobs_document
    from schedbed.deploy.service.users.sent_files import pack_files

    value = jobs_document(what).value
    return pack_files(value.get("jobs") if isinstance(value, dict) else (), folder)


def _user_path(user: str) -> str:
    return f"/users/{urllib.parse.quote(user, safe='')}"


def _given(settings: Json) -> Json:
    return {key: value for key, value in settings.items() if value is not None}


def _refusal(error: urllib.error.HTTPError) -> Exception:
    """Convert an HTTP error answer to an exception: BadInput if the request was wrong, else RunFailed."""
    try:
        line = str(json.load(error)["error"])
    except (OSError, ValueError, KeyError, TypeError):
        line = f"{error.code} {error.reason}"
    return BadInput(line) if error.code in (400, 404, 413) else RunFailed(line)
