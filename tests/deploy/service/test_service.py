"""Tests the service of a permanent cluster: its shutdown, the status of its jobs, and its commands'
arguments.
"""

from __future__ import annotations

import json
import subprocess
import sys
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest
from rich.console import Console
from typer.testing import CliRunner

from schedbed.cluster.faults import KINDS, RESTART, STATE
from schedbed.cluster.masters import MasterGone
from schedbed.deploy.cli import cluster_commands, main
from schedbed.deploy.live.fault_injector import FaultCalls, FaultInjector
from schedbed.deploy.scenario.resolve import resolve
from schedbed.deploy.service import show
from schedbed.deploy.service.job_intake import Desk
from schedbed.deploy.service.service import ClusterService
from schedbed.deploy.service.service_status import JobStates, picture, users
from schedbed.deploy.service.start import StartOrder
from schedbed.deploy.service.users.user_book import TokenUser, UserQuota
from schedbed.tasks.errors import BadInput

SCENARIO: dict[str, Any] = {"name": "lab", "scale": 0.5, "cluster": {"nodes": 2}}


class FakeSession:
    """A fake session that accepts all jobs at 10 s, and records the jobs to kill or forget."""

    def __init__(self) -> None:
        self.duration_s = 10.0
        self.last_status: dict[str, Any] = {"jobs": [], "nodes": [], "recent": []}
        self.done: list[Any] = []
        self.silent = False

    def upload(self, file: Any) -> None: ...

    def submit(self, jobs: Any) -> dict[str, float]:
        return {job.job: 10.0 + job.submit_s for job in jobs}

    def kill(self, jobs: list[str] | None, reason: str) -> None:
        if self.silent:
            raise MasterGone("down")
        self.done.append((jobs, reason))

    def change(self, given: Any) -> None:
        self.done.append(given)

    def forget(self, path: str) -> None:
        self.done.append(path)


class FakeFaults:
    """A fake fault injector that records the added faults."""

    def __init__(self) -> None:
        self.added: list[Any] = []

    def add(self, fault: Any) -> None:
        self.added.append(fault)

    def in_force(self) -> list[Any]:
        return []


def service(
    session: FakeSession, faults: FakeFaults | FaultInjector | None = None
) -> tuple[ClusterService, Desk]:
    desk = Desk(resolve(SCENARIO, idle=True), session)
    return ClusterService({"name": "lab", "out": "/out"}, desk, session, faults or FakeFaults()), desk  # type: ignore[arg-type]


def row(job: str, state: str, running: int = 0, user: str = "ana") -> dict[str, Any]:
    return {"job": job, "state": state, "user": user, "maps_running": running, "reduces_running": 0}


def test_without_an_order_it_stays_up_whether_or_not_there_are_jobs() -> None:
    up, _ = service(FakeSession())
    assert not any(up.over(ended) for ended in (True, False, True))


def test_going_down_kills_what_runs_and_takes_nothing_more() -> None:
    session = FakeSession()
    up, desk = service(session)
    up.down(wait=False)
    assert up.status()["state"] == "going down"
    assert not up.over(False) and session.done == [(None, "the cluster goes down")]
    assert not up.over(False) and len(session.done) == 1
    assert up.over(True)
    with pytest.raises(Exception, match="takes no more jobs"):
        desk.take({"jobs": [{"app": "pi"}]})


def test_going_down_later_waits_for_jobs_and_may_still_be_hurried() -> None:
    session = FakeSession()
    up, _ = service(session)
    up.down(wait=True)
    assert not up.over(False) and not up.over(False) and session.done == []
    up.down(wait=False)
    up.down(wait=True)
    assert not up.over(False) and session.done != []


def test_a_submission_that_came_in_just_now_is_waited_for() -> None:
    up, desk = service(FakeSession())
    desk._busy = 1
    up.down(wait=True)
    assert not up.over(True)
    desk._busy = 0
    assert not up.over(True), "they may have been said to have ended before it came"
    assert up.over(True)


def test_masters_that_stay_silent_do_not_keep_it_up() -> None:
    session = FakeSession()
    session.silent = True
    up, _ = service(session)
    up.down(wait=False)
    assert up.over(False)


def test_an_idle_cluster_says_nothing_and_what_only_one_job_could_read_goes_with_it() -> None:
    session = FakeSession()
    up, _ = service(session)
    shown: list[Any] = []
    see = up.seen(shown.append)
    idle, busy, done = (
        {"jobs": jobs} for jobs in ([], [row("job_0001", "running")], [row("job_0001", "failed")])
    )
    for status in (idle, idle, busy, busy, done, done, done):
        see(status)
    assert shown == [idle, busy, busy, done]
    assert session.done == ["/in/job_0001.filler"]


