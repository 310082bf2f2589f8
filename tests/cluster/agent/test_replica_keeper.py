"""Replicas that an agent keeps of blocks fetched by an attempt: complete and verified, or not kept."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.harness.agents import Rig, Story, Talk, node_spec

pytestmark = pytest.mark.live
DATA = bytes(range(256)) * 1200  # 307,200 bytes: five chunks of checksums, the last not full
ATTEMPT = "job_0001_m_000000_0"


async def holder_and_reader(rig: Rig) -> tuple[Talk, Talk]:
    holder, reader = await asyncio.gather(*(rig.start(node_spec(f"n{index}")) for index in (1, 2)))
    await rig.introduce(holder, reader)
    await holder.put("/blocks/blk_1", DATA)
    return holder, reader


def aside(rig: Rig, data: bytes) -> Path:
    """Write `data`, the part of a block read by an attempt on n2, to the attempt's file; return the path."""
    path = rig.root / "n2" / "attempts" / ATTEMPT / "kept"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


async def keep(reader: Talk, **changes: Any) -> int:
    told = {"attempt": ATTEMPT, "offset": 0, "length": len(DATA), "nodes": ["n1"], **changes}
    url = f"{reader.hello.url}/blocks/blk_1/keep"
    async with reader.session.post(url, json=told) as response:
        return response.status


def blocks(rig: Rig) -> list[str]:
    return sorted(path.name for path in (rig.root / "n2" / "blocks").iterdir())


@pytest.mark.parametrize(
    ("low", "high"), [(0, 80_000), (80_000, len(DATA)), (0, len(DATA)), (70_001, 70_002)]
)
def test_the_rest_of_the_block_is_fetched_beside_what_was_read(
    live: Callable[[Story], None], low: int, high: int
) -> None:
    async def story(rig: Rig) -> None:
        _, reader = await holder_and_reader(rig)
        path = aside(rig, DATA[low:high])
        assert await keep(reader, offset=low) == 200
        assert (await reader.hear("block", event="kept"))["length"] == len(DATA)
        assert await reader.get("/blocks/blk_1") == (200, DATA)
        assert not path.exists() and blocks(rig) == ["blk_1", "blk_1.crc"]
        assert await reader.get("/blocks/blk_1/checksums") == (
            200,
            (rig.root / "n1/blocks/blk_1.crc").read_bytes(),
        )

    live(story)


@pytest.mark.parametrize(
    ("data", "changes"),
    [
        (b"x" + DATA[1:80_000], {}),  # a byte that went wrong on the way
        (DATA + b"x", {}),  # more than the block has
        (DATA[:80_000], {"nodes": ["n3"]}),  # nobody has the rest
    ],
)
def test_a_copy_that_is_not_the_block_is_thrown_away(
    live: Callable[[Story], None], data: bytes, changes: dict[str, Any]
) -> None:
    async def story(rig: Rig) -> None:
        _, reader = await holder_and_reader(rig)
        aside(rig, data)
        assert await keep(reader, **changes) == 200
        while blocks(rig):
            await asyncio.sleep(0.02)
        assert (await reader.get("/blocks/blk_1"))[0] == 404
        assert (await reader.get("/blocks/blk_1/checksums"))[0] == 404
        assert not any(message["type"] == "block" for message in reader.heard)

    live(story)


@pytest.mark.parametrize("kind", ["link", "pipe", "folder"])
def test_what_is_no_plain_file_is_not_read_but_removed(live: Callable[[Story], None], kind: str) -> None:
    async def story(rig: Rig) -> None:
        _, reader = await holder_and_reader(rig)
        path, elsewhere = aside(rig, b""), rig.root / "elsewhere"
        path.unlink()
        elsewhere.write_bytes(DATA)  # the block itself, so that nothing but the link speaks against it
        match kind:
            case "link":
                path.symlink_to(elsewhere)
            case "pipe":
                os.mkfifo(path)
            case _:
                path.mkdir()
        assert await keep(reader) == 200
        while blocks(rig):
            await asyncio.sleep(0.02)
        assert (await reader.get("/blocks/blk_1"))[0] == 404
        assert elsewhere.read_bytes() == DATA

    live(story)


def test_nonsense_is_refused(live: Callable[[Story], None]) -> None:
    async def story(rig: Rig) -> None:
        _, reader = await holder_and_reader(rig)
        assert await keep(reader) == 404  # there is nothing aside
        assert await keep(reader, attempt="../n1") == 400
        assert await keep(reader, offset="far") == 400
        assert await keep(reader, nodes=["a/b"]) == 400

    live(story)
