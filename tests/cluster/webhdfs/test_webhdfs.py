"""WebHDFS for ordinary clients: the JSON of Hadoop's documentation, redirects, errors and the token."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from schedbed.cluster.clock import RunClock
from schedbed.cluster.spec import BlockSettings
from schedbed.cluster.webhdfs.rest_call import PREFIX, BlockStore
from schedbed.cluster.webhdfs.webhdfs import WebHdfs
from tests.harness.block_store import TOKEN, Cluster, fake_cluster
from tests.harness.rest_client import RestClient, run_story

DATA = bytes(i % 253 for i in range(2500))


def test_what_is_created_can_be_opened_whole_and_in_part() -> None:
    async def story(client: RestClient, cluster: Cluster) -> None:
        assert (await client.store("/user/ana/x y.txt", DATA)).status == 201
        whole = await client.request("GET", "/user/ana/x y.txt", "OPEN")
        assert await whole.read() == DATA
        assert whole.headers["Content-Type"] == "application/octet-stream"
        part = await client.request("GET", "/user/ana/x y.txt", "OPEN", offset=990, length=20)
        assert await part.read() == DATA[990:1010]
        assert await (await client.request("GET", "/user/ana/x y.txt", "OPEN", offset=2500)).read() == b""
        assert len(await cluster.door.locate("/user/ana/x y.txt")) == 3

    run_story(story)


def test_create_in_one_step_and_with_a_location_as_json() -> None:
    async def story(client: RestClient, _: Cluster) -> None:
        assert (await client.request("PUT", "/a", "CREATE", data=DATA)).status == 201
        answer = await client.json("PUT", "/b", "CREATE", noredirect="true")
        assert (await client.http.session.put(answer["Location"], data=b"")).status == 201
        assert (await client.json("GET", "/b", "GETFILESTATUS"))["FileStatus"]["length"] == 0

    run_story(story)


def test_create_keeps_a_file_unless_overwriting_and_honours_block_size_and_replication() -> None:
    async def story(client: RestClient, _: Cluster) -> None:
        await client.store("/a", DATA)
        again = await client.store("/a", b"new")
        assert again.status == 403
        assert (await again.json())["RemoteException"]["exception"] == "FileAlreadyExistsException"
        await client.store("/a", b"new", overwrite="true", blocksize=2, replication=3)
        assert await (await client.request("GET", "/a", "OPEN")).read() == b"new"
        status = (await client.json("GET", "/a", "GETFILESTATUS"))["FileStatus"]
        assert (status["blockSize"], status["replication"]) == (2, 3)

    run_story(story)


def test_append_adds_to_a_file_and_one_that_breaks_off_adds_nothing() -> None:
    async def story(client: RestClient, cluster: Cluster) -> None:
        await client.store("/a", DATA)
        first = await client.request("POST", "/a", "APPEND")
        assert first.status == 307
        assert (await client.http.session.post(first.headers["Location"], data=DATA)).status == 200
        cluster.agents.refuse = dict.fromkeys(cluster.agents.disks, 9)
        response = await client.request("POST", "/a", "APPEND", data=b"more")
        assert response.status == 403
        assert await (await client.request("GET", "/a", "OPEN")).read() == DATA + DATA
        assert (await client.json("GET", "/a", "GETFILESTATUS"))["FileStatus"]["length"] == 5000
        assert cluster.names.fsck()["blocks"] == 6
        assert await client.error("POST", "/nothing", "APPEND", data=b"x") == (404, "FileNotFoundException")

    run_story(story)


def test_the_status_of_files_and_directories() -> None:
    async def story(client: RestClient, _: Cluster) -> None:
        await client.store("/d/a", DATA)
        await client.json("PUT", "/d/sub", "MKDIRS")
        file = (await client.json("GET", "/d/a", "GETFILESTATUS"))["FileStatus"]
        assert file == {
            "accessTime": 1_000_100_500,
            "blockSize": 1000,
            "childrenNum": 0,
            "group": "schedbed",
            "length": 2500,
            "modificationTime": 1_000_100_500,
            "owner": "schedbed",
            "pathSuffix": "",
            "permission": "644",
            "replication": 2,
            "type": "FILE",
        }
        rows = (await client.json("GET", "/d", "LISTSTATUS"))["FileStatuses"]["FileStatus"]
        assert [(row["pathSuffix"], row["type"]) for row in rows] == [("a", "FILE"), ("sub", "DIRECTORY")]
        alone = (await client.json("GET", "/d/a", "LISTSTATUS"))["FileStatuses"]["FileStatus"]
        assert [row["pathSuffix"] for row in alone] == [""]
        root = (await client.json("GET", "/", "LISTSTATUS"))["FileStatuses"]["FileStatus"]
        assert [row["pathSuffix"] for row in root] == ["d"]

    run_story(story)


def test_content_summary_and_block_locations() -> None:
    async def story(client: RestClient, cluster: Cluster) -> None:
        await client.store("/d/a", DATA)
        summary = (await client.json("GET", "/d", "GETCONTENTSUMMARY"))["ContentSummary"]
        assert summary == {
            "directoryCount": 1,
            "fileCount": 1,
            "length": 2500,
            "quota": -1,
            "spaceConsumed": 5000,
            "spaceQuota": -1,
        }
        answer = await client.json("GET", "/d/a", "GETFILEBLOCKLOCATIONS", offset=1500, length=1)
        (location,) = answer["BlockLocations"]["BlockLocation"]
        assert (location["offset"], location["length"], location["corrupt"]) == (1000, 1000, False)
        nodes = await cluster.door.nodes()
        names = [nodes[host]["url"].removeprefix("http://") for host in location["hosts"]]
        assert location["names"] == names
        assert location["topologyPaths"] == [f"/r1/{name}" for name in names]
        assert location["storageTypes"] == ["DISK", "DISK"]

    run_story(story)


def test_rename_and_delete_answer_booleans() -> None:
    async def story(client: RestClient, _: Cluster) -> None:
        await client.store("/a", DATA)
        await client.store("/b", DATA)

        async def rename(src: str, dst: str) -> Any:
            return await client.json("PUT", src, "RENAME", destination=dst)

        assert await rename("/a", "/c/a") == {"boolean": False}  # HDFS makes no directories for that
        await client.json("PUT", "/c", "MKDIRS")
        assert await rename("/a", "/c") == {"boolean": True}
        assert await rename("/nothing", "/x") == {"boolean": False}
        assert await rename("/b", "/c/a") == {"boolean": False}
        assert await client.error("DELETE", "/c", "DELETE") == (403, "PathIsNotEmptyDirectoryException")
        assert await client.json("DELETE", "/c", "DELETE", recursive="true") == {"boolean": True}
        assert await client.json("DELETE", "/c", "DELETE") == {"boolean": False}

    run_story(story)


@pytest.mark.parametrize(
    ("method", "path", "op", "params", "expected"),
    [
        ("GET", "/nothing", "GETFILESTATUS", {}, (404, "FileNotFoundException")),
        ("GET", "/nothing", "OPEN", {}, (404, "FileNotFoundException")),
        ("GET", "/d", "OPEN", {}, (404, "FileNotFoundException")),
        ("GET", "/d/a", "OPEN", {"offset": "9999"}, (400, "IllegalArgumentException")),
        ("GET", "/d/a", "OPEN", {"offset": "-1"}, (400, "IllegalArgumentException")),
        ("GET", "/d/a", "FLY", {}, (400, "IllegalArgumentException")),
        ("PUT", "/d/a", "OPEN", {}, (400, "IllegalArgumentException")),
        ("PUT", "/d/a", "RENAME", {}, (400, "IllegalArgumentException")),
        ("PUT", "/d/a/b", "MKDIRS", {}, (403, "ParentNotDirectoryException")),
        ("PUT", "/x", "CREATE", {"data": "true", "blocksize": "0"}, (400, "IllegalArgumentException")),
    ],
)
def test_errors_are_remote_exceptions(
    method: str, path: str, op: str, params: dict[str, str], expected: tuple[int, str]
) -> None:
    async def story(client: RestClient, _: Cluster) -> None:
        await client.store("/d/a", DATA)
        assert await client.error(method, path, op, **params) == expected

    run_story(story)


def test_a_block_without_a_good_replica_is_an_error_not_a_short_file() -> None:
    async def story(client: RestClient, cluster: Cluster) -> None:
        await client.store("/a", DATA)
        for disk in cluster.agents.disks.values():
            disk.clear()
        assert await client.error("GET", "/a", "OPEN") == (403, "BlockMissingException")

    run_story(story)


def test_only_bearers_of_the_token_are_answered() -> None:
    async def story(client: RestClient, cluster: Cluster) -> None:
        cluster.calls.clear()
        for extra in (
            {},
            {"params": {"delegation": "wrong"}},
            {"headers": {"Authorization": "Bearer wrong"}},
        ):
            params = {"op": "LISTSTATUS", **extra.get("params", {})}
            response = await client.http.get(PREFIX + "/", params=params, headers=extra.get("headers"))
            assert response.status == 401
            assert (await response.json())["RemoteException"]["exception"] == "InvalidToken"
        assert cluster.calls == []
        headers = {"Authorization": f"Bearer {TOKEN}"}
        response = await client.http.get(PREFIX + "/", params={"op": "LISTSTATUS"}, headers=headers)
        assert response.status == 200

    run_story(story)


def test_it_listens_on_the_loopback_interface_only() -> None:
    async def story() -> None:
        async with fake_cluster(1) as cluster:
            runner = await WebHdfs(BlockStore(cluster.door, TOKEN, BlockSettings(), RunClock(0.0))).serve()
            try:
                assert [address[0] for address in runner.addresses] == ["127.0.0.1"]
            finally:
                await runner.cleanup()

    asyncio.run(story())
