"""Simulated runs as tasks of a Ray cluster: each Ray task uses one core and simulates one policy in one repeat."""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import closing
from typing import TYPE_CHECKING

from schedbed.deploy.options import IN_CLEAR_SIMULATED
from schedbed.deploy.simulated.host_process import HostProcess
from schedbed.deploy.simulated.sent_runs import packed_inputs, take_end
from schedbed.deploy.worker_fork import ERROR, RESULT, STOPPED, WorkEnd

if TYPE_CHECKING:
    from schedbed.deploy.simulated.one_run import OneRun
    from schedbed.deploy.simulated.recorded_costs import SharedInputs

PROGRAM = "schedbed.deploy.simulated.host_runs"
_PROCESSES: dict[bytes, HostProcess] = {}
"""The process in which this worker of Ray simulates, by the hash of the inputs of its runs."""


def simulate_on_hosts(
    address: str, runs: Sequence[OneRun], inputs: SharedInputs, at_once: int | None, needs_bytes: int
) -> None:
    """Simulate runs on the hosts of a Ray cluster, at most `at_once` (None: as all cores allow) at a time.

    `needs_bytes` is the expected memory of each. A run whose host is lost is repeated on another. If a
    simulation fails on its host, only this run fails. A KeyboardInterrupt ends the runs that have begun,
    without their rows. Raises BadInput if the cluster cannot be joined.
    """
    from schedbed.deploy.live.ray_join import tasks_on_hosts

    begun: dict[int, OneRun] = {}

    def asked(most: int) -> Iterator[bytes]:
        print(IN_CLEAR_SIMULATED, file=sys.stderr)
        for number, run in enumerate(runs):
            run.begin()
            begun[number] = run
            yield json.dumps([run.choice.spec, run.repeat, most]).encode()

    try:
        with closing(
            tasks_on_hosts(
                address,
                simulate_packed,
                asked,
                shared=packed_inputs(inputs),
                at_once=at_once,
                needs_bytes=needs_bytes,
            )
        ) as ends:
            for number, found in ends:
                _end(begun.pop(number), found)
    except KeyboardInterrupt:
        for run in begun.values():
            run.end(WorkEnd(STOPPED, "KeyboardInterrupt"))
        raise


def simulate_packed(asked: bytes, shared: bytes) -> bytes:
    """Simulate one run in another process of this host, and return its end and part files as bytes.

    Later calls use the same process, which has read the inputs `shared`. Raises RuntimeError if it fails.
    """
    key = hashlib.sha256(shared).digest()
    try:
        if key not in _PROCESSES:
            _PROCESSES[key] = HostProcess(PROGRAM)
            _PROCESSES[key].ask(shared)
        return _PROCESSES[key].ask(asked)
    except RuntimeError:
        del _PROCESSES[key]
        raise


def _end(run: OneRun, found: bytes | Exception) -> None:
    """Close a run with the bytes that its host has sent, or with the exception of its Ray task."""
    if isinstance(found, Exception):
        lines = str(found).strip().splitlines() or [type(found).__name__]
        run.end(WorkEnd(ERROR, lines[0]))
        return
    sys.stdout.write(take_end(run, found))
    run.end(WorkEnd(RESULT, None))
