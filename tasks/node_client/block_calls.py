"""The calls of an attempt to the NameNode. The node's agent forwards these calls and permits no others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from schedbed.tasks.node_client.http_requests import AgentLink
from schedbed.tasks.specs import BlockRange, NodeId


class BlockCalls:
    """The calls of the NameNode that attempts may use, sent through the agent. A failed call raises OSError.

    The module `cluster.attempt_calls` implements the other side.
    """

    def __init__(self, link: AgentLink) -> None:
        self._link = link

    def locate(self, path: str, offset: int, length: int) -> list[BlockRange]:
        """Return the blocks that overlap the `length` bytes from `offset`, with the nodes that hold
        replicas.
        """
        answer = self._ask("locate", path=path, offset=offset, length=length)
        return [BlockRange(**{**raw, "nodes": tuple(raw["nodes"])}) for raw in answer]

    def allocate(self, path: str, replication: int, length_hint: int) -> tuple[str, list[NodeId]]:
        """Return the id of a new block of a file, and the nodes that should store it.

        `replication` is the number of nodes, and `length_hint` the expected length in bytes.
        """
        given = self._ask("allocate", path=path, replication=replication, length_hint=length_hint, exclude=[])
        return given["block"], given["nodes"]

    def complete(self, path: str, blocks: Sequence[dict[str, Any]]) -> None:
        """Complete a file that consists of the given blocks, in order.

        Each block is a dictionary with the keys "block", "length" and "nodes".
        """
        self._ask("complete", path=path, blocks=blocks)

    def keeps(self, block: str, budget: float) -> bool:
        """Return whether the attempt's node should keep a replica of a block that the attempt fetches.

        `budget` is the maximum size of such replicas, as a share of the size of all inputs.
        """
        return bool(self._ask("keeps", block=block, budget=budget)["keep"])

    def report_bad(self, block: str, node: NodeId) -> None:
        """Report to the NameNode that a node's replica of a block is corrupt or missing."""
        self._ask("report_bad", block=block, node=node)

    def _ask(self, method: str, **args: Any) -> Any:
        return self._link.request_json("POST", f"/call/{method}", args)
