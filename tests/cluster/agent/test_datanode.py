"""The DataNode of live agents: pipelines, checksums, full disks, network partitions, invalid block names."""

from __future__ import annotations

import asyncio
import resource
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from schedbed.cluster.agent.link_budgets import CORE_SWITCH, LINK_BUCKET, downlink_of, make_links, uplink_of
from schedbed.cluster.spec import LinkRates
from schedbed.tasks.pacing import Budget
from tests.harness.agents import PATIENCE_S, Rig, Story, Talk, node_spec

pytestmark = pytest.mark.live
DATA = bytes(range(256)) * 1200  # 307,200 bytes: five chunks of checksums, the last not full


def stored(rig: Rig, node: str = "n1") -> list[str]:
    return sorted(path.name for path in (rig.root / node / "blocks").iterdir())


async def three(rig: Rig) -> list[Talk]:
    talks = await asyncio.gather(*(rig.start(node_spec(f"n{index}")) for index in (1, 2, 3)))
    await rig.introduce(*talks)
    return talks


async def in_pieces(data: bytes, then: Exception | None = None) -> AsyncIterator[bytes]:
    for low in range(0, len(data), 100_000):
        yield data[low : low + 100_000]
    if then is not None:
        raise then


def test_a_block_is_written_and_read_in_whole_and_in_part(live: Callable[[Story], None]) -> None:
    async def story(rig: Rig) -> None:
        talk = await rig.start()
        status, answer = await talk.put("/blocks/blk_1", in_pieces(DATA))
        assert (status, answer) == (200, {"block": "blk_1", "length": len(DATA), "nodes": ["n1"]})
        added = await talk.hear("block")
        assert added == {"type": "block", "event": "added", "block": "blk_1", "length": len(DATA)}
        assert await talk.get("/blocks/blk_1") == (200, DATA)
        assert await talk.get("/blocks/blk_1", Range="bytes=70000-200000") == (206, DATA[70000:200001])
        assert await talk.get("/blocks/blk_1", Range="bytes=300000-") == (206, DATA[300000:])
        assert await talk.get("/blocks/blk_1", Range="bytes=-5") == (206, DATA[-5:])
        assert (await talk.get("/blocks/blk_1", Range=f"bytes={len(DATA)}-"))[0] == 416
        assert (await talk.get("/blocks/blk_1", Range="bytes=x"))[0] == 416
        assert (await talk.get("/blocks/blk_2"))[0] == 404
        assert (await talk.put("/blocks/blk_0", b""))[1]["length"] == 0
        assert await talk.get("/blocks/blk_0") == (200, b"")
        await talk.send("delete_block", block="blk_1")
        assert (await talk.hear("block", event="removed"))["block"] == "blk_1"
        assert (await talk.get("/blocks/blk_1"))[0] == 404
        assert stored(rig) == ["blk_0", "blk_0.crc"]

    live(story)


def test_a_pipeline_stores_on_all_and_a_broken_node_is_not_listed(live: Callable[[Story], None]) -> None:
    async def story(rig: Rig) -> None:
        one, two, three_ = await three(rig)
        status, answer = await one.put("/blocks/blk_1?pipeline=n2,n3", in_pieces(DATA))
        assert (status, answer["nodes"]) == (200, ["n1", "n2", "n3"])
        for talk in (one, two, three_):
            assert (await talk.hear("block", event="added"))["length"] == len(DATA)
            assert await talk.get("/blocks/blk_1") == (200, DATA)
        await two.send("disk", full=True)
        await two.send("report_blocks")
        await two.hear("blocks")
        status, answer = await one.put("/blocks/blk_4?pipeline=n2,n3", in_pieces(DATA))
        assert (status, answer["nodes"]) == (200, ["n1", "n3"])
        assert await three_.get("/blocks/blk_4") == (200, DATA)
        await two.send("disk", full=False)
        await two.send("report_blocks")
        await two.hear("blocks")
        await three_.machine.kill()
        status, answer = await one.put("/blocks/blk_5?pipeline=n3,n2", in_pieces(DATA))
        assert (status, answer["nodes"]) == (200, ["n1", "n2"])
        status, answer = await one.put("/blocks/blk_2?pipeline=n2,n3", in_pieces(DATA))
        assert (status, answer["nodes"]) == (200, ["n1", "n2"])
        await two.machine.kill()
        status, answer = await one.put("/blocks/blk_3?pipeline=n2,n9", in_pieces(DATA))
        assert (status, answer["nodes"]) == (200, ["n1"])

    live(story)


