"""The HTTP client against a scripted agent: broken connections, refusals, full disks and short bodies."""

from __future__ import annotations

import errno
import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from schedbed.tasks.blockfile import BlockWriter
from schedbed.tasks.context import NodeContext
from schedbed.tasks.node_client import node as node_module
from schedbed.tasks.node_client.http_requests import AgentLink, Refused
from schedbed.tasks.node_client.node import FetchFailed, HttpNode, MapOutputAt
from schedbed.tasks.node_client.read_aside import BlockCalls
from schedbed.tasks.pacing import Budget, socket_bytes
from schedbed.tasks.specs import BlockRange, TaskKind
from tests.harness.memory_node import a_spec


class Script(ThreadingHTTPServer):
    """A fake agent with given answers.

    `answers` is a dictionary from "VERB /path" to a status and a body. `seen` lists the received requests.
    """

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.answers: dict[str, tuple[int, bytes]] = {}
        self.seen: list[tuple[str, dict[str, str], bytes]] = []
        self.hang_up_after = False  # close each connection after its answer, without saying so
        self.cut_bytes = 0  # of each body that are not sent though promised
        self.put_limit: int | None = None  # bytes read of a PUT before it is answered

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class Handler(BaseHTTPRequestHandler):
    """Answers one request as the `Script` says."""

    protocol_version = "HTTP/1.1"

    @property
    def script(self) -> Script:
        assert isinstance(self.server, Script)
        return self.server

    def _body(self) -> bytes:
        if self.headers.get("Transfer-Encoding") != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length", 0)))
        data = b""
        while size := int(self.rfile.readline(), 16):
            data += self.rfile.read(size)
            self.rfile.readline()
            if self.script.put_limit is not None and len(data) > self.script.put_limit:
                self.close_connection = True
                return data
        self.rfile.readline()
        return data

    def _answer(self) -> None:
        asked = f"{self.command} {self.path}"
        self.script.seen.append((asked, dict(self.headers), self._body()))
        status, body = self.script.answers.get(asked, (404, b"not here"))
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body[: len(body) - self.script.cut_bytes])
        self.wfile.flush()
        if self.script.hang_up_after or self.script.cut_bytes:
            self.close_connection = True
            self.connection.shutdown(socket.SHUT_RDWR)

    do_GET = do_PUT = do_POST = _answer

    def log_message(self, format: str, *args: Any) -> None:
        """Discard the log message."""


@contextmanager
def an_agent() -> Iterator[Script]:
    with Script() as script:
        thread = threading.Thread(target=script.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield script
        finally:
            script.shutdown()
            thread.join()


@pytest.fixture
def agent() -> Iterator[Script]:
    with an_agent() as script:
        yield script


@pytest.fixture(autouse=True)
def no_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node_module, "LOCATE_WAITS_S", (0.0, 0.0))


def a_context(root: Path, agent: Script, **peers: str) -> NodeContext:
    return NodeContext(
        node="n1", rack="a", agent_url=agent.url, token="secret", root=root, peers={"n1": agent.url, **peers},
        racks={"n1": "a", "n2": "a", "n3": "b"}, epoch_s=0.0, core_speed=1.0,
    )  # fmt: skip


def a_node(root: Path, agent: Script, *blocks: BlockRange, **peers: str) -> HttpNode:
    spec = a_spec(TaskKind.MAP, file="/in", blocks=blocks)
    return HttpNode(spec, a_context(root, agent, **peers))


def block(number: int, nodes: tuple[str, ...], offset: int = 0) -> BlockRange:
    return BlockRange(block=f"blk_{number}", offset=offset, length=10, nodes=nodes)


def test_requests_bear_token_and_node(tmp_path: Path, agent: Script) -> None:
    agent.answers["POST /call/locate"] = (200, located(("n2",)))
    found = BlockCalls(AgentLink(a_context(tmp_path, agent))).locate("/in", 0, 1)
    assert [block.nodes for block in found] == [("n2",)]
    _, headers, body = agent.seen[0]
    assert (headers["Authorization"], headers["X-Node"], json.loads(body)) == (
        "Bearer secret",
        "n1",
        {"path": "/in", "offset": 0, "length": 1},
    )


def test_a_kept_connection_that_died_is_opened_again(tmp_path: Path, agent: Script) -> None:
    agent.answers["GET /peers"] = (200, b"{}")
    agent.hang_up_after = True
    link = AgentLink(a_context(tmp_path, agent))
    for _ in range(3):
        assert link.request_json("GET", "/peers") == {}