def test_a_job_waits_then_runs_and_is_remembered_when_the_core_has_forgotten_it() -> None:
    up, _ = service(FakeSession())
    see = up.seen(lambda _: None)
    assert up.submit({"jobs": [{"app": "pi", "submit": "8s"}], "user": "ana"}) == ["job_0001"]
    assert (up.job("job_0001")["state"], up.job("job_0001")["submit_s"]) == ("waiting", 14.0)
    see({"jobs": [row("job_0001", "succeeded")]})
    see({"jobs": []})
    assert up.job("job_0001")["state"] == "succeeded"
    assert [job["state"] for job in up.status()["jobs"]] == ["succeeded"]
    with pytest.raises(BadInput, match="no job 'job_0002' on cluster lab"):
        up.job("job_0002")


def test_shares_are_of_all_running_tasks() -> None:
    jobs = [
        row("a", "running", 3),
        row("b", "succeeded", 0),
        row("c", "running", 1, "bo"),
        row("d", "waiting"),
    ]
    ana, bo = users(jobs)
    assert ana == {
        "user": "ana",
        "jobs": {"running": 1, "succeeded": 1, "waiting": 1},
        "running_tasks": 3,
        "share": 0.75,
    }
    assert bo["share"] == 0.25
    assert users([row("a", "failed", 2)])[0]["share"] == 0.0
    assert picture({}, {"nodes": [], "recent": []}, [], JobStates())["users"] == []


def test_a_status_lists_a_bounded_number_of_ended_jobs_and_counts_all() -> None:
    states, names = JobStates(), [f"job_{number:04}" for number in range(3001)]
    done = {"user": "ana", "maps_running": 0, "reduces_running": 0}
    states.take({"jobs": [{"job": name, "state": "succeeded", **done} for name in names[1:]]})
    states.take({"jobs": [{"job": names[0], "state": "running", **done}]})
    planned: Any = [SimpleNamespace(job=name) for name in names]
    told = picture({}, {"nodes": [], "recent": []}, planned, states)
    assert [job["job"] for job in told["jobs"]] == [names[0], *names[2001:]]
    assert told["ended_before"] == 2000
    assert told["users"][0]["jobs"] == {"running": 1, "succeeded": 3000}


def test_a_fault_by_hand_begins_now_and_lasts_by_the_clock() -> None:
    faults = FakeFaults()
    up, _ = service(FakeSession(), faults)
    told = up.fault({"kill": "n2", "for": "30s"})
    assert told == {"kind": "kill", "target": "n2", "t": 10.0, "until": 40.0}
    assert [(fault.kind, fault.at_s, fault.until_s) for fault in faults.added] == [("kill", 10.0, 40.0)]
    for wrong, line in (
        ({"kill": "n9"}, "fault: kill: no node 'n9'"),
        (["kill"], "fault: .* is not a mapping"),
    ):
        with pytest.raises(BadInput, match=line):
            up.fault(wrong)
    assert len(faults.added) == 1


def test_status_says_which_fault_holds_a_node_and_for_how_long(capsys: pytest.CaptureFixture[str]) -> None:
    """The status names each fault with its remaining time.

    At 10 s n2 is killed for 30 s, the disk of n1 is filled until the end, and an attempt is killed, which
    takes no time.
    """
    session = FakeSession()
    usage = dict.fromkeys(("cpu_util", "disk_util", "net_util", "memory_bytes"), 0) | {"running": []}
    states = (("n1", "alive"), ("n2", "lost"))
    session.last_status["nodes"] = [
        {"node": node, "rack": "r1", "state": state} | usage for node, state in states
    ]
    fault_calls = Mock(spec=FaultCalls)
    fault_calls.on_node.return_value = ""
    faults = FaultInjector((), ["n1", "n2"], fault_calls)
    up, _ = service(session, faults)
    for fault in ({"kill": "n2", "for": "30s"}, {"fill_disk": "n1"}, {"kill_attempt": "any"}):
        up.fault(fault)
    faults.advance(10.0)
    session.duration_s = 28.0
    first, second = up.status()["nodes"]
    assert first["faults"] == [{"kind": "fill_disk", "left_s": None}]
    assert second["faults"] == [{"kind": "kill", "left_s": 12.0}]
    Console(width=100).print(show._nodes([first, second]))
    shown = capsys.readouterr().out
    assert "killed by a fault, back in 12 s" in shown and "disk filled by a fault, for good" in shown
    session.duration_s = 41.0
    faults.advance(41.0)
    assert up.status()["nodes"][1]["faults"] == []


def test_every_fault_that_holds_a_node_has_words_for_status() -> None:
    holding = {
        kind.name for kind in KINDS.values() if kind.target == "nodes" and kind.duration in (STATE, RESTART)
    }
    assert holding == {kind.name for kind in KINDS.values() if kind.held}


