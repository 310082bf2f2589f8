"""The copy of block data that an attempt read from other nodes. Its agent can turn the copy into a local
replica.
"""

from __future__ import annotations

import contextlib
from pathlib import Path

from schedbed.tasks.blockfile import Buffer
from schedbed.tasks.node_client.block_calls import BlockCalls
from schedbed.tasks.node_client.http_requests import AgentLink
from schedbed.tasks.specs import AttemptSpec, BlockRange

NAME = "kept"  # File name in the attempt's folder.


class KeptCopy:
    """A contiguous copy of bytes that an attempt has read from the block in which its split begins.

    Before the first byte is copied, the NameNode is asked whether the node should keep a replica of the
    block. Errors of the copy do not affect reading.
    """

    def __init__(self, spec: AttemptSpec, link: AgentLink) -> None:
        self._spec = spec
        self._link = link
        self._path: Path = link.context.root / "attempts" / spec.attempt / NAME
        self._block: BlockRange | None = None
        self._wanted: bool | None = None if spec.keep_budget > 0 else False
        self._low = self._high = 0

    def take(self, block: BlockRange, at: int, piece: Buffer) -> None:
        """Append a piece, which was read from another node at position `at` of the block, to the copy.

        A piece is ignored if it is of another block, if it does not continue the copy, or if the NameNode
        wants no replica. An error ends the copying.
        """
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
        """Pass the copy to the agent, which fetches the missing parts of the block and stores a replica.

        Called after the attempt has succeeded.
        """
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
        """Delete the copy. Called after the attempt has failed."""
        self._path.unlink(missing_ok=True)