def test_a_writer_that_goes_away_leaves_no_half_block_anywhere(live: Callable[[Story], None]) -> None:
    async def story(rig: Rig) -> None:
        one, two, three_ = await three(rig)
        with pytest.raises((aiohttp.ClientError, RuntimeError)):
            await one.put("/blocks/blk_1?pipeline=n2,n3", in_pieces(DATA, RuntimeError("gone")))
        for talk in (one, two, three_):
            async with asyncio.timeout(PATIENCE_S):
                while stored(rig, talk.machine.node.node):
                    await asyncio.sleep(0.02)
            await talk.send("report_blocks")
            assert (await talk.hear("blocks"))["blocks"] == []

    live(story)


@pytest.mark.parametrize("at", [10, 300_000])
def test_a_corrupt_block_is_refused_and_told(live: Callable[[Story], None], at: int) -> None:
    async def story(rig: Rig) -> None:
        talk = await rig.start()
        data = DATA * 8  # beyond the first piece, a read finds out when the response has begun
        await talk.put("/blocks/blk_1", data)
        spoil(rig.root / "n1" / "blocks" / "blk_1", at * 8)
        try:
            status, _ = await talk.get("/blocks/blk_1")
            assert status == 410
        except aiohttp.ClientPayloadError:
            assert at > 10  # broken off in the middle
        told = await talk.hear("block", event="corrupt")
        assert (told["block"], told["length"]) == ("blk_1", len(data))
        assert (await talk.get("/blocks/blk_1"))[0] == 410
        await talk.send("report_blocks")
        assert (await talk.hear("blocks"))["blocks"] == []
        await talk.put("/blocks/blk_1", data)
        assert await talk.get("/blocks/blk_1") == (200, data)

    live(story)


def spoil(path: Path, at: int) -> None:
    with path.open("r+b") as file:
        file.seek(at)
        byte = file.read(1)
        file.seek(at)
        file.write(bytes([byte[0] ^ 1]))


def test_a_full_disk_is_507_and_nothing_is_left(live: Callable[[Story], None]) -> None:
    async def story(rig: Rig) -> None:
        one, two, _ = await three(rig)
        resource.prlimit(one.hello.pid, resource.RLIMIT_FSIZE, (200_000, 200_000))
        status, answer = await one.put("/blocks/blk_1?pipeline=n2", in_pieces(DATA))
        assert status == 507 and answer.startswith("n1: ")
        assert stored(rig) == []
        status, answer = await two.put("/blocks/blk_2?pipeline=n1", in_pieces(DATA))
        assert (status, answer["nodes"]) == (200, ["n2"])
        assert (await one.put("/blocks/blk_3", b"small"))[0] == 200
        assert (await one.get("/blocks/blk_1"))[0] == 404

    live(story)


def test_replicas_are_copied_on_demand(live: Callable[[Story], None]) -> None:
    async def story(rig: Rig) -> None:
        one, two, three_ = await three(rig)
        await one.put("/blocks/blk_1", DATA)
        await one.send("replicate", block="blk_1", to=["n3", "n2"])
        for talk in (two, three_):
            assert (await talk.hear("block", event="added"))["block"] == "blk_1"
            assert await talk.get("/blocks/blk_1") == (200, DATA)
        await one.put("/blocks/blk_2", DATA)
        spoil(rig.root / "n1" / "blocks" / "blk_2", 200_000)
        await one.send("replicate", block="blk_2", to=["n2"])
        await one.hear("block", event="corrupt", block="blk_2")
        assert (await two.get("/blocks/blk_2"))[0] == 404

    live(story)


