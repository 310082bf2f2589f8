"""Tests the server of the live page.

The page needs the token, only the server's own page can change the run, and no open page delays the run.
"""

from __future__ import annotations

import asyncio
import http.client
import json
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from schedbed.deploy.failures import RunFailed
from schedbed.deploy.options import RunOptions
from schedbed.deploy.watch import page_server
from schedbed.deploy.watch.page_server import FILES, QUEUE_MOST, LivePage, PageClient, serve_page, watching
from schedbed.tasks.errors import BadInput
from tests.deploy.watch.test_run_feed import launch, status
from tests.harness.tables import NODE

TOKEN = "secret"
BEARER = {"Authorization": f"Bearer {TOKEN}"}


class Buttons:
    def __init__(self) -> None:
        self.done: list[Any] = []

    def kill(self, job: str) -> None:
        if job != "job_0001":
            raise BadInput(f"no job {job!r}")
        self.done.append(job)

    def fault(self, fault: Any) -> dict[str, Any]:
        self.done.append(fault)
        return {"kind": "kill", "target": "n1", "t": 1.0, "until": 31.0 if fault.get("for") else None}

    def submit(self, request: dict[str, Any]) -> list[str]:
        self.done.append(request["jobs"])
        return ["job_0002"]


class Page:
    def __init__(self, *, read_only: bool = False) -> None:
        self.watch, self.buttons = LivePage(submits=True, read_only=read_only), Buttons()
        self.watch.controls = self.buttons
        self.watch.begin([NODE], {"policy": "fair", "repeat": 0})
        self.server, self.stack = serve_page(self.watch, TOKEN, 0), ExitStack()

    def ask(
        self, method: str, path: str, headers: Mapping[str, str] = {}, body: Any = None
    ) -> tuple[int, http.client.HTTPMessage, str]:
        connection = self.open()
        connection.request(method, path, None if body is None else json.dumps(body), dict(headers))
        answer = connection.getresponse()
        text = answer.read().decode()
        connection.close()
        return answer.status, answer.headers, text

    def open(self) -> http.client.HTTPConnection:
        opened = http.client.HTTPConnection(self.server.url.removeprefix("http://"), timeout=30)
        self.stack.callback(opened.close)
        return opened

    def listen(self, token: str = TOKEN) -> http.client.HTTPResponse:
        connection = self.open()
        connection.request("GET", f"/events?token={token}")
        answer = connection.getresponse()
        self.stack.callback(answer.close)
        assert answer.status == 200 and answer.headers["Content-Type"].startswith("text/event-stream")
        return answer


@pytest.fixture
def page() -> Iterator[Page]:
    made = Page()
    with made.server, made.stack:
        yield made


def events(answer: http.client.HTTPResponse) -> Iterator[tuple[str, Any]]:
    name = ""
    while line := answer.readline().decode().rstrip("\n"):
        if line.startswith("event: "):
            name = line.removeprefix("event: ")
        elif line.startswith("data: "):
            yield name, json.loads(line.removeprefix("data: "))
            answer.readline()


@pytest.mark.parametrize(
    "path", ["/", "/events", "/report", "/watch.js", "/nothing", "/?token=", "/?token=%ff", "/?token=wrong"]
)
def test_without_the_token_there_is_only_401(page: Page, path: str) -> None:
    assert page.ask("GET", path)[0] == 401
    assert page.ask("POST", path, {"Authorization": "Bearer wrong"})[0] == 401


def test_with_the_token_there_is_the_page_and_its_files_under_a_policy(page: Page) -> None:
    code, headers, text = page.ask("GET", f"/?token={TOKEN}")
    assert code == 200 and f"watch.js?token={TOKEN}" in text
    policy = headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy and "unsafe" not in policy
    assert headers["Referrer-Policy"] == "no-referrer"
    for name in FILES:
        assert page.ask("GET", f"/{name}?token={TOKEN}")[0] == 200
    assert page.ask("GET", f"/page_server.py?token={TOKEN}")[0] == 404


def test_a_name_that_leads_to_this_host_is_no_host_of_the_page(page: Page) -> None:
    for host in ("evil.example:80", "127.0.0.1.evil.example:80", "", "localhost"):
        assert page.ask("GET", f"/?token={TOKEN}", {"Host": host})[0] == 403, host
    assert page.ask("GET", f"/?token={TOKEN}", {"Host": "localhost:1"})[0] == 200


def test_a_change_needs_a_post_with_the_token_in_a_header_from_the_page_itself(page: Page) -> None:
    body = {"job": "job_0001"}
    assert page.ask("POST", f"/kill?token={TOKEN}", body=body)[0] == 401
    assert page.ask("POST", f"/kill?token={TOKEN}", {"Authorization": "Bearer wrong"}, body)[0] == 401
    assert page.ask("POST", "/kill", {**BEARER, "Origin": "http://evil.example"}, body)[0] == 403
    assert page.ask("GET", "/kill", BEARER)[0] in (404, 405)
    assert page.buttons.done == []
    assert page.ask("POST", "/kill", BEARER, body)[0] == 200
    assert page.ask("POST", "/fault", BEARER, {"fault": {"kill": "n1"}})[0] == 200
    assert "job_0002" in page.ask("POST", "/submit", BEARER, {"job": {"app": "pi"}})[2]
    assert page.buttons.done == ["job_0001", {"kill": "n1"}, [{"app": "pi"}]]


