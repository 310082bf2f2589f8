"""A cluster that stays up, from Python: `connect()` finds it, jobs go in, states and outputs come out.

For several users and processes at once. Speaks JSON to the service's API on the loopback interface.
"""

from __future__ import annotations

import getpass
import json
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from schedbed.deploy.display.display import ENDED
from schedbed.deploy.failures import RunFailed
from schedbed.deploy.service.cluster_files import ClusterRecord, clusters, find, has_ended
from schedbed.tasks.errors import BadInput

LOOK_S = 0.5
ANSWER_S = 600.0  # a submission is answered when its input has been uploaded
PIECE_BYTES = 1 << 20

Json = dict[str, Any]


def connect(name: str | None = None) -> Cluster:
    """Return the cluster of this user with that name, or the only one that is up.

    Raises BadInput when there is none, RunFailed when it has gone by itself.
    """
    return Cluster(find(name))


class Cluster:
    """A client of one cluster. What the service refuses is raised as it would be by `run`: BadInput, RunFailed.

    One that does not answer is most likely about to end: so long it is given to do so, and to leave word of why.
    """

    def __init__(self, record: ClusterRecord, *, patience_s: float = 30.0) -> None:
        self.record = record
        self._patience_s = patience_s
        # No proxy of the environment is asked for what lies on the loopback interface.
        self._open = urllib.request.build_opener(urllib.request.ProxyHandler({})).open

    @property
    def name(self) -> str:
        """Return the cluster's name."""
        return self.record.name

    def submit(self, job: Mapping[str, Any], *, base: Path | str | None = None) -> SubmittedJob:
        """Submits a job, as an entry of a scenario's `jobs`; returns when it is in.

        Its submit time is now, a `submit` counts from now, a file of its input is looked for from `base` or here.
        """
        return self.submit_all([job], base=base)[0]

    def submit_all(
        self, jobs: Sequence[Mapping[str, Any]], *, base: Path | str | None = None
    ) -> list[SubmittedJob]:
        """Submits jobs together; one for each copy that `count` asks for, in order of submission."""
        return self._submit({"jobs": [dict(job) for job in jobs]}, base)

    def submit_file(self, path: Path | str) -> list[SubmittedJob]:
        """Submits the jobs of a YAML file with `jobs:`; files that they read are looked for beside it."""
        path = Path(path)
        try:
            text = path.read_bytes().decode("utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise BadInput(f"{path}: cannot read these jobs: {error}") from None
        return self._submit({"text": text, "file": str(path)}, path.parent)

    def _submit(self, what: Json, base: Path | str | None) -> list[SubmittedJob]:
        about = {"base": str(Path(base or ".").resolve()), "user": getpass.getuser()}
        return [SubmittedJob(self, told["job"]) for told in self._call("POST", "/jobs", what | about)["jobs"]]

    def job(self, job: str) -> SubmittedJob:
        """Return a job by its id; BadInput when there is none."""
        self._call("GET", f"/jobs/{job}")
        return SubmittedJob(self, job)

    def status(self) -> Json:
        """Return the cluster, its nodes, users and jobs, as the status command shows them."""
        return self._call("GET", "/status")

    def fault(self, fault: Mapping[str, Any]) -> Json:
        """Applies a fault now, as an entry of a scenario's `faults` without `at`; what has begun."""
        return self._call("POST", "/faults", {"fault": dict(fault)})

    def down(self, *, wait: bool = False) -> Path:
        """Ends the cluster in order, with `wait` when its jobs have ended; returns the folder with its results."""
        self._call("POST", "/down", {"wait": wait})
        while not has_ended(self.record):
            time.sleep(LOOK_S)
        gone = clusters()[1]
        if self.name in gone:
            raise RunFailed(gone[self.name])
        return Path(self.record.out)

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
        """Return what is to be said of a cluster that does not answer."""
        give_up_s = time.monotonic() + self._patience_s
        while not has_ended(self.record):
            if time.monotonic() > give_up_s:
                return RunFailed(f"cluster {self.name} does not answer: {error}")
            time.sleep(LOOK_S)
        return RunFailed(
            clusters()[1].get(self.name, f"cluster {self.name} is down, results in {self.record.out}")
        )


class SubmittedJob:
    """A job of a cluster that stays up."""

    def __init__(self, cluster: Cluster, job: str) -> None:
        self._cluster = cluster
        self.job = job

    def status(self) -> Json:
        """Return its name, user, queue, state, counts of tasks, submit and finish time."""
        return self._cluster._call("GET", f"/jobs/{self.job}")

    @property
    def state(self) -> str:
        """Return waiting (for its submit time), running, succeeded, failed or killed."""
        return self.status()["state"]

    def wait(self, timeout_s: float | None = None) -> str:
        """Return the state in which the job has ended; raise TimeoutError when it has not after `timeout_s` seconds."""
        end_s = None if timeout_s is None else time.monotonic() + timeout_s
        while (state := self.state) not in ENDED:
            if end_s is not None and time.monotonic() > end_s:
                raise TimeoutError(f"{self.job} is still {state} after {timeout_s:g} s")
            time.sleep(LOOK_S)
        return state

    def kill(self) -> None:
        """Ends it; nothing happens when it has ended."""
        self._cluster._call("POST", f"/jobs/{self.job}/kill", {})

    def parts(self) -> dict[str, int]:
        """Return the committed parts of its output with their lengths in bytes."""
        return self._cluster._call("GET", f"/jobs/{self.job}/outputs")["parts"]

    def outputs(self) -> dict[str, bytes]:
        """Return the committed parts of its output."""
        return {part: b"".join(self._read(part, length)) for part, length in self.parts().items()}

    def save(self, folder: Path | str) -> list[Path]:
        """Copies the committed parts to folder/<job>/part-NNNNN; their paths."""
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
    """Waits until all have ended, telling of each; whether all have succeeded."""
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


def _refusal(error: urllib.error.HTTPError) -> Exception:
    """Return what the service says that is wrong, as the exception that a run in this process would raise."""
    try:
        line = str(json.load(error)["error"])
    except (OSError, ValueError, KeyError, TypeError):
        line = f"{error.code} {error.reason}"
    return BadInput(line) if error.code in (400, 404, 413) else RunFailed(line)
