"""The messages between a simulation and the process of a policy: frames of `cluster.wire` on two pipes.

An event is [number, time, kind, arguments], and the process answers [number, entries] if the event made the
policy answer or note anything. Entries are listed in `docs/your-policy.md`.
"""

from __future__ import annotations

import json
import os
import select
import time
from collections.abc import Mapping
from typing import Any

from schedbed.cluster.messages import Heartbeat
from schedbed.cluster.spec import NodeSpec
from schedbed.cluster.wire.framing import HEADER, frame
from schedbed.cluster.wire.value_codec import Codec, codec_of
from schedbed.tasks.specs import JobSpec, TaskKind

BEGIN, WATCH, REPORT, PING = "begin", "watch", "report", "ping"
"""Kinds of requests, which are answered: a new core and policy, `watch_heartbeats`, the policy's report, nothing."""

ROW, ANSWER, COPY, KILLS = "row", "answer", "copy", "kills"
"""Kinds of entries: a skip or reject, what `decide` answered, a speculation's copy, and what `preempt` answered."""
READ, FAILED = "read", "failed"
"""In place of entries: the policy read what skipped heartbeats change, or failed, with a line."""

EVENTS: Mapping[str, Codec] = {
    kind: codec_of(tuple[*types] if types else tuple[()])
    for kind, types in {
        "register": (NodeSpec, int),
        "heartbeat": (Heartbeat,),
        "submit": (JobSpec,),
        "kill_job": (str, str),
        "node_lost": (str,),
        "heard": (tuple[str, ...],),
        "tick": (),
        "replicas_changed": (str, tuple[str, ...]),
        "committed": (str,),
        "commit_failed": (str, str),
        "ask": (str, TaskKind, int, int | None),
        "release": (str, str),
        "stop": (str, str, str),
        "start_inside": (str,),
    }.items()
}
"""The events of `Core` that cross, with their arguments, and `heard`: all nodes but these silent ones are heard."""

BUFFERED_BYTES = 1 << 16
ANSWER_BYTES = 1 << 26
"""The most bytes of one frame from the process."""


class Silent(Exception):
    """The other process has ended, or sent nothing within the time."""


class FramePipe:
    """Frames on two file descriptors. What is written waits until `flush`, or until it is enough."""

    def __init__(self, read: int, write: int) -> None:
        self._read, self._write = read, write
        self._out, self._in = bytearray(), bytearray()

    def send(self, value: Any) -> None:
        self._out += frame(value)
        if len(self._out) > BUFFERED_BYTES:
            self.flush()

    def flush(self) -> None:
        """Write all frames. Raises Silent if nobody reads them."""
        data = memoryview(bytes(self._out))
        self._out.clear()
        try:
            while data:
                data = data[os.write(self._write, data) :]
        except BrokenPipeError:
            raise Silent from None

    def receive(self, within_s: float | None = None) -> Any:
        """Return the next frame's value. Raises Silent without one, ValueError for anything but a frame."""
        until_s = None if within_s is None else time.monotonic() + within_s
        while True:
            if len(self._in) >= HEADER.size:
                (size,) = HEADER.unpack_from(self._in)
                if within_s is not None and size > ANSWER_BYTES:
                    raise ValueError(f"a message of {size} bytes")
                if len(self._in) >= HEADER.size + size:
                    body = bytes(self._in[HEADER.size : HEADER.size + size])
                    del self._in[: HEADER.size + size]
                    return json.loads(body)
            if until_s is not None:
                left_s = until_s - time.monotonic()
                if left_s <= 0 or not select.select([self._read], [], [], left_s)[0]:
                    raise Silent
            data = os.read(self._read, 1 << 20)
            if not data:
                raise Silent
            self._in += data