def test_what_is_wrong_is_told_in_a_line(page: Page) -> None:
    code, _, text = page.ask("POST", "/kill", BEARER, {"job": "job_9"})
    assert (code, json.loads(text)) == (400, {"error": "no job 'job_9'"})
    assert (
        page.ask("POST", "/kill", BEARER, [1])[0] == page.ask("POST", "/kill", BEARER, {"job": 3})[0] == 400
    )
    page.watch.finish("succeeded", "")
    assert page.ask("POST", "/kill", BEARER, {"job": "job_0001"})[0] == 503


def test_a_page_that_only_looks_changes_nothing() -> None:
    made = Page(read_only=True)
    with made.server, made.stack:
        for path, body in (("kill", {"job": "job_0001"}), ("fault", {"fault": {}}), ("submit", {"job": {}})):
            code, _, text = made.ask("POST", f"/{path}", BEARER, body)
            assert code == 403 and "--read-only" in text
        told = events(made.listen())
        assert next(told)[1]["page"] == {"submits": False, "read_only": True}
    assert made.buttons.done == []


def test_a_user_of_the_cluster_looks_at_the_page_and_changes_nothing(page: Page) -> None:
    """A user sees a read-only page, while the page of the cluster's owner keeps its buttons."""
    page.watch.show_to(lambda token: token == b"anas")
    assert page.ask("GET", "/?token=anas")[0] == 200 and page.ask("GET", "/?token=bos")[0] == 401
    ours, theirs = (next(events(page.listen(token)))[1]["page"] for token in (TOKEN, "anas"))
    assert ours == {"submits": True, "read_only": False} and theirs == {"submits": False, "read_only": True}
    bearer = {"Authorization": "Bearer anas"}
    for path, body in (("kill", {"job": "job_0001"}), ("fault", {"fault": {}}), ("submit", {"job": {}})):
        for way in (f"/{path}", f"/{path}?token=anas"):
            assert page.ask("POST", way, bearer, body)[0] == 401
    assert page.buttons.done == []
    page.watch.show_to(lambda _: False)
    assert page.ask("GET", "/?token=anas")[0] == 401


def test_a_page_hears_what_the_feed_holds_then_what_is_new(page: Page) -> None:
    page.watch.take_rows("decisions", launch("job_0001_m_000000", 0.5))
    page.watch.take_status(status(1.0, "job_0001_m_000000_0"))
    told = events(page.listen())
    name, found = next(told)
    assert name == "all" and found["about"]["policy"] == "fair" and found["decisions"][0][1] == "launch"
    page.watch.take_status(status(2.0, done=1))
    name, step = next(told)
    assert name == "step" and step["seq"] > found["seq"] and step["jobs"][0]["maps_done"] == 1
    page.watch.finish("succeeded", "")
    assert next(told)[0] == "results"


def test_a_page_that_does_not_read_never_holds_up_the_run(page: Page) -> None:
    page.listen()
    began_s = time.monotonic()
    for number in range(3000):
        page.watch.take_rows("decisions", launch("job_0001_m_000000" * 20, 0.5) * 20)
        page.watch.take_status(status(float(number), done=number))
    assert time.monotonic() - began_s < 20
    assert page.ask("GET", f"/?token={TOKEN}")[0] == 200


def test_a_page_that_is_behind_begins_again_with_a_snapshot() -> None:
    async def story() -> None:
        client = PageClient()
        for _ in range(QUEUE_MOST):
            client.put(b"x")
        assert not client.is_behind
        client.put(b"x")
        client.put(b"x")
        assert client.is_behind and client.take() == []
        watch = LivePage()
        assert watch.joined(client).startswith(b"event: all\n") and not client.is_behind

    asyncio.run(story())


def test_with_nobody_there_nothing_is_written_down(monkeypatch: pytest.MonkeyPatch) -> None:
    watch, written = LivePage(), []
    monkeypatch.setattr(page_server, "written", lambda *given: written.append(given))
    watch.begin([NODE], {})
    watch.take_status(status(1.0))
    watch.finish("succeeded", "")
    assert written == []


def test_the_address_is_in_a_private_file_and_an_open_page_gets_the_report(tmp_path: Path) -> None:
    with watching(0, tmp_path, submits=False, read_only=False) as watch:
        assert watch is not None
        path = tmp_path / "web-url"
        assert path.read_text() == watch.url + "\n" and path.stat().st_mode & 0o777 == 0o600
        host, _, token = watch.url.removeprefix("http://").partition("/?token=")
        heard: list[Any] = []

        def browse() -> None:
            connection = http.client.HTTPConnection(host, timeout=30)
            connection.request("GET", f"/events?token={token}")
            answer = connection.getresponse()
            while b"event: over" not in answer.readline():
                heard.append("waits")
            answer.close()
            connection.close()
            report = http.client.HTTPConnection(host, timeout=30)
            report.request("GET", f"/report?token={token}")
            found = report.getresponse()
            heard.append((found.status, found.read(), found.headers["Content-Security-Policy"]))
            report.close()

        thread = threading.Thread(target=browse)
        thread.start()
        while not heard:
            time.sleep(0.01)
        (tmp_path / "report.html").write_text("<p>it</p>")
    thread.join(30)
    assert heard[-1][:2] == (200, b"<p>it</p>") and "default-src 'none'" in heard[-1][2]
    assert not path.exists()


def test_what_cannot_be_served_is_one_line(tmp_path: Path, page: Page) -> None:
    port = int(page.server.url.rpartition(":")[2])
    with (
        pytest.raises(RunFailed, match=f"--web {port}: "),
        watching(port, tmp_path, submits=False, read_only=False),
    ):
        pass
    with pytest.raises(BadInput, match="--web: a simulation serves nothing"):
        RunOptions(machines="sim", web=0)
    with pytest.raises(BadInput, match="--read-only: "):
        RunOptions(read_only=True)
