"""Real agents with TLS: blocks written through pipelines, and a private key that no attempt can read."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from pathlib import Path

import aiohttp
import pytest

from schedbed.cluster.wire.agent_session import agent_session
from schedbed.cluster.wire.certificates import make_certificates
from tests.harness.agents import TOKEN, Rig, attempt_spec, below, node_spec

pytestmark = pytest.mark.live
TLS = make_certificates()
KEY = TLS.key.splitlines()[1].encode()
"""A line of the key, as it stands in PEM and in JSON."""
BLOCK = b"a block with a marker" * 5000


def holds_key(pid: int) -> bool:
    """Return whether the private key `KEY` is in the writable memory of the process `pid`."""
    spans: Iterator[tuple[int, int]] = (
        (int(low, 16), int(high, 16))
        for low, _, high in (
            line.split()[0].partition("-")
            for line in Path(f"/proc/{pid}/maps").read_text().splitlines()
            if line.split()[1].startswith("rw")
        )
    )
    with Path(f"/proc/{pid}/mem").open("rb", buffering=0) as memory:
        for low, high in spans:
            try:
                memory.seek(low)
                if KEY in memory.read(high - low):
                    return True
            except (OSError, OverflowError):  # a region of the kernel
                continue
    return False


@pytest.mark.skipif(os.getuid() != 0, reason="needs root: only it can read the memory of other processes")
def test_no_attempt_has_the_key_in_its_memory_its_environment_or_a_file(tmp_path: Path) -> None:
    async def story() -> None:
        rig = Rig(tmp_path)
        try:
            talk = await rig.start(tls=TLS)
            await talk.launch(attempt_spec(do="show_environment"))
            told = tmp_path / "n1" / "mapout" / "told"
            async with asyncio.timeout(60):
                while not told.exists() or not told.read_bytes():
                    await asyncio.sleep(0.05)
            pid = talk.hello.pid
            assert holds_key(pid)  # of the agent, or this would look in the wrong place
            assert below(pid) and not any(map(holds_key, below(pid)))
            assert TLS.authority.splitlines()[1] in told.read_text()
            for path in (path for path in tmp_path.rglob("*") if path.is_file()):
                assert KEY not in path.read_bytes() and b"PRIVATE KEY" not in path.read_bytes(), path
        finally:
            await rig.close()

    asyncio.run(story())


def test_blocks_pass_a_pipeline_of_agents_with_tls_and_a_stranger_in_clear_gets_none(tmp_path: Path) -> None:
    async def story() -> None:
        rig = Rig(tmp_path)
        try:
            first, second = [await rig.start(node_spec(name), tls=TLS) for name in ("n1", "n2")]
            await rig.introduce(first, second)
            assert first.hello.url.startswith("https://")
            status, said = await first.put("/blocks/b1?pipeline=n2&unpaced=1", BLOCK)
            assert status == 200 and said["nodes"] == ["n1", "n2"]
            assert await second.get("/blocks/b1?unpaced=1") == (200, BLOCK)
            clear = second.hello.url.replace("https://", "http://")
            async with agent_session(TOKEN, None) as stranger:
                with pytest.raises(aiohttp.ClientError):
                    await stranger.get(f"{clear}/blocks/b1")
        finally:
            await rig.close()

    asyncio.run(story())


def test_an_agent_that_was_killed_and_one_cut_off_serve_again_with_tls(tmp_path: Path) -> None:
    async def story() -> None:
        rig = Rig(tmp_path)
        try:
            first, second = [await rig.start(node_spec(name), tls=TLS) for name in ("n1", "n2")]
            await rig.introduce(first, second)
            await first.send("partition", blocked=["n2"])
            await first.send("report_blocks")
            await first.hear("blocks")
            assert (await first.put("/blocks/b1?pipeline=n2&unpaced=1", BLOCK))[1]["nodes"] == ["n1"]
            await first.send("partition", blocked=[])
            await second.machine.kill()
            again = await rig.start(node_spec("n2"), tls=TLS)
            await rig.introduce(first, again)
            assert (await first.put("/blocks/b2?pipeline=n2&unpaced=1", BLOCK))[1]["nodes"] == ["n1", "n2"]
            assert await again.get("/blocks/b2?unpaced=1") == (200, BLOCK)
        finally:
            await rig.close()

    asyncio.run(story())
