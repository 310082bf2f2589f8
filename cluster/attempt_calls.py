"""The calls that attempts may make to the NameNode: a table from the name of a call, which comes over HTTP, to a
typed call."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from schedbed.cluster.masters import NameNodeDoor
from schedbed.tasks.errors import BadInput
from schedbed.tasks.specs import NodeId

Args = Mapping[str, Any]
AttemptCall = Callable[[NameNodeDoor, NodeId, Args], Awaitable[Any]]

ATTEMPT_CALLS: Mapping[str, AttemptCall] = {
    "allocate": lambda names, node, args: names.allocate(
        args["path"], node, args["replication"], args["length_hint"], args["exclude"]
    ),
    "complete": lambda names, _, args: names.complete(args["path"], args["blocks"]),
    "keeps": lambda names, node, args: names.keeps(node, args["block"], args["budget"]),
    "locate": lambda names, _, args: names.locate(args["path"], args["offset"], args["length"]),
    "report_bad": lambda names, _, args: names.report_bad(args["block"], args["node"]),
}
"""The attempt's node, where a call needs one, is the node that forwards the call, whatever the attempt says."""


async def answer_attempt(names: NameNodeDoor, node: NodeId, method: str, args: Args) -> Any:
    """Return the NameNode's answer to a call of an attempt on `node`; {} for none. Raises BadInput for an unknown or
    malformed call."""
    call = ATTEMPT_CALLS.get(method)
    if call is None:
        raise BadInput(f"{method!r}: attempts may call {', '.join(ATTEMPT_CALLS)}")
    try:
        answer = call(names, node, args)
    except KeyError as error:
        raise BadInput(f"{method}: {error} is missing") from None
    result = await answer
    return {} if result is None else result
