"""The copy of block data that an attempt read from other nodes. Its agent can turn the copy into a local replica."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from schedbed.tasks.blockfile import Buffer
from schedbed.tasks.node_client.http_requests import AgentLink
from schedbed.tasks.specs import AttemptSpec, BlockRange, NodeId

NAME = "kept"  # File name in the attempt's folder.


class KeptCopy:
    """A contiguous copy of what an attempt reads from its split's first block, if the NameNode wants it.

    Errors of the copy do not affect reading.
    """

    def __init__(self, spec: AttemptSpec, link: AgentLink) -> None:
        self._spec = spec
        self._link = link
        self._path: Path = link.context.root / "attempts" / spec.attempt / NAME
        self._block: BlockRange | None = None
        self._wanted: bool | None = None if spec.keep_budget > 0 else False
        self._low = self._high = 0

    def take(self, block: BlockRange, at: int, piece: Buffer) -> None:
        """Append what was read at `at` of a block, if it continues the copy. An error ends the copying."""
        if self._wanted is False or not block.offset <= self._spec.offset < block.offset + block.length:
            return
        with contextlib.suppress(OSError):
            if self._wanted is None:
                self._wanted = self._ask(block)
                self._block, self._low, self._high = block, at, at
            if self._wanted and at == self._high:
                with self._path.open("ab", buffering=0) as file:
                    file.write(piece)
                self._high += len(piece)
            return
        self._wanted = False

    def _ask(self, block: BlockRange) -> bool:
        return BlockCalls(self._link).keeps(block.block, self._spec.keep_budget)

    def give(self) -> None:
        """Give the copy to the agent, which completes it to a replica. Called after success."""
        block = self._block
        if not self._wanted or block is None or self._high == self._low:
            return
        told = {
            "attempt": self._spec.attempt,
            "length": block.length,
            "offset": self._low,
            "nodes": list(block.nodes),
        }
        with contextlib.suppress(OSError):
            self._link.request_json("POST", f"/blocks/{block.block}/keep", told)

    def drop(self) -> None:
        """Delete the copy. Called after failure."""
        self._path.unlink(missing_ok=True)


# The calls of an attempt to the NameNode. The node's agent forwards these calls and permits no others.


class BlockCalls:
    """The NameNode's calls for attempts, through the agent (`cluster.tasktracker`). Failures raise OSError."""

    def __init__(self, link: AgentLink) -> None:
        self._link = link

    def locate(self, path: str, offset: int, length: int) -> list[BlockRange]:
        """Return the blocks that overlap the `length` bytes from `offset`, with the nodes that hold replicas."""
        answer = self._ask("locate", path=path, offset=offset, length=length)
        return [BlockRange(**{**raw, "nodes": tuple(raw["nodes"])}) for raw in answer]

    def allocate(self, path: str, replication: int, length_hint: int) -> tuple[str, list[NodeId]]:
        """Return a new block's id and nodes."""
        given = self._ask("allocate", path=path, replication=replication, length_hint=length_hint, exclude=[])
        return given["block"], given["nodes"]

    def complete(self, path: str, blocks: Sequence[dict[str, Any]]) -> None:
        """Complete a file of the blocks {"block", "length", "nodes"}, in order."""
        self._ask("complete", path=path, blocks=blocks)

    def keeps(self, block: str, budget: float) -> bool:
        """Return whether to keep a fetched block. `budget` limits such replicas to a share of all inputs."""
        return bool(self._ask("keeps", block=block, budget=budget)["keep"])

    def report_bad(self, block: str, node: NodeId) -> None:
        """Report a corrupt or missing replica to the NameNode."""
        self._ask("report_bad", block=block, node=node)

    def _ask(self, method: str, **args: Any) -> Any:
        return self._link.request_json("POST", f"/call/{method}", args)
