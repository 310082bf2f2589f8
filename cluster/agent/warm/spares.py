"""The spare processes of a node. Each is forked in advance, waits for one attempt, and runs it."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import socket
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from schedbed.cluster.agent.cgroups import Quota
from schedbed.cluster.agent.limits import NodeLimits
from schedbed.cluster.agent.warm.fork import attempt_uid
from schedbed.cluster.agent.warm.zygote_link import JsonLine, Message, ZygoteLink

log = logging.getLogger(__name__)

SPARE_AFTER_S = 0.1  # delay before the next spare is forked, which leaves the CPU to a new attempt
EMPTY_S = 0.02  # seconds between checks for remaining processes of an ended attempt
LINE_BYTES = 4096  # maximum length of a message from a fork


@dataclass(eq=False)
class Spare:
    """A forked process that waits for an attempt or runs one, in group `place`, as the user `uid` if given."""

    place: int
    uid: int | None
    pid: int | None = None
    attempt: str | None = None  # the attempt that it was ordered to run
    said: set[str] = field(default_factory=set)
    line: JsonLine | None = None
    error: str = ""  # why the spare cannot be used

    def order(self, attempt: str, order: Mapping[str, Any], quota: Quota | None) -> None:
        """Order the process to run an attempt under the CPU limit `quota`."""
        self.attempt = attempt
        assert self.line is not None
        text, descriptor = (None, None) if quota is None else (quota.text, quota.descriptor)
        self.line.send({**order, "quota": text}, descriptor)


class Spares:
    """The pool of spare processes: one waits for each slot, or fewer if attempts use most groups.

    `on_said(spare, message)` gets the first message of each type from an attempt's process. `on_reaped(spare,
    message)` is called when a process has ended or could not be forked.
    """

    def __init__(
        self,
        limits: NodeLimits,
        *,
        on_ready: Callable[[], None],
        on_said: Callable[[Spare, Message], None],
        on_reaped: Callable[[Spare, Message], None],
    ) -> None:
        self._limits = limits
        self._on_ready = on_ready
        self._on_said = on_said
        self._on_reaped = on_reaped
        self._link: ZygoteLink | None = None
        self._free = list(range(limits.places))
        self._asked: list[Spare] = []  # requested from the zygote and not answered yet, in order
        self._living: dict[int, Spare] = {}  # by process id
        self._idle: list[Spare] = []
        self._joining = ThreadPoolExecutor(1, "groups")  # Moving a process blocks for some ms in the kernel.
        self._tasks: set[asyncio.Task[None]] = set()

    def begin(self, link: ZygoteLink) -> None:
        """Request a spare process for each slot from the zygote that `link` connects to."""
        self._link = link
        for _ in range(self._limits.slots):
            self._park()

    def take(self) -> Spare | None:
        """Take a waiting process from the pool, or return None. The zygote soon forks another one."""
        while self._idle:
            spare = self._idle.pop(0)
            if spare.pid in self._living and spare.line is not None:
                asyncio.get_running_loop().call_later(SPARE_AFTER_S, self._park)
                return spare
        if not self._asked:
            self._park()
        return None

    def kill(self, spare: Spare) -> None:
        """Kill the process and its session. `on_reaped` follows when it has ended."""
        if self._link is not None and spare.pid in self._living:
            self._link.send({"type": "kill", "pid": spare.pid})

    def kill_strays(self) -> None:
        """Kill the processes that ended attempts have left behind."""
        if self._link is not None:
            self._link.send({"type": "strays"})

    def hear(self, message: Message) -> None:
        """Process a message from the zygote: a spare process was forked, or a process has ended."""
        if message["type"] == "parked":
            self._parked(self._asked.pop(0), message)
        elif spare := self._living.pop(message["pid"], None):
            self._gone(spare)
            self._on_reaped(spare, message)

    def lost(self) -> None:
        """Remove all spare processes from the pool, because they ended together with the zygote."""
        self._link = None
        for spare in (*self._asked, *self._living.values()):
            self._gone(spare)
        self._asked.clear()
        self._living.clear()

    async def close(self) -> None:
        """Close all connections to spare processes. Must be called after the zygote has ended."""
        self._link = None
        for spare in (*self._asked, *self._living.values()):
            if spare.line is not None:
                spare.line.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await asyncio.to_thread(self._joining.shutdown)

    # ---------------------------------------------------------------- places

    def _park(self) -> None:
        """Request another process, unless each slot has one or no group is free."""
        if self._link is None or not self._free or len(self._idle) + len(self._asked) >= self._limits.slots:
            return
        place = self._free.pop(0)
        spare = Spare(place, attempt_uid(os.getpid(), place) if self._limits.drops else None)
        ours, theirs = socket.socketpair()
        spare.line = JsonLine(
            ours, lambda said: self._hear_spare(spare, said), lambda: _hang_up(spare), LINE_BYTES
        )
        self._asked.append(spare)
        self._link.send({"type": "park", "uid": spare.uid}, theirs.detach())

    def _parked(self, spare: Spare, message: Message) -> None:
        if message["pid"] is None:
            spare.error = message["error"]
            self._gone(spare)
            self._on_reaped(spare, message)
            return
        spare.pid = message["pid"]
        self._living[message["pid"]] = spare
        self._start(self._join(spare))

    async def _join(self, spare: Spare) -> None:
        """Move the spare process into its group of processes, and then make it available for an attempt."""
        assert spare.pid is not None
        try:
            loop = asyncio.get_running_loop()
            await loop.run_in_executor(self._joining, self._limits.join, spare.place, spare.pid)
        except OSError as error:
            log.warning("place %d: %s", spare.place, error)
            spare.error = f"could not join its control group: {error}"
            self.kill(spare)
            return
        if spare.pid in self._living:
            self._idle.append(spare)
            self._on_ready()

    def _hear_spare(self, spare: Spare, message: Message) -> None:
        kind = message.get("type")
        if spare.attempt is None or kind not in ("begin", "done", "ended", "broke") or kind in spare.said:
            return
        spare.said.add(kind)
        self._on_said(spare, message)

    def _gone(self, spare: Spare) -> None:
        """Clean up after a process, and free its group when the rest of the group has ended."""
        if spare.line is not None:
            spare.line.read()  # The end can be known before the last messages are.
        _hang_up(spare)
        if spare in self._idle:
            self._idle.remove(spare)
        self._start(self._clear(spare))

    async def _clear(self, spare: Spare) -> None:
        while self._limits.kill(spare.place):
            await asyncio.sleep(EMPTY_S)
        self._limits.free(spare.place)
        self._free.append(spare.place)
        if spare.attempt is None:  # It died while it waited: do not fork another one at once.
            await asyncio.sleep(SPARE_AFTER_S)
        self._park()

    def _start(self, work: Any) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def _hang_up(spare: Spare) -> None:
    if spare.line is not None:
        with contextlib.suppress(OSError):
            spare.line.close()
        spare.line = None