def test_an_order_survives_its_line() -> None:
    scenario = resolve(SCENARIO | {"policies": ["fair", {"delay": {"node_wait": "5s"}}]}, idle=True)
    ana = TokenUser(name="ana", token_sha256="0" * 64, quota=UserQuota(jobs=2), own_code=True)
    where = {"address": "auto", "tls": True, "users": (ana,), "api": 5555}
    order = StartOrder(
        name="lab", scenario=scenario, out=None, machines="process", keep_outputs=True, **where
    )
    assert StartOrder.from_line(order.to_line()) == order


@pytest.mark.long  # seconds
def test_a_service_that_cannot_begin_answers_with_a_line() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "schedbed.deploy.service.service"],
        input='{"out": null}\n',
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1
    assert json.loads(done.stdout) == {"error": "KeyError: 'scenario'", "code": 1}


def test_a_scenario_for_a_cluster_needs_no_workload_and_none_is_looked_at() -> None:
    broken = {"workload": {"jobs": [{"app": "wordcount", "input": "/nowhere"}]}, "faults": [{"kill": "n9"}]}
    idle = resolve(SCENARIO | broken, idle=True)
    assert idle.jobs == () and idle.faults == () and "workload" not in idle.given
    with pytest.raises(BadInput, match="workload: missing"):
        resolve(SCENARIO)


@pytest.mark.parametrize(
    ("words", "name", "fault"),
    [
        (["kill", "n3"], None, {"kill": "n3"}),
        (["lab", "kill", "n3"], "lab", {"kill": "n3"}),
        (["lab", "partition", "n1,n2"], "lab", {"partition": ["n1", "n2"]}),
        (["{slow: n4, cpu: 0.3}"], None, {"slow": "n4", "cpu": 0.3}),
        (["lab", "{kill: n3, for: 30s}"], "lab", {"kill": "n3", "for": "30s"}),
    ],
)
def test_a_fault_is_a_kind_and_a_target_or_a_mapping(
    words: list[str], name: str | None, fault: dict[str, Any]
) -> None:
    assert cluster_commands._name_and_fault(words) == (name, fault)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("books.txt", "books.txt"),
        ("generate=text,size=64MiB,seed=2", {"generate": "text", "size": "64MiB", "seed": 2}),
        ("{generate: text, size: 1GiB}", {"generate": "text", "size": "1GiB"}),
    ],
)
def test_an_input_is_a_file_or_what_to_generate(text: str, value: Any) -> None:
    assert cluster_commands._input(text) == value


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        ("submit", "submit: expected --app APP or a file of jobs"),
        ("submit jobs.yaml --app pi", "submit jobs.yaml: expected a file or the options of one job"),
        ("submit a b --app pi", "submit a b: expected at most a cluster's name and a file"),
        ("submit nolab --app pi", "no cluster 'nolab' is up, nor any other"),
        ("submit --app pi --set maps", "--set maps: expected KEY=VALUE"),
        ("status nolab", "no cluster 'nolab' is up"),
        ("kill nolab", "kill nolab: expected the id of a job"),
        ("kill nolab job_0001", "no cluster 'nolab' is up"),
        ("fault kill", "fault kill: expected a kind and its target"),
        ("fault nolab kill n1", "no cluster 'nolab' is up"),
        ("down nolab", "no cluster 'nolab' is up"),
        ("down nolab --all", "down nolab --all: expected a name or --all, not both"),
        ("users nolab add ana", "no cluster 'nolab' is up"),
        ("users add", "users add: expected the name of a user"),
        ("users nolab ana", "users nolab ana: expected one of add, set, remove, list"),
        ("users nolab list ana", "users list: expected nothing behind it"),
        ("users nolab set ana", "users set: expected what to change"),
        ("users nolab remove ana --jobs 2", "users remove: expected no options"),
        ("users nolab add ana --new-token", "users add: a new user has a new token"),
        ("users nolab add ana --input much", "--input much: "),
        ("users none.yaml list", "none.yaml: no such class list"),
        ("up quickstart --users none.yaml", "none.yaml: cannot read"),
        ("status http://10.0.0.1:1", "http://10.0.0.1:1: expected http://127.0.0.1:PORT"),
        ("up none.yaml", "none.yaml: cannot read this scenario"),
        ("up deploy/scenarios/quickstart.yaml --machines sim", "--machines sim: expected process"),
        ("up deploy/scenarios/quickstart.yaml --name a/b", "--name a/b: expected letters"),
    ],
)
def test_bad_arguments_are_one_line_and_exit_code_2(
    arguments: str, line: str, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    result = CliRunner().invoke(main.app, arguments.split())
    assert result.exit_code == 2
    assert result.output.startswith(f"schedbed: {line}") and result.output.count("\n") == 1


@pytest.mark.parametrize("command", ["up", "submit", "status", "kill", "fault", "down", "users"])
def test_every_command_explains_itself_with_an_example(command: str) -> None:
    result = CliRunner().invoke(main.app, [command, "--help"])
    assert result.exit_code == 0 and f"Example: schedbed {command}" in result.output
