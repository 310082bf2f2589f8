"""The NameNode as a server: its calls get the run's time, and attempts may only use some of the calls."""

from __future__ import annotations

import asyncio
import inspect
from pathlib import Path
from typing import Any

import pytest

from schedbed.cluster.blocks import served_namenode
from schedbed.cluster.blocks.namenode import NameNode
from schedbed.cluster.blocks.served_namenode import served as served_names
from schedbed.cluster.clock import RunClock
from schedbed.cluster.masters import NameNodeDoor, calls_of, make_stub, make_table, methods_of
from schedbed.cluster.tasktracker import ATTEMPT_CALLS, answer_attempt
from schedbed.tasks.errors import BadInput
from tests.harness.block_store import World

B1 = "blk_0000000001"


def served(world: World) -> NameNodeDoor:
    """Return a server for the NameNode of `world`, before the run has begun."""
    return served_names(world.names, RunClock(0.0))


def ask(world: World, node: str, method: str, **args: Any) -> Any:
    """Return the answer to the call `method` of an attempt on `node`."""
    return asyncio.run(answer_attempt(served(world), node, method, args))


def test_every_call_of_the_door_is_served() -> None:
    """The NameNode's methods have the parameters of the door, without the time."""
    for name, call in calls_of(NameNodeDoor).items():
        if name in ("begin_clock", "time_of_day"):
            continue
        asked = list(inspect.signature(call).parameters.values())
        has = inspect.signature(getattr(NameNode, name)).parameters.values()
        assert [(p.name, p.default) for p in asked] == [(p.name, p.default) for p in has if p.name != "now_s"]


def test_a_stub_and_a_table_carry_calls_with_their_arguments() -> None:
    world = World(3)
    table = make_table(NameNodeDoor, served(world))

    async def story() -> Any:
        door = make_stub(NameNodeDoor, lambda method, args, named: table[method](*args, **named))
        await door.mkdirs("/a/b")
        assert await door.delete("/a", recursive=True)
        assert not await door.delete("/a")
        return await door.list("/")

    assert asyncio.run(story()) == []


def test_a_table_knows_the_calls_of_the_door_only() -> None:
    table = make_table(NameNodeDoor, served(World(1)))
    assert not {"stop", "_now_s", "__init__", "shutdown"} & set(table)


def test_calls_get_the_time_of_the_run_once_that_has_begun() -> None:
    world = World(1)

    async def story() -> list[float]:
        door = served(world)
        await door.mkdirs("/before")
        await door.begin_clock(RunClock.start().epoch_s - 1000)
        await door.mkdirs("/after")
        return [(await door.stat(path))["modified_s"] for path in ("/before", "/after")]

    before_s, after_s = asyncio.run(story())
    assert before_s == 0.0
    assert after_s >= 1000


@pytest.mark.parametrize("reports", [False, True])
def test_a_restarted_name_node_waits_for_reports_before_it_says_where_blocks_are(
    reports: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World(2, journal=tmp_path / "j")
    world.upload("/in/a", [10], 2)
    world.restart_name_node()
    monkeypatch.setattr(served_namenode, "SETTLE_STEP_S", 0.001)
    monkeypatch.setattr(served_namenode, "SETTLE_LIMIT_S", 0.01 if not reports else 60.0)

    async def story() -> list[str]:
        door = served(world)
        asked = asyncio.create_task(door.locate("/in/a"))
        await asyncio.sleep(0)
        assert not asked.done()
        if reports:
            for node, disk in world.disks.items():
                blocks = [{"block": block, "length": length} for block, length in disk.items()]
                await door.register(node, "r1", f"http://{node}", blocks)
        return (await asked)[0]["nodes"]

    assert asyncio.run(story()) == (["n1", "n2"] if reports else [])


# -- attempts ------------------------------------------------------------------------------------------------


def test_an_attempt_writes_and_its_file_can_be_located() -> None:
    world = World(6, racks=2)
    given = ask(
        world, "n3", "allocate", path="/out/j/x", attempt="x", replication=3, length_hint=8, exclude=["n1"]
    )
    assert given["nodes"][0] == "n3"
    assert "n1" not in given["nodes"]
    assert ask(world, "n3", "complete", path="/out/j/x", blocks=[{**given, "length": 8}]) == {}
    located = ask(world, "n5", "locate", path="/out/j/x", offset=0, length=8)
    assert located == [{"block": B1, "offset": 0, "length": 8, "nodes": given["nodes"]}]
    assert ask(world, "n5", "locate", path="/out/j/x", offset=8, length=1) == []


def test_an_attempt_speaks_for_its_own_node_whatever_it_says() -> None:
    world = World(4)
    given = ask(world, "n2", "allocate", path="/x", writer="n4", replication=1, length_hint=8, exclude=[])
    assert given["nodes"] == ["n2"]


@pytest.mark.parametrize("method", ["delete", "_settle", "stop", "__init__", "register", ""])
def test_attempts_may_call_only_what_is_theirs(method: str) -> None:
    with pytest.raises(BadInput, match="attempts may call"):
        ask(World(1), "n1", method, path="/")


def test_a_call_without_an_argument_says_which() -> None:
    with pytest.raises(BadInput, match="locate: 'offset' is missing"):
        ask(World(1), "n1", "locate", path="/")


def test_what_attempts_may_call_is_part_of_the_door() -> None:
    assert set(ATTEMPT_CALLS) < set(methods_of(NameNodeDoor))
    assert all(inspect.isfunction(call) for call in ATTEMPT_CALLS.values())
