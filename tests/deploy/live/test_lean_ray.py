"""Tests signals that arrive while Ray starts, and calls while Ray ends."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from ray._private import utils as ray_utils

from schedbed.deploy.failures import RunFailed
from schedbed.deploy.live.lean_ray import results_while_ray_runs, sigterm_stays


@pytest.fixture
def came() -> Iterator[list[int]]:
    """Yield the list of signal numbers that the test's handler of SIGTERM has received."""
    told: list[int] = []
    before = signal.signal(signal.SIGTERM, lambda number, _: told.append(number))
    yield told
    signal.signal(signal.SIGTERM, before)


def test_a_sigterm_in_the_middle_of_rays_start_is_ours(came: list[int]) -> None:
    with sigterm_stays(ray_utils):
        ray_utils.set_sigterm_handler(lambda *_: sys.exit(3))
        os.kill(os.getpid(), signal.SIGTERM)
    assert came == [signal.SIGTERM]
    ours = signal.getsignal(signal.SIGTERM)
    ray_utils.set_sigterm_handler(ours)  # Ray's own function is back
    assert signal.getsignal(signal.SIGTERM) is ours


def test_a_handler_that_is_set_in_another_way_is_replaced_at_the_end(came: list[int]) -> None:
    with sigterm_stays(SimpleNamespace(set_sigterm_handler=None)):
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
    os.kill(os.getpid(), signal.SIGTERM)
    assert came == [signal.SIGTERM]


class GetTimeoutError(TimeoutError):
    """A fake of Ray's exception of the same name."""


def workers_of(*gone: str) -> Any:
    """Return a fake of Ray's module `worker`, in which the processes `gone` have ended."""
    node = SimpleNamespace(dead_processes=lambda: [(name, None) for name in gone])
    return SimpleNamespace(global_worker=SimpleNamespace(node=node))


def ray_that_raises(*errors: Exception) -> Any:
    """Return a fake `ray` whose first calls of `get` raise `errors`, one each; later calls succeed."""
    left = list(errors)

    def get(calls: list[Any], timeout: float) -> list[Any]:
        if left:
            raise left.pop(0)
        return calls

    return SimpleNamespace(get=get, exceptions=SimpleNamespace(GetTimeoutError=GetTimeoutError))


def test_calls_are_waited_for_while_ray_runs() -> None:
    ray = ray_that_raises(GetTimeoutError(), GetTimeoutError())
    assert results_while_ray_runs(ray, workers_of(), ["heard"], 100.0) == ["heard"]


def test_calls_are_given_up_when_ray_is_gone() -> None:
    ray = ray_that_raises(GetTimeoutError())
    with pytest.raises(RunFailed, match="Ray's process gcs_server has ended in mid-run"):
        results_while_ray_runs(ray, workers_of("gcs_server"), ["heard"], 100.0)


def test_a_timeout_of_the_call_itself_is_no_reason_to_wait() -> None:
    with pytest.raises(TimeoutError, match="of the task"):
        results_while_ray_runs(ray_that_raises(TimeoutError("of the task")), workers_of(), ["heard"], 100.0)


def test_patience_ends() -> None:
    with pytest.raises(GetTimeoutError):
        results_while_ray_runs(ray_that_raises(GetTimeoutError()), workers_of(), ["heard"], 0.5)