def test_a_refusal_carries_the_agents_words(tmp_path: Path, agent: Script) -> None:
    agent.answers["POST /call/allocate"] = (502, b"no node has room\n")
    with pytest.raises(Refused, match="502 no node has room"):
        a_node(tmp_path, agent).create("/out", 1, 1000).write(bytes(10**6))


def test_nobody_there_is_an_oserror(tmp_path: Path) -> None:
    with an_agent() as gone:
        context = a_context(tmp_path, gone)
    with pytest.raises(OSError):
        BlockCalls(AgentLink(context)).locate("/in", 0, 1)


def test_the_nearest_replica_is_read_and_the_next_when_it_is_bad(tmp_path: Path, agent: Script) -> None:
    with an_agent() as rack, an_agent() as far:
        node = a_node(tmp_path, agent, block(1, ("n3", "n2")), n2=rack.url, n3=far.url)
        rack.answers["GET /blocks/blk_1"] = (206, b"0123456789")
        assert b"".join(node.read("/in", 0, 10)) == b"0123456789" and not far.seen
        rack.answers["GET /blocks/blk_1"] = (410, b"corrupt")
        far.answers["GET /blocks/blk_1"] = (206, b"345678")
        agent.answers["POST /call/report_bad"] = (200, b"{}")
        assert b"".join(node.read("/in", 3, 9)) == b"345678"
        assert far.seen[0][1]["Range"] == "bytes=3-8"
        assert [json.loads(body) for asked, _, body in agent.seen] == [{"block": "blk_1", "node": "n2"}]
    assert node.meter.counters().read_remote_bytes == 16


def test_a_body_that_ends_early_is_continued_elsewhere(tmp_path: Path, agent: Script) -> None:
    (tmp_path / "blocks").mkdir()
    with an_agent() as rack:
        rack.answers["GET /blocks/blk_1"] = (206, b"0123456789")
        rack.cut_bytes = 4
        node = a_node(tmp_path, agent, block(1, ("n2",)), n2=rack.url)
        with pytest.raises(OSError, match="no replica of blk_1 of /in could be read"):
            agent.answers["POST /call/locate"] = (200, located(("n2",)))
            list(node.read("/in", 0, 10))
        with BlockWriter(tmp_path / "blocks" / "blk_1") as writer:
            writer.write(b"0123456789")
        agent.answers["POST /call/locate"] = (200, located(("n1",)))
        assert b"".join(node.read("/in", 0, 10)) == b"0123456789"


def located(nodes: tuple[str, ...]) -> bytes:
    return json.dumps([{"block": "blk_1", "offset": 0, "length": 10, "nodes": nodes}]).encode()


def test_blocks_beyond_the_known_ones_are_asked_for_once(tmp_path: Path, agent: Script) -> None:
    with an_agent() as rack:
        rack.answers["GET /blocks/blk_1"] = (206, b"0123456789")
        agent.answers["POST /call/locate"] = (200, located(("n2",)))
        node = a_node(tmp_path, agent, n2=rack.url)
        for _ in range(2):
            assert b"".join(node.read("/in", 0, 10)) == b"0123456789"
    assert len(agent.seen) == 1


def test_an_output_is_cut_into_blocks_and_completed(tmp_path: Path, agent: Script) -> None:
    agent.answers["POST /call/allocate"] = (200, b'{"block": "blk_7", "nodes": ["n1", "n2", "n3"]}')
    stored = {"block": "blk_7", "length": 400_000, "nodes": ["n1"]}
    agent.answers["PUT /blocks/blk_7?pipeline=n2%2Cn3"] = (200, json.dumps(stored).encode())
    agent.answers["POST /call/complete"] = (200, b"{}")
    node = a_node(tmp_path, agent)
    output = node.create("/out/x", 3, 400_000)
    for _ in range(8):
        output.write(bytes(100_000))
    output.close()
    puts = [len(body) for asked, _, body in agent.seen if asked.startswith("PUT")]
    assert puts == [400_000, 400_000]
    assert json.loads(agent.seen[-1][2]) == {"path": "/out/x", "blocks": [stored, stored]}
    assert node.meter.counters().output_bytes == 800_000


def test_an_empty_output_is_a_file_without_blocks(tmp_path: Path, agent: Script) -> None:
    agent.answers["POST /call/complete"] = (200, b"{}")
    a_node(tmp_path, agent).create("/out/x", 1, 1000).close()
    assert [json.loads(body) for _, _, body in agent.seen] == [{"path": "/out/x", "blocks": []}]


