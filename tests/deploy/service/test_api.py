"""Tests the API of a permanent cluster and its client over a real socket, with a fake service."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest

from schedbed.cluster.blocks.block_errors import BlockUnavailable, PathNotFound
from schedbed.deploy.failures import RunFailed
from schedbed.deploy.service.api import BODY_BYTES, Api
from schedbed.deploy.service.client import Cluster, SubmittedJob, connect, wait_for
from schedbed.deploy.service.cluster_files import ClusterRecord, claimed, write_record
from schedbed.deploy.service.users.user_book import TokenUser, UserBook, UserChange, change_of
from schedbed.tasks.errors import BadInput

TOKEN = "t0k3n"
STATES = {"job_0001": "succeeded", "job_0002": "failed"}
OWNERS = {"job_0001": "ana", "job_0002": "bo"}


class FakeOutputs:
    """The outputs of one job in two parts. Reading the second part fails half-way."""

    async def parts(self, job: str) -> dict[str, int]:
        if job != "job_0001":
            raise PathNotFound(f"/out/{job}")
        return {"part-00000": 6, "part-00001": 6}

    async def read(self, path: str) -> AsyncIterator[bytes]:
        yield b"abc"
        if path.endswith("1"):
            raise BlockUnavailable("no good replica")
        yield b"def"


class FakeService:
    """A fake service that records the requests."""

    def __init__(self) -> None:
        self.asked: list[Any] = []
        self.book = UserBook()

    def status(self, user: TokenUser | None = None) -> dict[str, Any]:
        return {"name": "lab", "jobs": [], "you": None if user is None else user.name}

    def users(self) -> list[dict[str, Any]]:
        return [user.to_json() for user in self.book]

    def change_user(self, name: str, request: dict[str, Any], *, is_new: bool) -> dict[str, Any]:
        return {"token": (self.book.add if is_new else self.book.set)(name, change_of(request))}

    def job(self, job: str) -> dict[str, Any]:
        if job not in STATES:
            raise BadInput(f"no job {job!r} on cluster lab")
        return {"job": job, "state": STATES[job], "reason": "", "user": OWNERS[job]}

    def submit(self, request: dict[str, Any], user: TokenUser | None = None) -> list[str]:
        self.asked.append(request if user is None else (user.name, request))
        if "jobs" in request and request["jobs"][0].get("app") == "bug":
            raise ZeroDivisionError("a mistake")
        if "jobs" in request and request["jobs"][0].get("app") == "nope":
            raise BadInput("submit: jobs[0].app: unknown application 'nope'")
        return list(STATES)

    def kill(self, job: str) -> None:
        self.asked.append(job)

    def fault(self, fault: Any) -> dict[str, Any]:
        self.asked.append(fault)
        raise RunFailed("not now")

    def change(self, request: dict[str, Any]) -> dict[str, Any]:
        self.asked.append(request)
        return {"t": 12.5}

    def down(self, wait: bool) -> None:
        self.asked.append(wait)

    def outputs(self) -> Any:
        return FakeOutputs()


@pytest.fixture
def service() -> FakeService:
    return FakeService()


@pytest.fixture
def cluster(service: FakeService, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    """Yield a client of the fake service, which is served until the test ends."""
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    with claimed("lab") as folder, Api(service, TOKEN) as api:
        record = ClusterRecord(
            name="lab", pid=1, url=api.url, token=TOKEN, out="", policy="", machines="", started=""
        )
        write_record(folder, record)
        yield Cluster(record)


def test_jobs_go_in_with_where_and_who_the_user_is(
    cluster: Cluster, service: FakeService, tmp_path: Path
) -> None:
    assert cluster.submit({"app": "pi"}, base=tmp_path).job == "job_0001"
    (tmp_path / "jobs.yaml").write_text("jobs: []")
    assert [job.job for job in cluster.submit_file(tmp_path / "jobs.yaml")] == list(STATES)
    by_hand, by_file = service.asked
    assert by_hand["jobs"] == [{"app": "pi"}] and by_hand["base"] == str(tmp_path) and by_hand["user"]
    assert by_file["text"] == "jobs: []" and by_file["base"] == str(tmp_path)
    with pytest.raises(BadInput, match=r"none.yaml: cannot read these jobs"):
        cluster.submit_file(tmp_path / "none.yaml")


def test_what_the_service_refuses_is_raised_as_a_run_would_raise_it(cluster: Cluster) -> None:
    with pytest.raises(BadInput, match=r"^submit: jobs.0..app: unknown application 'nope'$"):
        cluster.submit({"app": "nope"})
    with pytest.raises(BadInput, match="no job 'job_0003'"):
        cluster.job("job_0003")
    with pytest.raises(RunFailed, match=r"^not now$"):
        cluster.fault({"kill": "n1"})
    with pytest.raises(RunFailed, match=r"^ZeroDivisionError: a mistake$"):
        cluster.submit({"app": "bug"})
    with pytest.raises(BadInput, match="Request Entity Too Large"):
        cluster.submit({"app": "x" * BODY_BYTES})


def test_jobs_are_waited_for_and_killed(cluster: Cluster, service: FakeService) -> None:
    told: list[tuple[str, str]] = []
    jobs = [cluster.job(job) for job in STATES]
    assert not wait_for(jobs, lambda job, status: told.append((job.job, status["state"])))
    assert told == list(STATES.items())
    assert wait_for(jobs[:1], lambda *_: None) and jobs[1].wait() == "failed"
    jobs[0].kill()
    assert service.asked == ["job_0001"]
    with pytest.raises(BadInput):
        SubmittedJob(cluster, "job_0009").kill()


def test_outputs_come_whole_or_not_at_all(cluster: Cluster, tmp_path: Path) -> None:
    first, second = (cluster.job(job) for job in STATES)
    assert b"".join(first._read("part-00000", 6)) == b"abcdef"
    with pytest.raises((RunFailed, OSError)):
        first.outputs()
    assert second.outputs() == {} and second.save(tmp_path) == []
    with pytest.raises(BadInput, match="no part 'part-00007', it has part-00000, part-00001"):
        list(first._read("part-00007", 1))


@pytest.mark.parametrize("header", [None, "Bearer wrong", "Bearer ", TOKEN + "x", "Bearer t\u00f6ken"])
def test_nothing_is_told_without_the_token(
    cluster: Cluster, service: FakeService, header: str | None
) -> None:
    headers = {} if header is None else {"Authorization": header.encode("utf-8").decode("latin-1")}
    for method, path in (("GET", "/status"), ("POST", "/down"), ("GET", "/nowhere")):
        request = urllib.request.Request(cluster.record.url + path, headers=headers, method=method)
        with pytest.raises(urllib.error.HTTPError) as raised:
            urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request)
        assert raised.value.code == 401 and json.load(raised.value) == {"error": "no valid token"}
    with pytest.raises(RunFailed, match="no valid token"):
        Cluster(replace(cluster.record, token="another")).status()
    assert service.asked == []


@pytest.mark.parametrize(
    ("path", "body", "line"),
    [
        ("/jobs", b"\x80\x04", "/jobs: not JSON"),
        ("/jobs", b"[]", "/jobs: expected a JSON object"),
        ("/down", b'{"wait": "yes"}', "wait: 'yes' is not true or false"),
    ],
)
def test_only_json_is_understood(
    cluster: Cluster, service: FakeService, path: str, body: bytes, line: str
) -> None:
    request = urllib.request.Request(
        cluster.record.url + path, data=body, headers={"Authorization": f"Bearer {TOKEN}"}
    )
    with pytest.raises(urllib.error.HTTPError) as raised:
        urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request)
    assert raised.value.code == 400 and json.load(raised.value)["error"].startswith(line)
    assert service.asked == []


@pytest.fixture
def ana(cluster: Cluster, service: FakeService) -> Cluster:
    """Return a client with the token of the user ana, connected by URL as through a forwarded port."""
    return connect(cluster.record.url, token=service.book.add("ana", UserChange()))


@pytest.mark.parametrize(
    "act",
    [
        lambda ana: ana.fault({"kill": "n1"}),
        lambda ana: ana.change({"accounts": {"ana": {"bid": 9}}}),
        lambda ana: ana.down(),
        lambda ana: ana.users(),
        lambda ana: ana.add_user("bo"),
        lambda ana: ana.set_user("ana", jobs=1000),
        lambda ana: ana.remove_user("bo"),
        lambda ana: ana.job("job_0002").kill(),
        lambda ana: ana.job("job_0002").parts(),
        lambda ana: list(ana.job("job_0002")._read("part-00000", 6)),
    ],
    ids=["fault", "change", "down", "users", "add", "set", "remove", "kill", "parts", "part"],
)
def test_a_user_changes_and_reads_nothing_of_others(ana: Cluster, service: FakeService, act: Any) -> None:
    with pytest.raises(RunFailed, match=r"only the cluster's owner may|is a job of bo, this token is ana's"):
        act(ana)
    assert service.asked == [] and [user.name for user in service.book] == ["ana"]
    assert service.book.find("ana").quota.jobs < 1000


def test_a_user_sees_the_cluster_and_works_with_jobs_of_their_own(
    ana: Cluster, service: FakeService, tmp_path: Path
) -> None:
    assert ana.status()["you"] == "ana" and ana.job("job_0002").state == "failed"
    (tmp_path / "book.txt").write_bytes(b"a b")
    job = ana.submit({"app": "wordcount", "input": "book.txt"}, base=tmp_path)
    entry = {"app": "wordcount", "input": "book.txt"}
    assert service.asked.pop() == ("ana", {"jobs": [entry], "files": {"book.txt": "YSBi"}})
    job.kill()
    assert service.asked == ["job_0001"]
    assert job.parts() == {"part-00000": 6, "part-00001": 6}


def test_a_user_who_was_removed_or_has_a_new_token_is_a_stranger(
    ana: Cluster, cluster: Cluster, service: FakeService
) -> None:
    token = cluster.set_user("ana", new_token=True)["token"]
    with pytest.raises(RunFailed, match="no valid token"):
        ana.status()
    again = connect(cluster.record.url + "/", token=token)
    assert again.status()["you"] == "ana"
    cluster.remove_user("ana")
    with pytest.raises(RunFailed, match="no valid token"):
        again.submit({"app": "pi"})
    assert service.asked == []


def test_users_are_added_by_the_owner_and_the_token_is_told_once(cluster: Cluster) -> None:
    token = cluster.add_user("ana", jobs=2)["token"]
    (ana,) = cluster.users()
    assert ana["quota"]["jobs"] == 2 and token not in json.dumps(ana)
    for call in (
        lambda: cluster.add_user("ana"),
        lambda: cluster.add_user("a/b"),
        lambda: cluster.set_user("bo", jobs=1),
        lambda: cluster.remove_user("bo"),
        lambda: cluster.add_user("bo", jobs=-1),
        lambda: cluster.add_user("bo", rights="all"),
    ):
        with pytest.raises(BadInput):
            call()


def test_the_environment_names_the_cluster_and_holds_the_token(
    ana: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SCHEDBED_CLUSTER", ana.record.url)
    with pytest.raises(
        BadInput, match="expected the token that the cluster's owner gave you in SCHEDBED_TOKEN"
    ):
        connect()
    monkeypatch.setenv("SCHEDBED_TOKEN", ana.record.token)
    assert connect().status()["you"] == "ana"
    assert connect("lab").status()["you"] is None, "a name means a cluster of this user"


@pytest.mark.parametrize(
    "url",
    [
        "http://10.0.0.1:80",
        "https://127.0.0.1:80",
        "http://127.0.0.1",
        "http://127.0.0.1:80/x",
        "http://127.0.0.1:99999",
        "http://me@127.0.0.1.evil.org:80",
    ],
)
def test_a_token_goes_to_the_loopback_interface_only(url: str) -> None:
    with pytest.raises(BadInput, match=r"expected http://127.0.0.1:PORT, of another host by: ssh"):
        connect(url, token="t0k3n")


def test_a_cluster_of_somebody_else_that_is_gone_is_told_at_once() -> None:
    with pytest.raises(RunFailed, match=r"at http://127.0.0.1:1 does not answer .* is the port forwarded"):
        connect("http://127.0.0.1:1", token="t0k3n").status()


def test_it_listens_on_the_loopback_interface_only(cluster: Cluster) -> None:
    port = int(cluster.record.url.rpartition(":")[2])
    listening = [each.laddr for each in psutil.Process().net_connections() if each.status == "LISTEN"]
    assert {ip for ip, at in listening if at == port} == {"127.0.0.1"}


def test_a_service_that_does_not_answer_is_told_in_a_line(cluster: Cluster) -> None:
    with pytest.raises(RunFailed, match="cluster lab does not answer"):
        Cluster(replace(cluster.record, url="http://127.0.0.1:1"), patience_s=0.1).status()
