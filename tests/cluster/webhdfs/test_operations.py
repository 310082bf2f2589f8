"""WebHDFS operations beyond reads and writes: attributes, lists, checksums, joins, truncation and tokens."""

from __future__ import annotations

import hashlib
import struct
import zlib
from typing import Any

import pytest

from schedbed.cluster.webhdfs import rest_call, webhdfs
from schedbed.cluster.webhdfs.rest_call import PREFIX
from tests.harness.block_store import TOKEN, Cluster
from tests.harness.rest_client import RestClient, run_story

DATA = bytes(i % 253 for i in range(2500))  # three blocks of up to 1,000 bytes


def test_owner_permission_and_times_are_kept_as_they_were_set() -> None:
    async def story(client: RestClient, _: Cluster) -> None:
        await client.store("/d/a", DATA, **{"user.name": "ana", "permission": "0600"})
        status = await client.status("/d/a")
        assert (status["owner"], status["group"], status["permission"]) == ("ana", "schedbed", "600")
        for path in ("/d", "/d/a"):
            await client.done("PUT", path, "SETOWNER", owner="bo", group="staff")
            await client.done("PUT", path, "SETPERMISSION", permission="1755")
            await client.done("PUT", path, "SETTIMES", modificationtime=12345, accesstime="-1")
            await client.done("PUT", path, "SETTIMES", accesstime=1234)
            status = await client.status(path)
            assert [status[name] for name in ("owner", "group", "permission")] == ["bo", "staff", "1755"]
            assert (status["modificationTime"], status["accessTime"]) == (12345, 1234)
        assert await client.error("PUT", "/no", "SETTIMES", accesstime=1) == (404, "FileNotFoundException")
        assert await client.error("PUT", "/d", "SETPERMISSION", permission="799") == (
            400,
            "IllegalArgumentException",
        )
        assert await client.error("PUT", "/d", "SETOWNER") == (400, "IllegalArgumentException")

    run_story(story)


def test_directories_are_the_users_who_made_them() -> None:
    async def story(client: RestClient, _: Cluster) -> None:
        ana = {"user.name": "ana"}
        await client.json("PUT", "/foo", "MKDIRS", permission="733")
        await client.json("PUT", "/foo/bar/baz", "MKDIRS", permission="722", **ana)
        shown = [await client.status(path) for path in ("/foo", "/foo/bar", "/foo/bar/baz")]
        assert [(each["owner"], each["permission"]) for each in shown] == [
            ("schedbed", "733"),
            ("ana", "755"),
            ("ana", "722"),
        ]
        assert await client.json("GET", "/", "GETHOMEDIRECTORY", **ana) == {"Path": "/user/ana"}
        assert await client.json("GET", "/x", "GETTRASHROOT", **ana) == {"Path": "/user/ana/.Trash"}

    run_story(story)


def test_replication_of_a_file_changes_and_of_anything_else_does_not() -> None:
    async def story(client: RestClient, cluster: Cluster) -> None:
        await client.store("/d/a", DATA)
        assert await client.json("PUT", "/d/a", "SETREPLICATION", replication=3) == {"boolean": True}
        assert (await client.status("/d/a"))["replication"] == 3
        assert len(cluster.names.fsck()["under_replicated"]) == 3  # test_namenode sees the copies made
        for path in ("/d", "/no"):
            assert await client.json("PUT", path, "SETREPLICATION", replication=2) == {"boolean": False}
        for wrong in (0, 513):
            found = await client.error("PUT", "/d/a", "SETREPLICATION", replication=wrong)
            assert found == (400, "IllegalArgumentException")

    run_story(story)


def test_a_checksum_is_that_of_hdfs() -> None:
    def md5(*crcs: bytes) -> bytes:
        return hashlib.md5(b"".join(struct.pack(">I", zlib.crc32(crc)) for crc in crcs)).digest()

    async def story(client: RestClient, _: Cluster) -> None:
        async def checksum(path: str) -> tuple[str, str, int]:
            found = (await client.json("GET", path, "GETFILECHECKSUM"))["FileChecksum"]
            return found["algorithm"], found["bytes"], found["length"]

        await client.store("/empty", b"")
        await client.store("/one", DATA[:600])
        await client.store("/many", DATA)
        # The digest that every HDFS gives for a file without bytes.
        assert await checksum("/empty") == (
            "MD5-of-0MD5-of-0CRC32",
            "0" * 24 + "70bc8f4b72a86921468bf8e8441dce51",
            28,
        )
        whole = hashlib.md5(md5(DATA[:512], DATA[512:600])).hexdigest()
        assert await checksum("/one") == ("MD5-of-0MD5-of-512CRC32", "00000200" + "0" * 16 + whole, 28)
        assert (await checksum("/many"))[0] == "MD5-of-2MD5-of-512CRC32"
        assert await client.error("GET", "/", "GETFILECHECKSUM") == (404, "FileNotFoundException")

    run_story(story)


