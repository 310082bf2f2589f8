"""The agent's HTTP server: the token, invalid requests, shuffle, map outputs, and calls to the masters."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import aiohttp
import pytest

from tests.harness.agents import PATIENCE_S, Rig, Story, Talk, attempt_spec

pytestmark = pytest.mark.live


async def post(talk: Talk, path: str, data: Any) -> tuple[int, str]:
    async with talk.session.post(talk.hello.url + path, data=data) as response:
        return response.status, await response.text()


async def outputs(talk: Talk, cursor: int) -> dict[str, Any]:
    async with talk.session.get(f"{talk.hello.url}/jobs/job_0001/outputs?cursor={cursor}") as response:
        return await response.json()


def output(index: int, attempt: str = "a") -> dict[str, Any]:
    return {"index": index, "attempt": attempt, "node": "n1", "lost": False}


def test_without_the_token_every_door_is_shut(live: Callable[[Story], None]) -> None:
    async def story(rig: Rig) -> None:
        talk = await rig.start()
        for token in (
            "",
            "Bearer ",
            "Bearer wrong",
            "secret",
            "Bearer sécret",
            "Bearer \udcff",
            "Bearer " + "x" * 9000,
        ):
            headers = {"Authorization": token} if token else {}
            async with aiohttp.ClientSession(headers=headers) as session:
                for path in ("/control", "/blocks/b", "/shuffle/a/0", "/peers", "/jobs/job_0001/outputs"):
                    async with session.get(talk.hello.url + path) as response:
                        assert response.status == 401
                async with session.put(talk.hello.url + "/blocks/b", data=b"x") as response:
                    assert response.status == 401
        assert not list((rig.root / "n1" / "blocks").iterdir())
        assert talk.hello.url.startswith("http://127.0.0.1:")

    live(story)


def test_partitions_of_a_map_output_are_served(live: Callable[[Story], None]) -> None:
    async def story(rig: Rig) -> None:
        talk = await rig.start()
        attempt = "job_0001_m_000000_0"
        report = await talk.run(attempt_spec(attempt, "map_output", partitions=["abc", "", "de" * 700_000]))
        assert report["partitions"] == [3, 0, 1_400_000]
        assert await talk.get(f"/shuffle/{attempt}/0") == (200, b"abc")
        assert await talk.get(f"/shuffle/{attempt}/1") == (200, b"")
        assert await talk.get(f"/shuffle/{attempt}/2", **{"X-Node": "n2"}) == (200, b"de" * 700_000)
        for path, expected in {
            f"/shuffle/{attempt}/3": 404,
            f"/shuffle/{attempt}/-1": 404,
            f"/shuffle/{attempt}/x": 404,
            "/shuffle/job_0001_m_000009_0/0": 404,
            "/shuffle/..%2Fattempts/0": 400,
        }.items():
            assert (await talk.get(path))[0] == expected, path
        await talk.send("forget_job", job="job_0001")
        await talk.send("report_blocks")
        await talk.hear("blocks")
        assert (await talk.get(f"/shuffle/{attempt}/0"))[0] == 404

    live(story)


def test_map_outputs_are_waited_for_and_read_with_a_cursor(live: Callable[[Story], None]) -> None:
    async def story(rig: Rig) -> None:
        talk = await rig.start()
        waiting = asyncio.create_task(outputs(talk, 0))
        await asyncio.sleep(0.1)
        assert not waiting.done()
        await talk.send("outputs", job="job_0001", outputs=[output(0), output(1)], all_done=False)
        assert await waiting == {"cursor": 2, "outputs": [output(0), output(1)], "all_done": False}
        waiting = asyncio.create_task(outputs(talk, 2))
        await talk.send("outputs", job="job_0001", outputs=[output(0, "b")], all_done=True)
        assert await waiting == {"cursor": 3, "outputs": [output(0, "b")], "all_done": True}
        assert await outputs(talk, 3) == {"cursor": 3, "outputs": [], "all_done": True}
        assert (await talk.get("/jobs/job_0001/outputs?cursor=-1"))[0] == 400

    live(story)


def test_calls_go_to_the_masters_and_back(live: Callable[[Story], None]) -> None:
    async def story(rig: Rig) -> None:
        talk = await rig.start()
        first = asyncio.create_task(post(talk, "/call/locate", '{"path": "/in"}'))
        asked = await talk.hear("call")
        assert (asked["method"], asked["args"]) == ("locate", {"path": "/in"})
        second = asyncio.create_task(post(talk, "/call/complete", "{}"))
        other = await talk.hear("call")
        await talk.send("answer", id=other["id"], error="no such file")
        await talk.send("answer", id=asked["id"], result=[1, 2])
        await talk.send("answer", id=999, result=None)
        assert await first == (200, "[1, 2]")
        assert await second == (502, "no such file")
        for path, body, expected in (
            ("/call/format", "{}", 404),
            ("/call/locate", "[]", 400),
            ("/call/locate", "{", 400),
            ("/call/locate", b"\xff", 400),
            ("/fetch_failed", "{}", 400),
        ):
            status, text = await post(talk, path, body)
            assert status == expected and len(text.splitlines()) == 1
        body = '{"reduce_attempt": "job_0001_r_000000_0", "map_attempt": "job_0001_m_000000_0"}'
        assert (await post(talk, "/fetch_failed", body))[0] == 200
        assert (await talk.hear("fetch_failed"))["map_attempt"] == "job_0001_m_000000_0"

    live(story)


def test_what_is_said_while_nobody_listens_is_said_later(live: Callable[[Story], None]) -> None:
    async def story(rig: Rig) -> None:
        talk = await rig.start()
        await talk.launch(attempt_spec(do="sleep", wall_s=0.3))
        await talk.hear("beat")
        await talk.socket.close()
        await asyncio.sleep(0.5)
        talk.socket = await talk.session.ws_connect(f"{talk.hello.url}/control")
        assert (await talk.socket.receive_json())["type"] == "hello"
        assert (await talk.hear("ended"))["state"] == "succeeded"
        newer = await talk.session.ws_connect(f"{talk.hello.url}/control")
        assert (await newer.receive_json())["type"] == "hello"
        with pytest.raises(TypeError):
            while True:  # beats, then the close
                await talk.socket.receive_json(timeout=PATIENCE_S)
        await newer.close()

    live(story)