@pytest.mark.parametrize("limit", [None, 100_000])
def test_a_full_disk_is_known_as_such(tmp_path: Path, agent: Script, limit: int | None) -> None:
    agent.answers["POST /call/allocate"] = (200, b'{"block": "blk_7", "nodes": ["n1"]}')
    agent.answers["PUT /blocks/blk_7?pipeline="] = (507, b"n1: No space left on device")
    agent.put_limit = limit
    output = a_node(tmp_path, agent).create("/out/x", 1, 10**7)
    with pytest.raises(OSError) as caught:
        output.write(bytes(600_000))
        output.close()
    assert caught.value.errno == errno.ENOSPC


def test_a_node_that_restarted_is_fetched_from_at_its_new_address(tmp_path: Path, agent: Script) -> None:
    """A reduce that knows an old address of a restarted node asks its agent for the new one."""
    with socket.create_server(("127.0.0.1", 0)) as gone:
        old = f"http://127.0.0.1:{gone.getsockname()[1]}"
    node = a_node(tmp_path, agent, n2=old)
    with pytest.raises(FetchFailed, match="refused"):
        node.fetch(output_at(1, "n2"), 1)
    agent.answers["GET /peers"] = (200, json.dumps({"peers": {"n2": agent.url}}).encode())
    agent.answers["GET /shuffle/job_0001_m_000001_0/1"] = (200, b"there")
    assert node.fetch(output_at(1, "n2"), 1) == b"there"


def test_a_partition_is_fetched_here_or_there(tmp_path: Path, agent: Script) -> None:
    folder = tmp_path / "mapout" / "job_0001_m_000000_0"
    folder.mkdir(parents=True)
    (folder / "data").write_bytes(b"onetwo")
    (folder / "index.json").write_text("[[0, 3], [3, 3]]")
    with an_agent() as rack:
        rack.answers["GET /shuffle/job_0001_m_000001_0/1"] = (200, b"there")
        node = a_node(tmp_path, agent, n2=rack.url)
        assert node.fetch(output_at(0, "n1"), 1) == b"two"
        assert node.fetch(output_at(1, "n2"), 1) == b"there"
        with pytest.raises(FetchFailed, match="job_0001_m_000002_0 from n2: 404 not here"):
            node.fetch(output_at(2, "n2"), 1)
    for index, where in ((1, "n1"), (0, "n9")):
        with pytest.raises(FetchFailed, match=f"from {where}"):
            node.fetch(output_at(index, where), 1)
    assert not [asked for asked, _, _ in agent.seen if "shuffle" in asked]


def output_at(index: int, node: str) -> MapOutputAt:
    return MapOutputAt(index=index, attempt=f"job_0001_m_{index:06d}_0", node=node)


def test_the_list_of_map_outputs_and_failures_go_through_the_own_agent(tmp_path: Path, agent: Script) -> None:
    one = {"index": 0, "attempt": "job_0001_m_000000_0", "node": "n2", "lost": True}
    answer = {"cursor": 5, "outputs": [one], "all_done": True}
    agent.answers["GET /jobs/job_0001/outputs?cursor=4"] = (200, json.dumps(answer).encode())
    agent.answers["POST /fetch_failed"] = (200, b"{}")
    node = a_node(tmp_path, agent)
    assert node.map_outputs(4) == (5, [MapOutputAt(**one)], True)
    node.fetch_failed("job_0001_m_000000_0")
    names = {"reduce_attempt": "job_0001_m_000000_0", "map_attempt": "job_0001_m_000000_0"}
    assert json.loads(agent.seen[-1][2]) == names


def test_a_connection_holds_no_more_than_the_nic_lets_in(tmp_path: Path, agent: Script) -> None:
    """The receive buffer of a connection is limited, so that a sender is bound by the receiver's rate.

    With a larger buffer, the sender would run ahead of the receiver's budget by megabytes.
    """
    context = a_context(tmp_path, agent)
    Budget.create(tmp_path / "budget", {"rx": 5e6}).close()
    link = AgentLink(replace(context, budget=tmp_path / "budget"))
    connection = link.open(context.agent_url)
    connection.connect()
    held = connection.sock.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF)
    connection.close()
    assert held == 2 * socket_bytes(5e6)  # the kernel doubles what it is told