def test_a_partition_keeps_data_out_both_ways(live: Callable[[Story], None]) -> None:
    async def story(rig: Rig) -> None:
        one, two, _ = await three(rig)
        await one.put("/blocks/blk_1", DATA)
        await one.send("partition", blocked=["n2"])
        await one.send("report_blocks")
        await one.hear("blocks")
        assert (await one.get("/blocks/blk_1", **{"X-Node": "n2"}))[0] == 503
        assert (await one.get("/blocks/blk_1", **{"X-Node": "n3"}))[0] == 200
        assert (await one.put("/blocks/blk_2?pipeline=n2", DATA))[1]["nodes"] == ["n1"]
        assert (await two.get("/blocks/blk_2"))[0] == 404
        await one.send("partition", blocked=[])
        await one.send("report_blocks")
        await one.hear("blocks")
        assert (await one.put("/blocks/blk_3?pipeline=n2", DATA))[1]["nodes"] == ["n1", "n2"]

    live(story)


def test_no_name_leads_out_of_the_folder(live: Callable[[Story], None]) -> None:
    names = ["..%2F..%2Fetc%2Fpasswd", ".hidden", "blk_1.crc", "%00", "x" * 200, "a%20b"]

    async def story(rig: Rig) -> None:
        talk = await rig.start()
        await talk.put("/blocks/blk_1", DATA)
        for path in (f"/blocks/{name}" for name in names):
            for status, text in (await talk.get(path), await talk.put(path, b"x")):
                words = text.decode() if isinstance(text, bytes) else text
                assert status == 400 and len(words.splitlines()) == 1, words
        assert (await talk.put("/blocks/blk_2?pipeline=../n2", b"x"))[0] == 400
        assert stored(rig) == ["blk_1", "blk_1.crc"]

    live(story)


def charged(rig: Rig) -> dict[str, float]:
    """Return the bytes charged so far to the budgets of node n1: disk, received (`rx`) and sent (`tx`)."""
    budget = Budget.open(rig.root / "n1" / "budget")
    used = {name: budget.used(name) for name in ("disk", "rx", "tx")}
    budget.close()
    return used


def test_reads_and_writes_keep_to_the_declared_rates(live: Callable[[Story], None]) -> None:
    """Every byte is charged once, and none arrives earlier than the declared rate allows.

    Transfers may take longer on a busy host.
    """

    async def story(rig: Rig) -> None:
        talk = await rig.start(node_spec(disk_bps=4e6, network_bps=2e6))
        size = 1_000_000
        elsewhere: dict[str, str] = {"X-Node": "n9"}
        own = {"X-Node": "n1"}

        async def timed(work: Any, **charges: int) -> float:
            before, began_s = charged(rig), time.monotonic()
            assert (await work)[0] == 200
            took_s = time.monotonic() - began_s
            more = {name: used - before[name] for name, used in charged(rig).items()}
            assert more == {"disk": 0, "rx": 0, "tx": 0, **charges}
            return took_s

        await timed(talk.put("/blocks/blk_1?unpaced=1", bytes(size)))
        in_s = await timed(talk.put("/blocks/blk_2", bytes(size), **elsewhere), disk=size, rx=size)
        assert in_s > size / 2e6
        own_s = await timed(talk.put("/blocks/blk_3", bytes(2 * size), **own), disk=2 * size)
        assert own_s > 2 * size / 4e6
        out_s = await timed(talk.get("/blocks/blk_1", **elsewhere), disk=size, tx=size)
        assert out_s > size / 2e6
        await talk.send("rates", network=0.5)
        await talk.send("report_blocks")
        await talk.hear("blocks")
        out_s = await timed(talk.get("/blocks/blk_1", **elsewhere), disk=size, tx=size)
        assert out_s > size / 1e6
        usage = [message["usage"] for message in talk.heard if message["type"] == "beat"]
        assert max(each["net_util"] for each in usage) > 0.5

    live(story)


