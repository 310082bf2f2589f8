"""The process of a cluster that stays up: a live run without a planned end, and the API to it.

`deploy.service.start` starts it as `python -m schedbed.deploy.service.service`, with a JSON line on standard
input. It answers with a line on standard output, {"ready": ...} or {"error": ..., "code": ...}, and then
writes to a log.
"""

from __future__ import annotations

import json
import logging
import os
import secrets
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack, suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, ClassVar

import yaml

from schedbed.cluster.masters import MasterGone
from schedbed.deploy.display.display import ENDED
from schedbed.deploy.failures import RunFailed, port_told
from schedbed.deploy.live.fault_injector import FaultInjector
from schedbed.deploy.live.hand_controls import inject_by_hand
from schedbed.deploy.live.job_outputs import Outputs
from schedbed.deploy.live.live_runs import LiveRuns
from schedbed.deploy.live.live_session import OnStatus, Session
from schedbed.deploy.live.ray_cluster import RayCluster
from schedbed.deploy.options import RunOptions
from schedbed.deploy.results.runfile import RunRecord
from schedbed.deploy.scenario.inputs import filler_path
from schedbed.deploy.scenario.resolved import ResolvedScenario
from schedbed.deploy.service.api import Api
from schedbed.deploy.service.cluster_files import (
    LOG,
    RECORD,
    ClusterRecord,
    claimed,
    mark_failed,
    write_record,
)
from schedbed.deploy.service.job_intake import Desk
from schedbed.deploy.service.service_status import JobStates, picture, with_faults
from schedbed.deploy.service.start import StartOrder
from schedbed.deploy.service.users.quota_ledger import QuotaLedger
from schedbed.deploy.service.users.user_book import TokenUser, UserBook, change_of
from schedbed.deploy.service.users.user_desk import UserDesk
from schedbed.deploy.signals import terminations_interrupt
from schedbed.deploy.whole_run import run_scenario
from schedbed.tasks.errors import BadInput

log = logging.getLogger(__name__)

SEEN_BY_USERS = ("name", "policy", "machines", "started", "state")
KILL_S = 20.0  # Time for killed attempts to end during a shutdown.
SAVE_S = 3.0
SCENARIO = "scenario.yaml"
FAILED, BAD_INPUT, INTERRUPTED = 1, 2, 130

Json = dict[str, Any]
Ready = Callable[[ClusterRecord], None]


