"""Signals that come while Ray starts."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from types import SimpleNamespace

import pytest
from ray._private import utils as ray_utils

from schedbed.deploy.live.lean_ray import sigterm_stays


@pytest.fixture
def came() -> Iterator[list[int]]:
    """What our handler of SIGTERM was told."""
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
