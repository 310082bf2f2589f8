"""Tests the desk of a permanent cluster: the jobs that it accepts, refuses and records."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from schedbed.cluster.blocks.block_errors import NoNodes
from schedbed.deploy.failures import RunFailed
from schedbed.deploy.scenario.policies import closed_queues
from schedbed.deploy.scenario.resolve import resolve
from schedbed.deploy.service.job_intake import Desk
from schedbed.scheduler.registry.registry import build_policy
from schedbed.tasks.errors import BadInput
from schedbed.tasks.workloads.planned import InputFile, PlannedJob

SCENARIO: dict[str, Any] = {"scale": 0.5, "seed": 3, "cluster": {"nodes": 2}, "blocks": {"size": "1MiB"}}
TEXT = {"generate": "text", "size": "4MiB"}


class FakeSession:
    """A fake session that accepts all jobs at `now_s`.

    Uploads wait until the event `gate` is set, if there is one.
    """

    def __init__(self, now_s: float = 100.0) -> None:
        self.now_s = self.duration_s = now_s
        self.values: list[Any] = []
        self.uploaded: list[str] = []
        self.gate: threading.Event | None = None
        self.broken = 0

    def upload(self, file: InputFile) -> None:
        if self.gate is not None:
            assert self.gate.wait(10)
        if self.broken:
            self.broken -= 1
            raise NoNodes(f"{file.path}: no node has registered")
        self.uploaded.append(file.path)

    def submit(self, jobs: Sequence[PlannedJob]) -> dict[str, float]:
        return {job.job: job.submit_s + self.now_s for job in jobs}

    def change(self, given: Any) -> None:
        self.values.append(given)


def desk(session: FakeSession, queues: Sequence[str] = (), **changes: Any) -> Desk:
    policy: Any = SimpleNamespace(order=SimpleNamespace(closed_queues=queues))
    return Desk(resolve(SCENARIO | changes, idle="workload" not in changes), session, policy)


def test_numbers_go_on_and_times_are_scaled_and_count_from_now() -> None:
    taker = desk(FakeSession(), workload={"jobs": [{"app": "pi"}]})
    first = taker.take(
        {"jobs": [{"app": "pi", "submit": "20s", "deadline": "60s", "count": 2}, {"app": "pi"}]}
    )
    assert [(job.job, job.name, job.submit_s) for job in first] == [
        ("job_0002", "pi", 100.0),
        ("job_0003", "pi", 110.0),
        ("job_0004", "pi-2", 110.0),
    ]
    assert [job.deadline_s for job in first] == [None, 140.0, 140.0]
    assert [job.job for job in taker.take({"jobs": [{"app": "pi"}]})] == ["job_0005"]


def test_a_job_that_names_no_user_is_of_who_submits_it() -> None:
    jobs = desk(FakeSession()).take({"jobs": [{"app": "pi"}, {"app": "pi", "user": "bo"}], "user": "ana"})
    assert [job.user for job in jobs] == ["ana", "bo"]


def test_an_input_is_uploaded_once_unless_the_file_has_changed(tmp_path: Path) -> None:
    session = FakeSession()
    taker = desk(session)
    book = tmp_path / "book.txt"
    book.write_text("a b a")
    job = {"app": "wordcount", "input": "book.txt"}
    same = [taker.take({"jobs": [job, job], "base": str(tmp_path)}) for _ in range(2)]
    assert {job.input for jobs in same for job in jobs} == {"/in/book.txt"}
    book.write_text("other words")
    (changed,) = taker.take({"jobs": [job], "base": str(tmp_path)})
    assert session.uploaded == ["/in/book.txt", "/in/2-book.txt"] == ["/in/book.txt", changed.input]


def test_who_needs_what_is_being_uploaded_waits_for_it() -> None:
    session = FakeSession()
    session.gate = threading.Event()
    taker = desk(session)
    took: list[str] = []

    def submit() -> None:
        took.extend(job.job for job in taker.take({"jobs": [{"app": "wordcount", "input": TEXT}]}))

    users = [threading.Thread(target=submit) for _ in range(2)]
    for user in users:
        user.start()
    assert taker.take({"jobs": [{"app": "pi"}]}), "who needs nothing of it does not wait"
    assert took == [] and taker.busy
    session.gate.set()
    for user in users:
        user.join(10)
    assert len(took) == 2 and len(session.uploaded) == 1 and not taker.busy


def test_an_upload_that_failed_is_told_in_a_line_and_tried_again_by_the_next() -> None:
    session = FakeSession()
    session.broken = 1
    taker = desk(session)
    job = {"app": "wordcount", "input": TEXT}
    with pytest.raises(RunFailed, match=r"not submitted: /in/text.*: no node has registered"):
        taker.take({"jobs": [job]})
    assert taker.scenario.jobs == () and not taker.busy
    assert taker.take({"jobs": [job]})[0].job == "job_0002"
    assert len(session.uploaded) == 1


def test_what_was_submitted_runs_again_as_a_scenario(tmp_path: Path) -> None:
    (tmp_path / "book.txt").write_text("a b a")
    taker = desk(FakeSession())
    taker.take({"jobs": [{"app": "wordcount", "input": "book.txt"}], "base": str(tmp_path), "user": "ana"})
    taker.take({"text": "jobs: [{app: pi, submit: 8s, deadline: 30s}]", "file": "jobs.yaml"})
    assert taker.changed.is_set()
    again = resolve(taker.scenario.given, base="/")
    assert again.jobs == taker.scenario.jobs
    assert again.inputs == taker.scenario.inputs
    assert resolve(taker.scenario.to_json()).jobs == taker.scenario.jobs


@pytest.mark.parametrize(
    ("request_", "line"),
    [
        ({"jobs": [{"app": "nope"}]}, "submit: jobs[0].app: unknown application 'nope'"),
        ({"jobs": []}, "submit: jobs: "),
        ({"jobs": 5}, "submit: jobs: 5 is not a list"),
        ({}, "submit: jobs: "),
        ({"text": "jobs:\n - {app: pi, maps: x}", "file": "j.yaml"}, "j.yaml:2: jobs[0].maps: 'x' is not"),
        (
            {"text": "jobs:\n - {app: pi, mpas: 2}", "file": "j.yaml"},
            "j.yaml:2: jobs[0].mpas: unknown key, did",
        ),
        ({"text": "- a", "file": "j.yaml"}, "j.yaml: expected a mapping with a key 'jobs'"),
        ({"text": "{", "file": "j.yaml"}, "j.yaml:1: not YAML"),
        (
            {"jobs": [{"app": "wordcount", "input": "none.txt"}]},
            "submit: jobs[0].input: 'none.txt' is no file",
        ),
        (
            {"jobs": [{"app": "pi", "map": {"memory": "1TiB"}}]},
            "submit: jobs[0].map.memory: a task of 1.0 TiB fits",
        ),
        ({"jobs": [{"app": "pi", "queue": "dev"}]}, "submit: jobs[0].queue: 'dev' is no queue of the policy"),
    ],
)
def test_bad_input_is_a_line_and_uses_up_no_number(request_: dict[str, Any], line: str) -> None:
    taker = desk(FakeSession(), ["default", "prod"])
    with pytest.raises(BadInput) as raised:
        taker.take(request_)
    assert str(raised.value).startswith(line) and "\n" not in str(raised.value)
    assert taker.take({"jobs": [{"app": "pi"}]})[0].job == "job_0001"


def test_nothing_is_taken_in_once_it_is_closed() -> None:
    taker = desk(FakeSession())
    taker.close()
    with pytest.raises(RunFailed, match="takes no more jobs"):
        taker.take({"jobs": [{"app": "pi"}]})


@pytest.mark.parametrize(
    ("spec", "queues"),
    [
        ("fifo", ()),
        ("aria:profiles=none", ()),
        ({"capacity": {"queues": {"prod": {"capacity": 70}}}}, ()),
        ({"capacity": {"queues": {"prod": {"capacity": 70}, "dev": {"capacity": 30}}}}, ("prod", "dev")),
    ],
)
def test_only_queues_that_share_the_whole_cluster_leave_no_room_for_others(
    spec: Any, queues: tuple[str, ...]
) -> None:
    assert closed_queues(build_policy(spec)) == queues


def bidding(session: FakeSession) -> Desk:
    scenario = resolve(SCENARIO | {"policies": [{"dp": {"accounts": {"ana": {"bid": 2}}}}]}, idle=True)
    return Desk(scenario, session, build_policy(scenario.policies[0].given))


def test_a_change_reaches_the_policy_and_is_kept_for_a_repetition() -> None:
    session = FakeSession(50.0)
    taker = bidding(session)
    assert taker.change({"accounts": {"ana": {"bid": 5}}}) == 50.0
    assert session.values == [{"accounts": {"ana": {"bid": 5}}}]
    assert taker.changed.is_set()
    again = (
        resolve(taker.scenario.given, idle=False) if "workload" in taker.scenario.given else taker.scenario
    )
    assert [(change.at_s, change.given) for change in again.changes] == [
        (50.0, {"accounts": {"ana": {"bid": 5}}})
    ]


@pytest.mark.parametrize(
    ("request_", "why"),
    [
        (
            {"accounts": {"ana": {"bid": -1}}},
            "account ana: bid: -1 is not a number above 0",
        ),
        ({"queues": {"prod": {"capacity": 50}}}, "no policy here has queues to change"),
        ({}, "nothing changes, expected accounts or queues"),
        ({"node_wait": "5s"}, "node_wait"),
    ],
)
def test_a_change_that_the_policy_cannot_have_is_refused(request_: Any, why: str) -> None:
    session = FakeSession()
    with pytest.raises(BadInput, match=why):
        bidding(session).change(request_)
    assert not session.values
