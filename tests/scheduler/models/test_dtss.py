"""The best split share P of the policy DTSS, compared with a table of values and with a search over all P."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schedbed.scheduler.models.dtss import best_share, gain_s

SECONDS = st.floats(0.01, 1000)


@pytest.mark.parametrize(
    ("local_s", "remote_s", "delay_s", "share", "gained_s"),
    [
        (10, 20, 5, 0.5, 5),  # (10 + 5) / 30; both parts end at 10 s instead of 15 s
        (10, 30, 0, 0.25, 2.5),  # 10 / 40; 7.5 s instead of 10 s
        (10, 10, 0, 0.5, 5),  # the input is no nearer anywhere: two halves
        (10, 20, 40, 1.0, 30),  # 50 / 30 is cut to 1: whole and at once, 20 s instead of 50 s
        (0, 0, 3, 0.0, 0),  # nothing to do: it ends when it starts, whatever its parts
    ],
)
def test_shares(local_s: float, remote_s: float, delay_s: float, share: float, gained_s: float) -> None:
    assert best_share(local_s, remote_s, delay_s) == pytest.approx(share)
    assert gain_s(share, local_s, remote_s, delay_s) == pytest.approx(gained_s)


@given(local_s=SECONDS, slower=st.floats(1, 20), delay_s=st.floats(0, 1000), other=st.floats(0, 1))
def test_no_other_share_gains_more(local_s: float, slower: float, delay_s: float, other: float) -> None:
    times = local_s, local_s * slower, delay_s
    assert gain_s(best_share(*times), *times) >= gain_s(other, *times) - 1e-6