def test_what_leaves_a_rack_shares_its_uplink_and_what_stays_does_not(live: Callable[[Story], None]) -> None:
    async def story(rig: Rig) -> None:
        links = rig.root / "links"
        make_links(links, [node_spec("n1", rack="r1")], LinkRates(up_bps=2e6), 1)
        one = await rig.start(node_spec("n1", rack="r1"), links=links)
        two = await rig.start(node_spec("n2", rack="r1"), links=links)
        far = await rig.start(node_spec("n3", rack="r2"))
        await rig.introduce(one, two, far)
        await one.put("/blocks/blk_1?pipeline=n2&unpaced=1", bytes(1_000_000))

        async def timed(*readers: tuple[Talk, str]) -> tuple[float, float]:
            """Return the duration of the reads in seconds, and the bytes charged to the rack's uplink."""
            before, began_s = up.used(LINK_BUCKET), time.monotonic()
            answers = await asyncio.gather(
                *(talk.get("/blocks/blk_1", **{"X-Node": to}) for talk, to in readers)
            )
            assert [status for status, _ in answers] == [200] * len(readers)
            return time.monotonic() - began_s, up.used(LINK_BUCKET) - before

        up = Budget.open(links / uplink_of("r1"))
        _, through = await timed((one, "n2"))
        assert through == 0
        took_s, through = await timed((one, "n3"))
        assert through == 1_000_000 and took_s > 1e6 / 2e6
        took_s, through = await timed((one, "n3"), (two, "n3"))
        assert through == 2_000_000 and took_s > 2e6 / 2e6
        up.close()

    live(story)


def test_senders_of_two_racks_share_the_downlink_of_a_third_and_the_core(
    live: Callable[[Story], None],
) -> None:
    """Reads and a written block are charged once each, and together never exceed the downlink's rate."""

    async def story(rig: Rig) -> None:
        links, size = rig.root / "links", 1_000_000
        racks = enumerate(("r1", "r2", "r/3", "r/3"), 1)
        specs = [node_spec(f"n{number}", rack=rack) for number, rack in racks]
        make_links(links, specs, LinkRates(down_bps=2e6, core_bps=1e9), 1)
        nodes = [await rig.start(spec, links=links) for spec in specs]
        await rig.introduce(*nodes)
        one, two, three, _ = nodes
        for sender in (one, two, three):
            await sender.put("/blocks/blk_1?unpaced=1", bytes(size))
        down, core = Budget.open(links / downlink_of("r/3")), Budget.open(links / CORE_SWITCH)
        began_s = time.monotonic()
        reads = (talk.get("/blocks/blk_1", **{"X-Node": to}) for talk, to in ((one, "n3"), (two, "n4")))
        assert [status for status, _ in await asyncio.gather(*reads)] == [200, 200]
        assert time.monotonic() - began_s > 2 * size / 2e6
        assert (down.used(LINK_BUCKET), core.used(LINK_BUCKET)) == (2 * size, 2 * size)
        began_s = time.monotonic()
        status, _ = await one.put("/blocks/blk_2?pipeline=n3,n4", bytes(size), **{"X-Node": "n1"})
        assert status == 200 and time.monotonic() - began_s > size / 2e6
        assert (down.used(LINK_BUCKET), core.used(LINK_BUCKET)) == (3 * size, 3 * size)
        await three.get("/blocks/blk_1", **{"X-Node": "n4"})
        assert (down.used(LINK_BUCKET), core.used(LINK_BUCKET)) == (3 * size, 3 * size)
        down.close()
        core.close()

    live(story)
