"""The services of a node to its attempts: files, map outputs, the disk budget. `HttpNode` is the live
implementation."""

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
    """A map's output could not be fetched from its node."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MapOutputAt:
    """The location of a map's output. `lost`: it is gone and another will follow.

    `after` is the index of the map whose records precede this one's in the input, if that is not the previous map.
    """

    index: int
    attempt: str
    node: NodeId
    lost: bool = False
    after: int | None = None

    @property
    def place(self) -> tuple[int, int]:
        """Return the sort key of outputs by the order of their records in the input."""
        return (self.index if self.after is None else self.after, self.index)


class Output(Protocol):
    """A file of the block store that is being written."""

    def write(self, data: Buffer) -> None:
        """Append data."""
        ...

    def close(self) -> None:
        """Complete the file. Without this call it never exists."""
        ...


class AttemptNode(Protocol):
    """The services that the runtime needs of a node: `HttpNode` in live runs, a plain object in tests."""

    meter: Meter

    def read(self, file: str, start: int, end: int) -> Iterator[Piece]:
        """Yield the bytes [start, end) of a file of the block store, in pieces."""
        ...

    def create(self, path: str, replication: int, block_bytes: int) -> Output:
        """Return a new file of the block store."""
        ...

    def map_outputs(self, cursor: int) -> tuple[int, list[MapOutputAt], bool]:
        """Return the next cursor, the map outputs of the job after `cursor`, and whether all maps are done."""
        ...

    def fetch(self, output: MapOutputAt, partition: int) -> Buffer:
        """Return one partition of a map's output. Raises FetchFailed."""
        ...

    def fetch_failed(self, map_attempt: str) -> None:
        """Report to the JobTracker that this output cannot be fetched."""
        ...

    def disk_stream(self) -> Charge:
        """Return a function that waits until the disk's budget has paid for that many bytes of a local file."""
        ...

    def need_room(self) -> None:
        """Raise OSError (ENOSPC) if the node's disk is full."""
        ...


class HttpNode:
    """The node of a live attempt: direct access to its own disk, everything else through the agents."""

    def __init__(self, spec: AttemptSpec, context: NodeContext) -> None:
        self.meter = Meter()
        self._spec = spec
        self._context = context
        self._link = AgentLink(context)
        self._reader = BlockReader(spec, self._link, self.meter)
        self._full_disk = str(context.root / FULL_DISK)

    def read(self, file: str, start: int, end: int) -> Iterator[Piece]:
        """Yield the verified bytes [start, end), nearest replica first. Raises OSError if no replica can be read."""
        return self._reader.read(file, start, end)

    def create(self, path: str, replication: int, block_bytes: int) -> Output:
        """Return a new file. Its blocks go to this node and down the pipeline that the NameNode chooses."""
        return OutputFile(path, replication, block_bytes, self._link, self.meter)

    def map_outputs(self, cursor: int) -> tuple[int, list[MapOutputAt], bool]:
        """Ask for the job's map outputs by a long poll of up to 5 s. Implements `AttemptNode`."""
        answer = self._link.request_json("GET", f"/jobs/{self._spec.job}/outputs?cursor={cursor}")
        return answer["cursor"], [MapOutputAt(**each) for each in answer["outputs"]], answer["all_done"]

    def fetch(self, output: MapOutputAt, partition: int) -> Buffer:
        """Return a partition: from the own disk if the map ran here, else from the agent of its node."""
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
        """Give the copy that the attempt kept of its block to the agent, or delete it after a failure. Called after
        the report."""
        if succeeded:
            self._reader.copy.give()
        else:
            self._reader.copy.drop()

    def fetch_failed(self, map_attempt: str) -> None:
        """Report the failed fetch through the own agent."""
        failed = {"reduce_attempt": self._spec.attempt, "map_attempt": map_attempt}
        self._link.request_json("POST", "/fetch_failed", failed)

    def disk_stream(self) -> Charge:
        """Return a stream through the node's disk budget."""
        return self._link.stream("disk")

    @property
    def budget(self) -> Budget | None:
        """Return the node's budget as opened by this process; None without limits."""
        return self._link.budget

    def settle_cpu_by(self, settle: Callable[[], None]) -> None:
        """Call `settle` whenever a transfer makes the attempt wait, so that CPU time is paid for in the same time."""
        self._link.settle_cpu = settle

    def need_room(self) -> None:
        """Raise OSError (ENOSPC) if a fault has filled the disk. A really full disk raises it by itself."""
        if os.path.exists(self._full_disk):  # noqa: PTH110  a third of the time, before each write
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
