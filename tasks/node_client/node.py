"""What an attempt asks of its node: files, map outputs, the disk budget. `HttpNode` is the live answer."""

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
    """A map's output could not be fetched from the node that has it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MapOutputAt:
    """Where the output of a map can be fetched; `lost` says that it is gone and another will come.

    `after` is the index of the map behind which this one's records come in the input, when it is not the one before.
    """

    index: int
    attempt: str
    node: NodeId
    lost: bool = False
    after: int | None = None

    @property
    def place(self) -> tuple[int, int]:
        """Sorts outputs by the order of their records in the input."""
        return (self.index if self.after is None else self.after, self.index)


class Output(Protocol):
    """A file of the block store while it is written."""

    def write(self, data: Buffer) -> None:
        """Append."""
        ...

    def close(self) -> None:
        """Finish the file; without this it never exists."""
        ...


class AttemptNode(Protocol):
    """All that the runtime asks of a node: `HttpNode` live, a plain object in tests."""

    meter: Meter

    def read(self, file: str, start: int, end: int) -> Iterator[Piece]:
        """Return the bytes [start, end) of a file of the block store, in pieces."""
        ...

    def create(self, path: str, replication: int, block_bytes: int) -> Output:
        """Begin a file of the block store."""
        ...

    def map_outputs(self, cursor: int) -> tuple[int, list[MapOutputAt], bool]:
        """Return what came to the job's list of map outputs after `cursor`, and whether all maps are done."""
        ...

    def fetch(self, output: MapOutputAt, partition: int) -> Buffer:
        """One partition of a map's output; raises FetchFailed."""
        ...

    def fetch_failed(self, map_attempt: str) -> None:
        """Tell the JobTracker that this output cannot be fetched."""
        ...

    def disk_stream(self) -> Charge:
        """Begin to read or write a local file; what is returned waits until the disk has paid for that many bytes."""
        ...

    def need_room(self) -> None:
        """Raise OSError (ENOSPC) when nothing can be written on the node's disk."""
        ...


class HttpNode:
    """The node of a live attempt: its own disk directly, everything else through the agents."""

    def __init__(self, spec: AttemptSpec, context: NodeContext) -> None:
        self.meter = Meter()
        self._spec = spec
        self._context = context
        self._link = AgentLink(context)
        self._reader = BlockReader(spec, self._link, self.meter)
        self._full_disk = str(context.root / FULL_DISK)

    def read(self, file: str, start: int, end: int) -> Iterator[Piece]:
        """Return the bytes [start, end), verified, nearest replica first; OSError when no replica can be read."""
        return self._reader.read(file, start, end)

    def create(self, path: str, replication: int, block_bytes: int) -> Output:
        """Begin a file; its blocks go to this node and on down the pipeline that the NameNode names."""
        return OutputFile(path, replication, block_bytes, self._link, self.meter)

    def map_outputs(self, cursor: int) -> tuple[int, list[MapOutputAt], bool]:
        """Long poll (up to 5 s) of the job's list of map outputs."""
        answer = self._link.request_json("GET", f"/jobs/{self._spec.job}/outputs?cursor={cursor}")
        return answer["cursor"], [MapOutputAt(**each) for each in answer["outputs"]], answer["all_done"]

    def fetch(self, output: MapOutputAt, partition: int) -> Buffer:
        """Return a partition: from the own disk when the map ran here, else from the agent there."""
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
        """The attempt's report is written: a copy that it kept of its block goes to the agent, or goes away."""
        if succeeded:
            self._reader.copy.give()
        else:
            self._reader.copy.drop()

    def fetch_failed(self, map_attempt: str) -> None:
        """Report it through the own agent."""
        failed = {"reduce_attempt": self._spec.attempt, "map_attempt": map_attempt}
        self._link.request_json("POST", "/fetch_failed", failed)

    def disk_stream(self) -> Charge:
        """Begin a stream through the node's disk budget."""
        return self._link.stream("disk")

    @property
    def budget(self) -> Budget | None:
        """Return the node's budget as this process has it open; None without limits."""
        return self._link.budget

    def settle_cpu_by(self, settle: Callable[[], None]) -> None:
        """Call `settle` whenever a transfer makes the attempt wait: CPU time is paid for in the same time."""
        self._link.settle_cpu = settle

    def need_room(self) -> None:
        """A real disk says by itself that it is full; a fault says it here."""
        if os.path.exists(self._full_disk):  # noqa: PTH110  a third of the time, before each write
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
