"""The copy phase of a reduce, which fetches the reduce's partition of each map's output while maps still run."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from operator import attrgetter
from pathlib import Path
from typing import Any

from schedbed.tasks.attempt_status import StatusFile
from schedbed.tasks.blockfile import Buffer
from schedbed.tasks.chance import chance
from schedbed.tasks.node_client.node import AttemptNode, FetchFailed, MapOutputAt
from schedbed.tasks.specs import AttemptSpec
from schedbed.tasks.spill import FileRun, LocalFile, Run

PARALLEL_COPIES = 4
RETRY_S = 0.25  # Wait before the second try of a fetch; doubled each time.
RETRY_MAX_S = 8.0
FAILURES_MAX = 30  # Failed fetches of one map output before the reduce fails.
WAIT_S = 0.1  # Interval of checks for fetches to retry.
STACK_BYTES = 512 * 1024  # Stack of a fetching thread, which counts for the memory limit.

_place = attrgetter("place")


class Shuffle:
    """Copies a reduce's partition of every map's output, with at most `memory_bytes` in memory."""

    def __init__(
        self,
        spec: AttemptSpec,
        node: AttemptNode,
        scratch: Path,
        memory_bytes: int,
        progress: StatusFile,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._spec = spec
        self._node = node
        self._scratch = scratch
        self._memory_bytes = memory_bytes
        self._parallel: int = spec.params.get("parallel_copies", PARALLEL_COPIES)
        self._progress = progress
        self._clock = clock
        self._chance = chance(spec.seed, spec.attempt, "copy order")
        self._cursor = 0
        self._ask_at = 0.0
        self._all_done = False
        self._latest: dict[int, MapOutputAt] = {}
        self._runs: dict[int, Run] = {}
        self._news: Future[tuple[int, list[MapOutputAt], bool]] | None = None
        self._fetching: dict[Future[Buffer], MapOutputAt] = {}
        self._failures: dict[int, int] = {}
        self._not_before: dict[int, float] = {}
        self._held_bytes = 0

    def run(self) -> list[Run]:
        """Copy until all maps are done. Return sorted runs in the order of the job's input."""
        threading.stack_size(STACK_BYTES)
        # One more thread runs the long poll, and some run abandoned fetches that hang.
        pool = ThreadPoolExecutor(3 * self._parallel + 1)
        try:
            while not self._complete():
                self._ask(pool)
                self._start(pool)
                self._reap()
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
        return [self._runs[output.index] for output in sorted(self._latest.values(), key=_place)]

    def _complete(self) -> bool:
        return self._all_done and not self._fetching and all(index in self._runs for index in self._latest)

    def _ask(self, pool: ThreadPoolExecutor) -> None:
        """Start a long poll for new outputs, if none is running and more may come.

        After all maps are done, a poll returns at once and is started only while fetches fail, at most every
        `WAIT_S` seconds.
        """
        if self._news is not None or (
            self._all_done and (not self._failures or self._clock() < self._ask_at)
        ):
            return
        self._ask_at = self._clock() + WAIT_S
        self._news = pool.submit(self._node.map_outputs, self._cursor)

    def _hear(self, news: Future[tuple[int, list[MapOutputAt], bool]]) -> None:
        self._news = None
        self._cursor, outputs, self._all_done = news.result()
        for output in outputs:
            before = self._latest.get(output.index)
            self._latest[output.index] = output
            if before is not None and before != output:
                self._not_before.pop(output.index, None)
                self._abandon(output.index)

    def _abandon(self, index: int) -> None:
        """Cancel the fetch of a replaced output, whose node may never answer."""
        for future in [future for future, output in self._fetching.items() if output.index == index]:
            future.cancel()
            del self._fetching[future]

    def _start(self, pool: ThreadPoolExecutor) -> None:
        """Start to fetch map outputs, up to the job's limit of parallel copies."""
        now = self._clock()
        under_way = {output.index for output in self._fetching.values()}
        wanted = [
            index for index in sorted(self._latest) if index not in self._runs and index not in under_way
        ]
        ready = [
            index
            for index in wanted
            if not self._latest[index].lost and self._not_before.get(index, 0.0) <= now
        ]
        self._chance.shuffle(ready)  # Otherwise all reduces of a job ask the same node at once.
        for index in ready[: self._parallel - len(under_way)]:
            output = self._latest[index]
            self._fetching[pool.submit(self._node.fetch, output, self._spec.index)] = output

    def _reap(self) -> None:
        """Wait until a fetch or poll ends, or until a failed fetch must be retried, and process the results."""
        waited: list[Future[Any]] = [*self._fetching, *([] if self._news is None else [self._news])]
        done, _ = wait(waited, WAIT_S if self._failures else None, FIRST_COMPLETED)
        for future in [each for each in self._fetching if each in done]:
            output = self._fetching.pop(future)
            try:
                self._keep(output.index, future.result())
            except FetchFailed as failure:
                self._failed(output, failure)
        if self._news is not None and self._news in done:
            self._hear(self._news)

    def _keep(self, index: int, data: Buffer) -> None:
        self._node.meter.add("shuffle_bytes", len(data))
        if self._held_bytes + len(data) <= self._memory_bytes:
            self._held_bytes += len(data)
            self._runs[index] = data
        else:
            self._runs[index] = self._to_disk(index, data)
        self._failures.pop(index, None)
        self._progress.report("shuffle", len(self._runs) / max(self._spec.maps, len(self._latest)) / 3)

    def _to_disk(self, index: int, data: Buffer) -> FileRun:
        file = LocalFile(self._scratch / f"copy-{index}", self._node)
        file.write(data)
        file.end_partition()
        file.close()
        return file.run(0)

    def _failed(self, output: MapOutputAt, failure: FetchFailed) -> None:
        count = self._failures[output.index] = self._failures.get(output.index, 0) + 1
        if count > FAILURES_MAX:
            raise OSError(f"gave up after {count} tries to fetch {failure}")
        if count > 1:  # A single failure may be a network glitch, and is not reported.
            self._node.fetch_failed(output.attempt)
        self._not_before[output.index] = self._clock() + min(RETRY_MAX_S, RETRY_S * 2 ** (count - 1))
