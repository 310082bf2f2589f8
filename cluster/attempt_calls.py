"""Calls that task attempts may make to the NameNode.

`ATTEMPT_CALLS` maps each method name, received over HTTP, to a function that makes the typed NameNode call.
"""

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
"""Calls that need the attempt's node use the node that forwards the call; an attempt cannot name another."""


async def answer_attempt(names: NameNodeDoor, node: NodeId, method: str, args: Args) -> Any:
    """Call the method named `method` of the NameNode `names` for an attempt, and return the result.

    `node` is the node on which the attempt runs, and `args` maps argument names to values. The result is {}
    if the method returns nothing. Raises BadInput for an unknown method or a missing argument.
    """
    call = ATTEMPT_CALLS.get(method)
    if call is None:
        raise BadInput(f"{method!r}: attempts may call {', '.join(ATTEMPT_CALLS)}")
    try:
        answer = call(names, node, args)
    except KeyError as error:
        raise BadInput(f"{method}: {error} is missing") from None
    result = await answer
    return {} if result is None else result
