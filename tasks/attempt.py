"""Executes one task attempt in a separate forked process, from its specification to its report."""

from __future__ import annotations

import errno
import time
import traceback
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path

from schedbed.tasks.appkit.app_catalogue import app_of
from schedbed.tasks.attempt_status import StatusFile, write_report
from schedbed.tasks.context import NodeContext
from schedbed.tasks.errors import DISK_FULL, BadInput
from schedbed.tasks.mapper import MapTask
from schedbed.tasks.node_client.node import AttemptNode, HttpNode
from schedbed.tasks.pacing import WITHHELD, Budget, CpuPacer, cpu_debt_s, own_cpu_s, withheld_reader
from schedbed.tasks.reducer import ReduceTask
from schedbed.tasks.specs import AttemptSpec, TaskKind

REASON_CHARS = 300


def run_attempt(spec: AttemptSpec, node: NodeContext, limited: AbstractContextManager[None]) -> int:
    """Run an attempt on a live node. Return its exit code: 0 for success, otherwise 1 (see `report.json`).

    Call it in the main thread of a process without other use: it uses SIGPROF and the CPU clock. `limited`
    limits the application's code to one core.
    """
    client = HttpNode(spec, node)
    scratch = node.root / "attempts" / spec.attempt
    if client.budget is not None and node.pace_cpu:
        limited = _paced(limited, client, client.budget, node.core_speed, scratch)
    elif client.budget is not None:
        limited = _paid_in_full(limited, node.core_speed)
    declared_speed = node.core_speed * node.stretch
    code = run_on(spec, client, node.root, node.epoch_s, declared_speed, limited, stretch=node.stretch)
    client.ended(succeeded=code == 0)
    return code


@contextmanager
def _paced(
    limited: AbstractContextManager[None], client: HttpNode, budget: Budget, core_speed: float, scratch: Path
) -> Iterator[None]:
    """Limit the block to one emulated core by sleeping, within `limited`.

    `budget` must be the one that `client` uses: no sleep may begin while `client` holds its lock.
    """
    with limited:
        pacer = CpuPacer(budget, core_speed, withheld=withheld_reader(scratch / WITHHELD))
        client.settle_cpu_by(pacer.settle)
        pacer.start()
        try:
            yield
        finally:
            pacer.stop()


@contextmanager
def _paid_in_full(limited: AbstractContextManager[None], core_speed: float) -> Iterator[None]:
    """Limit the block by a quota, and sleep at its end if it ran too fast.

    The kernel lets a process exceed its quota briefly and delays it later, which an attempt that ends before
    would escape.
    """
    began_s, used_s = time.monotonic(), 0.0
    try:
        with limited:
            began_s, began_cpu_s = time.monotonic(), own_cpu_s()
            try:
                yield
            finally:
                used_s = own_cpu_s() - began_cpu_s
    finally:
        # The limit has ended here, so the report does not wait for the quota's next period.
        owed_s = cpu_debt_s(used_s, core_speed, time.monotonic() - began_s)
        if owed_s > 0:
            time.sleep(owed_s)


def run_on(
    spec: AttemptSpec,
    node: AttemptNode,
    root: Path,
    epoch_s: float,
    core_speed: float,
    limited: AbstractContextManager[None] | None = None,
    stretch: float = 1.0,
) -> int:
    """Run an attempt on any `AttemptNode`. Return 0 if it succeeded and 1 if it failed.

    Status and report go to a folder below `root`/attempts, a traceback to stderr. `stretch` is real seconds
    per emulated second, `core_speed` host core-seconds per emulated one.
    """
    scratch = root / "attempts" / spec.attempt
    scratch.mkdir(parents=True, exist_ok=True)
    state, reason, partitions = "succeeded", "", []
    with limited or nullcontext():
        progress = StatusFile(scratch / "status", epoch_s, time.time, stretch)
        progress.report("map" if spec.kind is TaskKind.MAP else "shuffle", 0.0)
        try:
            partitions = _run(spec, node, root, progress, core_speed)
        except Exception as error:
            state, reason = "failed", reason_of(error, spec.memory_bytes)
            _make_room(scratch)
            traceback.print_exception(error)
    # The end of the block has paid for all CPU time of the attempt.
    counters = node.meter.counters(progress.setup_cpu_s)
    end_s = progress.now_s()
    write_report(scratch / "report.json", state, reason, progress.started_s, end_s, counters, partitions)
    return 0 if state == "succeeded" else 1


def _run(
    spec: AttemptSpec, node: AttemptNode, root: Path, progress: StatusFile, core_speed: float
) -> list[int]:
    """Run the application's map or reduce. Return the bytes of a map's partitions, or []."""
    app = app_of(spec)
    params = app.params(spec.params)
    if spec.kind is TaskKind.MAP:
        task = MapTask(spec, params, node, root, progress, core_speed)
        app.run_map(task)
        return task.partitions
    if app.run_reduce is None:
        raise ValueError(f"{app.name} has no reduces")
    app.run_reduce(ReduceTask(spec, params, node, root, progress, core_speed))
    return []


def _make_room(scratch: Path) -> None:
    """Delete a failed attempt's data, so that its report fits even on a full disk."""
    for path in (*scratch.glob("spill-*"), *scratch.glob("copy-*"), *scratch.glob("output/*")):
        path.unlink(missing_ok=True)


def reason_of(error: Exception, memory_bytes: int) -> str:
    """Return a failure's reason as one line, such as "disk full"."""
    if isinstance(error, MemoryError) or "can't start new thread" in str(error):
        return f"over its memory limit of {memory_bytes / 2**20:.0f} MiB"
    if isinstance(error, OSError) and error.errno == errno.ENOSPC:
        return DISK_FULL
    text = " ".join(str(error).split())[:REASON_CHARS]
    if isinstance(error, BadInput):
        return text
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
