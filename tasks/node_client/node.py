"""The services of a node for attempts: files, map outputs, and the disk budget. `HttpNode` is the
implementation for live runs.
"""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol

from schedbed.tasks.attempt_status import Meter
from schedbed.tasks.blockfile import Buffer, Piece
from schedbed.tasks.context import FULL_DISK, NodeContext
from schedbed.tasks.node_client.http_requests import AgentLink, Charge, Refused
from schedbed.tasks.node_client.stored_files import BlockReader, OutputFile
from schedbed.tasks.pacing import Budget
from schedbed.tasks.specs import AttemptSpec, NodeId


class FetchFailed(Exception):
    """Raised if a map's output could not be fetched from its node."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MapOutputAt:
    """The location of a map's output.

    If `lost` is True, the output is gone and a new attempt will replace it. `after` is set for a later part
    of a split that the policy DTSS has cut. It is the index of the map whose records precede those of this
    output in the input.
    """

    index: int
    attempt: str
    node: NodeId
    lost: bool = False
    after: int | None = None

    @property
    def place(self) -> tuple[int, int]:
        """Return a sort key that orders map outputs by the position of their records in the input."""
        return (self.index if self.after is None else self.after, self.index)


class Output(Protocol):
    """A file of the block store that an attempt is writing."""

    def write(self, data: Buffer) -> None:
        """Append data to the file."""
        ...

    def close(self) -> None:
        """Complete the file. Readers never see a file that is not closed."""
        ...


class AttemptNode(Protocol):
    """The services of a node that running attempts use. `HttpNode` implements them in live runs, and tests
    use simple objects.
    """

    meter: Meter

    def read(self, file: str, start: int, end: int) -> Iterator[Piece]:
        """Yield the bytes [start, end) of a file of the block store, in pieces."""
        ...

    def create(self, path: str, replication: int, block_bytes: int) -> Output:
        """Create a file of the block store and return it for writing.

        `replication` is the number of replicas of each block, and `block_bytes` the size of a block.
        """
        ...

    def map_outputs(self, cursor: int) -> tuple[int, list[MapOutputAt], bool]:
        """Return the job's map outputs that were announced after position `cursor` in the list of
        announcements.

        The result is a tuple of the cursor for the next call, the list of map outputs, and whether all maps
        are done.
        """
        ...

    def fetch(self, output: MapOutputAt, partition: int) -> Buffer:
        """Return one partition of a map's output. Raises FetchFailed if the map's node does not deliver
        it.
        """
        ...

    def fetch_failed(self, map_attempt: str) -> None:
        """Report to the JobTracker that the output of a map attempt cannot be fetched."""
        ...

    def disk_stream(self) -> Charge:
        """Return a function that charges bytes of a local file to the node's disk budget and sleeps as
        long as its rate requires.
        """
        ...

    def need_room(self) -> None:
        """Raise OSError (ENOSPC) if the node's disk is full."""
        ...


class HttpNode:
    """The node of a live attempt, an implementation of `AttemptNode`.

    The attempt accesses the node's disk directly, and everything else by HTTP requests to agents.
    """

    def __init__(self, spec: AttemptSpec, context: NodeContext) -> None:
        self.meter = Meter()
        self._spec = spec
        self._context = context
        self._link = AgentLink(context)
        self._reader = BlockReader(spec, self._link, self.meter)
        self._full_disk = str(context.root / FULL_DISK)

    def read(self, file: str, start: int, end: int) -> Iterator[Piece]:
        """Yield the verified bytes [start, end) of a file, read from the nearest replica that is not corrupt.

        Raises OSError if there is none.
        """
        return self._reader.read(file, start, end)

    def create(self, path: str, replication: int, block_bytes: int) -> Output:
        """Create a file of the block store and return it for writing. The NameNode chooses the nodes for
        its replicas.
        """
        return OutputFile(path, replication, block_bytes, self._link, self.meter)

    def map_outputs(self, cursor: int) -> tuple[int, list[MapOutputAt], bool]:
        """Implement `AttemptNode.map_outputs` by a request to the attempt's own agent.

        The agent answers when there are new outputs, or after 5 s.
        """
        answer = self._link.request_json("GET", f"/jobs/{self._spec.job}/outputs?cursor={cursor}")
        return answer["cursor"], [MapOutputAt(**each) for each in answer["outputs"]], answer["all_done"]

    def fetch(self, output: MapOutputAt, partition: int) -> Buffer:
        """Return a partition of a map's output, from the local disk or from the agent of the map's node.

        Raises FetchFailed if the output cannot be read.
        """
        try:
            if output.node == self._context.node:
                return self._fetch_here(output.attempt, partition)
            url = self._link.url_of(output.node)
            charge = self._link.receiving(output.node)
            response = self._link.send(url, "GET", f"/shuffle/{output.attempt}/{partition}")
            if response.status != 200:
                self._link.finish(url, response)
                raise Refused(response.status, f"{response.status} {response.reason}")
            return self._link.receive_all(url, output.node, response, charge)
        except (OSError, ValueError, LookupError) as error:
            self._link.forget(output.node)
            raise FetchFailed(f"{output.attempt} from {output.node}: {error}") from error

    def _fetch_here(self, attempt: str, partition: int) -> Buffer:
        folder = self._context.root / "mapout" / attempt
        offset, length = json.loads((folder / "index.json").read_bytes())[partition]
        data = bytearray(length)
        charge = self.disk_stream()
        with (folder / "data").open("rb", buffering=0) as file:
            file.seek(offset)
            if file.readinto(data) != length:
                raise OSError("the file ends early")
        charge(length)
        return data

    def ended(self, *, succeeded: bool) -> None:
        """Pass the attempt's copy of its input block to the agent as a new replica, if the attempt succeeded.

        If it failed, the copy is deleted. Called after the attempt's report is written.
        """
        if succeeded:
            self._reader.copy.give()
        else:
            self._reader.copy.drop()

    def fetch_failed(self, map_attempt: str) -> None:
        """Implement `AttemptNode.fetch_failed` by a request to the attempt's own agent, which informs the
        JobTracker.
        """
        failed = {"reduce_attempt": self._spec.attempt, "map_attempt": map_attempt}
        self._link.request_json("POST", "/fetch_failed", failed)

    def disk_stream(self) -> Charge:
        """Return a function that charges bytes to the node's disk budget and sleeps as long as its rate
        requires.
        """
        return self._link.stream("disk")

    @property
    def budget(self) -> Budget | None:
        """Return the node's resource budget, as opened by this process, or None without limits."""
        return self._link.budget

    def settle_cpu_by(self, settle: Callable[[], None]) -> None:
        """Set the function that charges the attempt's CPU time, which is called while a transfer waits."""
        self._link.settle_cpu = settle

    def need_room(self) -> None:
        """Raise OSError (ENOSPC) if an injected fault marks the disk as full.

        If the disk is really full, writes raise the error.
        """
        if os.path.exists(self._full_disk):  # noqa: PTH110  `Path.exists` takes three times as long.
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
