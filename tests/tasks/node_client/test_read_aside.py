"""An attempt keeps what it reads of a block as one range without gaps, if the NameNode wants a replica."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from schedbed.tasks.node_client.node import HttpNode
from schedbed.tasks.specs import TaskKind
from tests.harness.memory_node import a_spec
from tests.tasks.node_client.test_node_client import Script, a_context, an_agent, block

ATTEMPT = "job_0001_m_000000_0"


@pytest.fixture
def agents() -> Iterator[tuple[Script, Script]]:
    """Yield two fake agents: the attempt's own, which wants a replica, and one that holds the block."""
    with an_agent() as own, an_agent() as holder:
        own.answers["POST /call/keeps"] = (200, b'{"keep": true}')
        own.answers["POST /blocks/blk_1/keep"] = (200, b"{}")
        yield own, holder


def a_reader(root: Path, agents: tuple[Script, Script], offset: int = 0, budget: float = 0.5) -> HttpNode:
    """Return the client of a map whose split begins at `offset` in a file of three blocks of 10 bytes.

    All blocks are on n2. `budget` is the map's `keep_budget`, the budget for kept replicas.
    """
    (root / "attempts" / ATTEMPT).mkdir(parents=True)
    blocks = tuple(block(number, ("n2",), offset=10 * number) for number in range(3))
    spec = a_spec(TaskKind.MAP, file="/in", blocks=blocks, offset=offset, length=5, keep_budget=budget)
    return HttpNode(spec, a_context(root, agents[0], n2=agents[1].url))


def fetch(node: HttpNode, holder: Script, number: int, low: int, high: int) -> None:
    """Read the bytes from `low` to `high` of a block of the file, and check them."""
    holder.answers[f"GET /blocks/blk_{number}"] = (206, b"0123456789"[low:high])
    assert b"".join(node.read("/in", 10 * number + low, 10 * number + high)) == b"0123456789"[low:high]


def asked(own: Script, what: str) -> list[dict[str, object]]:
    return [json.loads(body) for path, _, body in own.seen if path == what]


def test_what_is_read_of_the_own_block_is_given_to_the_agent(
    tmp_path: Path, agents: tuple[Script, Script]
) -> None:
    own, holder = agents
    node = a_reader(tmp_path, agents, offset=12)
    fetch(node, holder, 0, 9, 10)  # the byte before the split's block, where a reader of lines begins
    fetch(node, holder, 1, 2, 7)
    fetch(node, holder, 1, 7, 9)  # goes on where it was
    fetch(node, holder, 1, 2, 4)  # is there already
    fetch(node, holder, 2, 0, 3)  # of the next block
    assert (tmp_path / "attempts" / ATTEMPT / "kept").read_bytes() == b"2345678"
    node.ended(succeeded=True)
    assert asked(own, "POST /call/keeps") == [{"block": "blk_1", "budget": 0.5}]
    told = {"attempt": ATTEMPT, "length": 10, "offset": 2, "nodes": ["n2"]}
    assert asked(own, "POST /blocks/blk_1/keep") == [told]


@pytest.mark.parametrize("answer", [(200, b'{"keep": false}'), (502, b"no NameNode")])
def test_an_attempt_reads_on_when_nobody_wants_a_copy(
    tmp_path: Path, agents: tuple[Script, Script], answer: tuple[int, bytes]
) -> None:
    own, holder = agents
    own.answers["POST /call/keeps"] = answer
    node = a_reader(tmp_path, agents, offset=10)
    fetch(node, holder, 1, 0, 5)
    fetch(node, holder, 1, 5, 10)
    node.ended(succeeded=True)
    assert len(asked(own, "POST /call/keeps")) == 1 and not asked(own, "POST /blocks/blk_1/keep")
    assert not (tmp_path / "attempts" / ATTEMPT / "kept").exists()


def test_without_a_budget_nobody_is_asked(tmp_path: Path, agents: tuple[Script, Script]) -> None:
    node = a_reader(tmp_path, agents, offset=10, budget=0.0)
    fetch(node, agents[1], 1, 0, 10)
    node.ended(succeeded=True)
    assert agents[0].seen == []


def test_a_failed_attempt_leaves_nothing(tmp_path: Path, agents: tuple[Script, Script]) -> None:
    node = a_reader(tmp_path, agents, offset=10)
    fetch(node, agents[1], 1, 0, 10)
    node.ended(succeeded=False)
    assert not asked(agents[0], "POST /blocks/blk_1/keep")
    assert list((tmp_path / "attempts" / ATTEMPT).iterdir()) == []