class ClusterService:
    """The operations of a running cluster, called by the API from several threads; the run is in the main one."""

    def __init__(
        self,
        about: Mapping[str, Any],
        desk: Desk,
        session: Session,
        faults: FaultInjector,
        users: Iterable[TokenUser] = (),
    ) -> None:
        self._about = about
        self._desk = desk
        self.book = UserBook(users)
        self._ledger = QuotaLedger()
        self._user_desk = UserDesk(desk, self._ledger, Path(about["out"]))
        self._session = session
        self._faults = faults
        self._states = JobStates()
        self._down: str | None = None  # "now" or "wait".
        self._quiet = False  # No submission was in progress at the last call of `over`.
        self._killed_s: float | None = None

    # For the API

    def status(self, user: TokenUser | None = None) -> Json:
        """Return the status of the cluster, its nodes, users and jobs.

        For a `user`, it has the quota and its used part, but no paths of the owner's host.
        """
        about = {**self._about, "state": "up" if self._down is None else "going down"}
        if user is not None:
            about = {key: about[key] for key in SEEN_BY_USERS} | {"you": self._with_use(user)}
        status = self._session.last_status
        nodes = with_faults(status["nodes"], self._faults.in_force(), self._session.duration_s)
        return picture(about, {**status, "nodes": nodes}, self._desk.scenario.jobs, self._states)

    def job(self, job: str) -> Json:
        """Return the status of the job with the id `job`. Raises BadInput if there is no such job."""
        planned = self._desk.jobs.get(job)
        if planned is None:
            raise BadInput(f"no job {job!r} on cluster {self._about['name']}")
        return self._states.of(planned)

    def users(self) -> list[Json]:
        """Return users with a token, their quotas and the used parts."""
        return [self._with_use(user) for user in self.book]

    def _with_use(self, user: TokenUser) -> Json:
        return user.shown() | {"use": self._ledger.use(user.name)}

    def change_user(self, name: str, request: Json, *, is_new: bool) -> Json:
        """Add a user or change settings. Return the settings, with the token if it is new."""
        change = change_of(request)
        token = self.book.add(name, change) if is_new else self.book.set(name, change)
        return self._with_use(self.book.find(name)) | ({} if token is None else {"token": token})

    def submit(self, request: Json, user: TokenUser | None = None) -> list[str]:
        """Submit a request's jobs (of the owner without `user`). Return their ids.

        Raises BadInput, Denied or RunFailed if they are refused.
        """
        jobs = self._desk.take(request) if user is None else self._user_desk.take(request, user)
        return [job.job for job in jobs]

    def kill(self, job: str) -> None:
        self._session.kill([job], "killed by its user")

    def fault(self, fault: Any) -> Json:
        """Inject a fault, with the keys of a scenario file, now or at `at`. Return the planned fault."""
        return inject_by_hand(fault, self._desk.scenario, self._session.duration_s, self._faults)

    def change(self, request: Json) -> Json:
        """Change parameters of the policy, with the keys of an entry of `changes`. Return the time."""
        return {"t": self._desk.change(request)}

    def down(self, wait: bool) -> None:
        """Refuse further jobs, and shut down at once, or after all jobs if `wait`."""
        self._desk.close()
        if self._down != "now":
            self._down = "wait" if wait else "now"

    def outputs(self) -> Outputs:
        """Return a reader of job outputs in the block store."""
        return self._session.outputs()

    # For the session

    def seen(self, on_status: OnStatus) -> OnStatus:
        """Pass statuses on to `on_status`, except those of an idle cluster, which would fill the log.

        When a synthetic job ends, its generated input is deleted, to save disk space.
        """
        was_idle = False

        def see(status: Json) -> None:
            nonlocal was_idle
            for job in self._states.take(status):
                self._session.forget(filler_path(job))
                self._ledger.end(job, filler_path(job))
            idle = all(job["state"] in ENDED for job in status["jobs"])
            if not (idle and was_idle):
                on_status(status)
            was_idle = idle

        return see

    def over(self, ended: bool) -> bool:
        """Return whether the run must end now; `ended` tells that all jobs have. Jobs not waited for are killed."""
        if self._down is None:
            return False
        was_quiet, self._quiet = self._quiet, not self._desk.busy
        if ended and was_quiet:  # `ended` covers every accepted job.
            return True
        if self._down == "now" and self._killed_s is None:
            try:
                self._session.kill(None, "the cluster goes down")
            except MasterGone:
                return True  # It has not answered for a minute.
            self._killed_s = time.monotonic()
        return self._killed_s is not None and time.monotonic() > self._killed_s + KILL_S


class PageDesk:
    """The operations that the buttons of the live page may request from a cluster that stays up."""

    def __init__(self, service: ClusterService) -> None:
        self._service = service
        self.submit, self.fault = service.submit, service.fault

    def kill(self, job: str) -> None:
        """Kill a job. Raises BadInput if there is no such job."""
        self._service.kill(self._service.job(job)["job"])