@pytest.mark.parametrize("length", [0, 1, 999, 1000, 1500, 2000, 2500])
def test_a_file_is_cut_where_it_was_asked_for(length: int) -> None:
    async def story(client: RestClient, cluster: Cluster) -> None:
        await client.store("/a", DATA)
        assert await client.json("POST", "/a", "TRUNCATE", newlength=length) == {"boolean": True}
        assert await client.read("/a") == DATA[:length]
        assert (await client.status("/a"))["length"] == length
        assert cluster.names.fsck()["blocks"] == -(-length // 1000)
        await client.request("POST", "/a", "APPEND", data=b"more")
        assert await client.read("/a") == DATA[:length] + b"more"

    run_story(story)


def test_a_cut_that_breaks_off_leaves_the_file_as_it_was() -> None:
    async def story(client: RestClient, cluster: Cluster) -> None:
        await client.store("/a", DATA)
        assert (await client.error("POST", "/a", "TRUNCATE", newlength=2501))[0] == 400
        cluster.agents.refuse = dict.fromkeys(cluster.agents.disks, 9)
        assert (await client.error("POST", "/a", "TRUNCATE", newlength=1500))[0] == 403
        assert await client.read("/a") == DATA

    run_story(story)


def test_files_are_joined() -> None:
    async def story(client: RestClient, cluster: Cluster) -> None:
        for name in "abc":
            await client.store(f"/{name}", name.encode() * 1500, replication=1 if name == "b" else 2)
        await client.done("POST", "/a", "CONCAT", sources="/b,/c")
        assert await client.read("/a") == b"a" * 1500 + b"b" * 1500 + b"c" * 1500
        rows = (await client.json("GET", "/", "LISTSTATUS"))["FileStatuses"]["FileStatus"]
        assert [row["pathSuffix"] for row in rows] == ["a"]
        assert len(cluster.names.fsck()["under_replicated"]) == 2  # those of /b want two replicas now
        for sources in ("/a", "/no", "/"):
            assert (await client.error("POST", "/a", "CONCAT", sources=sources))[0] in (400, 404)
        assert (await client.error("POST", "/a", "CONCAT"))[0] == 400

    run_story(story)


def test_a_long_directory_comes_in_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(webhdfs, "BATCH", 2)

    async def story(client: RestClient, _: Cluster) -> None:
        for name in "edcba":
            await client.json("PUT", f"/d/{name}", "MKDIRS")
        got: list[list[str]] = []
        rest, after = 1, ""
        while rest:
            listing = await client.json("GET", "/d", "LISTSTATUS_BATCH", startAfter=after)
            rows = listing["DirectoryListing"]["partialListing"]["FileStatuses"]["FileStatus"]
            got.append([row["pathSuffix"] for row in rows])
            rest, after = listing["DirectoryListing"]["remainingEntries"], got[-1][-1]
        assert got == [["a", "b"], ["c", "d"], ["e"]]

    run_story(story)


def test_lists_of_access_are_kept() -> None:
    async def story(client: RestClient, _: Cluster) -> None:
        async def change(op: str, spec: str | None = None) -> tuple[str, list[str]]:
            await client.done("PUT", "/a", op, **({} if spec is None else {"aclspec": spec}))
            status = (await client.json("GET", "/a", "GETACLSTATUS"))["AclStatus"]
            return status["permission"], status["entries"]

        await client.store("/a", DATA)
        base = "user::rwx,group::r--,other::---"
        assert await change("SETACL", f"{base},user:foo:rwx") == ("740", ["user:foo:rwx", "group::r--"])
        found = await change("MODIFYACLENTRIES", "user:foo:rw-,group:g:r-x,default:user:foo:r--,other::r--")
        entries = ["default:user:foo:r--", "group:g:r-x", "user:foo:rw-", "group::r--"]
        assert found == ("744", entries)
        assert (await client.status("/a"))["aclBit"] is True
        assert await change("REMOVEACLENTRIES", "user:foo:") == ("744", [*entries[:2], "group::r--"])
        assert await change("REMOVEDEFAULTACL") == ("744", ["group:g:r-x", "group::r--"])
        assert await change("REMOVEACL") == ("744", [])
        for op, spec in (("SETACL", "user:foo:rwx"), ("MODIFYACLENTRIES", "nobody"), ("SETACL", "")):
            found = await client.error("PUT", "/a", op, aclspec=spec)
            assert found == (400, "IllegalArgumentException")

    run_story(story)


def test_a_rename_may_overwrite() -> None:
    async def story(client: RestClient, _: Cluster) -> None:
        await client.store("/a", b"a")
        await client.store("/b", b"b")
        how: dict[str, Any] = {"destination": "/b", "renameoptions": "NONE"}
        assert await client.error("PUT", "/a", "RENAME", **how) == (403, "FileAlreadyExistsException")
        how["renameoptions"] = "overwrite"
        assert await client.error("PUT", "/no", "RENAME", **how) == (404, "FileNotFoundException")
        await client.json("PUT", "/a", "RENAME", **how)
        assert await client.read("/b") == b"a"

    run_story(story)


def test_errors_have_the_texts_that_clients_look_for() -> None:
    async def story(client: RestClient, _: Cluster) -> None:
        await client.store("/d/a", DATA)
        told = {
            "File /no does not exist.": ("GET", "/no", "LISTSTATUS"),
            "Path is not a file: /d": ("GET", "/d", "OPEN"),
            "/d/a (is not a directory)": ("PUT", "/d/a/b", "MKDIRS"),
            "/d/a already exists": ("PUT", "/d/a", "MKDIRS"),
            "`/d is non empty': Directory is not empty": ("DELETE", "/d", "DELETE"),
        }
        for text, request in told.items():
            assert (await client.told(*request))[2] == text
        message = (await client.told("PUT", "/d", "ALLOWSNAPSHOT"))[2]
        assert message.startswith('Invalid value for webhdfs parameter "op": ')
        assert "java.lang.IllegalArgumentException: No enum constant" in message

    run_story(story)


def test_the_token_is_taken_in_the_form_of_hadoop() -> None:
    async def story(client: RestClient, _: Cluster) -> None:
        text = (await client.json("GET", "/", "GETDELEGATIONTOKEN"))["Token"]["urlString"]
        assert TOKEN not in text and rest_call.secret_of(text.encode()) == TOKEN.encode()
        for shown, status in ((text, 200), (rest_call.encoded("other", "x", "y"), 401), (text[:-4], 401)):
            params = {"op": "LISTSTATUS", "delegation": shown}
            assert (await client.http.get(f"{PREFIX}/", params=params)).status == status
        assert (await client.json("PUT", "/", "RENEWDELEGATIONTOKEN", token=text))["long"] > 1_000_100_500

    run_story(story)


def test_credentials_are_a_file_of_hadoop() -> None:
    """The file has Hadoop's header and version, one token with its service, and no secret keys."""
    made = rest_call.credentials("t" * 200, "ana", "127.0.0.1:80")
    assert made.startswith(b"HDTS\x00\x01\x0c127.0.0.1:80")
    assert made.endswith(b"\x8f\xc8" + b"t" * 200 + b"\x12WEBHDFS delegation\x0c127.0.0.1:80\x00")
    assert b"\x00\x03ana\x03ana\x00\x00\x00\x00\x00" in made


def test_json_for_hadoops_client_has_no_type() -> None:
    """Answers to Java clients have no content type, because Hadoop's client in Spark fails on any."""

    async def story(client: RestClient, _: Cluster) -> None:
        params = {"op": "LISTSTATUS", "delegation": TOKEN}
        for agent, typed in (("Java/17.0.15", False), ("python-requests/2", True)):
            answer = await client.http.get(f"{PREFIX}/", params=params, headers={"User-Agent": agent})
            assert ("Content-Type" in answer.headers) is typed

    run_story(story)