class ClusterRuns(LiveRuns):
    """The single run of a cluster that stays up: it has the API, accepts jobs, and ends on request."""

    SUBMITS: ClassVar[bool] = True
    PART_EVERY_S = 30.0  # Fewer part files, for clusters that are up for days.

    def __init__(
        self, scenario: ResolvedScenario, options: RunOptions, order: StartOrder, place: Path, ready: Ready
    ) -> None:
        super().__init__(scenario, options)
        self._order, self._place, self._ready = order, place, ready

    def _follow(self, cluster: RayCluster, session: Session, on_status: OnStatus) -> None:
        faults = self._faults(cluster)
        choice = self._scenario.policies[0]
        policy = choice.build(scale=self._scenario.scale, store=self._scenario.profiles.store)
        desk = Desk(self._scenario, session, policy)
        record = ClusterRecord(
            name=self._order.name,
            pid=os.getpid(),
            url="",
            token=secrets.token_hex(32),
            out=str(self._folder.resolve()),
            policy=choice.spec,
            machines=self._options.machines,
            started=self._record.wall_start,
            doors=self.doors,
        )
        about = {key: value for key, value in asdict(record).items() if key not in ("token", "url", "failed")}
        service = ClusterService(about, desk, session, faults, self._order.users)
        saved_s = 0.0
        if self._watch is not None:
            self._watch.controls = PageDesk(service)
            self._watch.show_to(lambda token: service.book.who(token) is not None)

        def over(ended: bool) -> bool:
            nonlocal saved_s
            if desk.changed.is_set() and time.monotonic() > saved_s + SAVE_S:
                self._save(desk)
                saved_s = time.monotonic()
            if not (
                self._place / RECORD
            ).exists():  # Removed, perhaps by a logout: no client can find the cluster.
                service.down(wait=False)
            return service.over(ended)

        try:
            with ExitStack() as stack:
                with port_told("--api", self._order.api):
                    api = stack.enter_context(
                        Api(service, record.token, self._options.ports, port=self._order.api)
                    )
                self._check_listeners(cluster, session)
                record = replace(record, url=api.url)
                write_record(self._place, record)
                self._ready(record)
                session.follow(faults, service.seen(on_status), over)
        finally:
            desk.close()
            self._save(desk)

    def _save(self, desk: Desk) -> None:
        """Write all submitted jobs to run.json, and to a scenario file with which they can be repeated."""
        desk.changed.clear()
        self._record.scenario = desk.scenario.to_json()
        self._record.save(self._folder)
        if desk.scenario.given.get("workload"):
            text = yaml.safe_dump(dict(desk.scenario.given), sort_keys=False)
            (self._folder / SCENARIO).write_text(text, encoding="utf-8")

    def _judge(self, record: RunRecord, session: Session) -> None:
        """Judge the run as succeeded even if jobs failed, since it ended on request."""
        record.state = "succeeded"


def serve(order: StartOrder, ready: Ready, *, live: bool = False, to_log: bool = False) -> Path:
    """Run a cluster until a client shuts it down. Return the folder of results.

    `ready` is called when it accepts jobs. With `live`, the run is shown on the terminal; with `to_log`,
    output goes to the cluster's log. Raises BadInput for wrong settings, RunFailed if the cluster fails, and
    KeyboardInterrupt.
    """
    options = RunOptions(
        out=order.out,
        machines=order.machines,
        address=order.address,
        tls=order.tls,
        ports=order.ports,
        keep_outputs=order.keep_outputs,
        private=order.private,
        webhdfs=order.webhdfs,
        metrics=order.metrics,
        web=order.web,
        read_only=order.read_only,
        live=live,
        check=False,
    )
    scenario = replace(order.scenario, policies=order.scenario.policies[:1], repeats=1)
    with claimed(order.name) as place:
        if to_log:
            _write_to_log(place / LOG)
        try:
            return run_scenario(scenario, options, lambda s, o: ClusterRuns(s, o, order, place, ready))
        except Exception as error:
            mark_failed(
                place, str(error) if isinstance(error, RunFailed) else f"{type(error).__name__}: {error}"
            )
            raise


def _write_to_log(path: Path) -> None:
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    for stream in (1, 2):
        os.dup2(file, stream)
    os.close(file)


class _Answer:
    """Sends at most one line to the process that started the service, if that process still runs."""

    def __init__(self) -> None:
        self._pipe: int | None = os.dup(1)

    def __call__(self, said: Json) -> None:
        pipe, self._pipe = self._pipe, None
        if pipe is not None:
            with suppress(BrokenPipeError):
                os.write(pipe, (json.dumps(said) + "\n").encode())
            os.close(pipe)


def main() -> int:
    """Run a cluster with settings from standard input. Return the exit code.

    One line on standard output tells the starting process that it accepts jobs or has failed.
    """
    terminations_interrupt()
    logging.basicConfig(format="%(asctime)s %(levelname)s %(name)s: %(message)s", level=logging.WARNING)
    answer = _Answer()
    try:
        order = StartOrder.from_line(sys.stdin.readline())
        with Path(os.devnull).open() as nothing:
            os.dup2(nothing.fileno(), 0)
        serve(order, lambda record: answer({"ready": asdict(record)}), to_log=True)
        return 0
    except BadInput as error:
        code, line = BAD_INPUT, str(error)
    except RunFailed as error:
        code, line = FAILED, str(error)
    except KeyboardInterrupt:
        code, line = INTERRUPTED, "interrupted"
    except Exception as error:
        log.exception("the service failed")
        code, line = FAILED, f"{type(error).__name__}: {error}"
    print(f"schedbed: {line}", file=sys.stderr)
    answer({"error": line, "code": code})
    return code


if __name__ == "__main__":
    sys.exit(main())
