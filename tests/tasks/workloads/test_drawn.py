"""Drawn workloads: they follow the stated distributions, and the seed determines them."""

from __future__ import annotations

import math
import os
import subprocess
import sys
from collections import Counter
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schedbed.tasks.errors import BadInput
from schedbed.tasks.specs import Cost, Priority
from schedbed.tasks.workloads.drawn import (
    Drawn,
    drawn_trace,
    heavy_tailed,
    isolated_s,
    poisson_arrivals,
    popular_inputs,
    threshold_arrivals,
    with_deadlines,
)
from schedbed.tasks.workloads.from_trace import Assume, SyntheticJob, synthesize


def job(maps: list[Cost], reduces: list[Cost]) -> SyntheticJob:
    """Return a synthetic job with the given costs of its maps and reduces."""
    return SyntheticJob(
        name="j",
        user="u",
        queue="q",
        priority=Priority.NORMAL,
        submit_s=0.0,
        maps=tuple(maps),
        reduces=tuple(reduces),
    )


def test_poisson_gaps_are_exponential():
    times = poisson_arrivals(20_000, 3.0, 1)
    gaps = [b - a for a, b in pairwise([0.0, *times])]
    mean = sum(gaps) / len(gaps)
    assert mean == pytest.approx(3.0, rel=0.03)
    assert sum((gap - mean) ** 2 for gap in gaps) / len(gaps) == pytest.approx(9.0, rel=0.06)
    assert sum(gap > 6 for gap in gaps) / len(gaps) == pytest.approx(math.exp(-2), rel=0.06)


def test_heavy_tails_follow_a_bounded_pareto_law():
    sizes = heavy_tailed(50_000, 1.0, 1.0, 1000.0, 1)
    assert min(sizes) >= 1 and max(sizes) <= 1000
    for x in (2, 10, 100):  # P(X > x) = (1/x - 1/1000) / (1 - 1/1000)
        assert sum(size > x for size in sizes) / len(sizes) == pytest.approx(
            (1 / x - 1e-3) / (1 - 1e-3), rel=0.1
        )
    assert heavy_tailed(3, 1.5, 7.0, 7.0, 1) == pytest.approx([7.0] * 3)


def test_popularity_follows_zipf():
    chosen = [count for _, count in Counter(popular_inputs(60_000, 50, 1.0, 1)).most_common()]
    assert len(chosen) == 50
    assert chosen[0] / chosen[1] == pytest.approx(2, rel=0.1) and chosen[0] / chosen[9] == pytest.approx(
        10, rel=0.15
    )
    even = Counter(popular_inputs(50_000, 5, 0.0, 1)).values()
    assert max(even) < 1.05 * min(even)


@given(
    st.lists(st.tuples(st.floats(0.01, 2), st.floats(0.1, 100)), max_size=30),
    st.floats(0.1, 3),
)
def test_the_load_stays_within_the_threshold_and_nobody_waits_for_nothing(jobs, threshold):
    times = threshold_arrivals(jobs, threshold)
    assert times == sorted(times)
    spans = [(start, start + lasts, load) for start, (load, lasts) in zip(times, jobs, strict=True)]
    for number, (start, _, load) in enumerate(spans):
        before = [other for other in spans[:number] if other[1] > start]
        total = load + sum(other[2] for other in before)
        assert total <= threshold * (1 + 1e-6) or not before
        if start > 0 and number and start > times[number - 1]:  # it waited for the end of another
            assert any(end == start for _, end, _ in spans[:number])


def test_deadlines_are_factors_of_the_time_in_isolation():
    jobs = [job([Cost(cpu_s=1.0)], [])] * 2000
    factors = [each.deadline_s or 0 for each in with_deadlines(jobs, [1.0] * 2000, 1)]
    assert min(factors) >= 1 and max(factors) <= 3 and sum(factors) / 2000 == pytest.approx(2, rel=0.03)
    fixed = with_deadlines(jobs[:2], [5.0, 7.0], 1, 2.0, 2.0)
    assert [each.deadline_s for each in fixed] == [10.0, 14.0]


def test_a_job_alone_takes_its_waves():
    maps = [Cost(cpu_s=8.0, read_bytes=100, write_bytes=100)] * 10  # 10 s at 100 bytes/s
    reduces = [Cost(cpu_s=1.0, write_bytes=400)] * 2  # 1 s and 400 + 500 bytes
    assert isolated_s(job(maps, reduces), 10, 2, 100.0) == pytest.approx((10 + 19) / 2 + (10 + 15) / 2)
    assert isolated_s(job([Cost(cpu_s=9.0, duration_s=4.0)], []), 1, 1, 1.0) == 4.0
    assert (
        isolated_s(job([Cost(duration_s=4.0)], []), 16, 1, 1.0) == 4.0
    )  # slots that a job cannot use do not help it


def test_drawn_jobs_become_synthetic_ones():
    trace = drawn_trace(Drawn(jobs=50, mean_gap_s=10.0, most_bytes=2**30, users=3, seed=4))
    made, notes = synthesize(trace, trace.jobs, Assume())
    assert len(made) == 50 and {each.user for each in made} == {"u1", "u2", "u3"}
    assert all(
        len(each.maps) == -(-source.input_bytes // 2**26)
        for each, source in zip(made, trace.jobs, strict=True)
    )
    assert any(note.startswith("assumed: a map a block") for note in notes)


def test_the_seed_decides_in_any_process():
    code = (
        "from schedbed.tasks.workloads.drawn import *; "
        "print(poisson_arrivals(3, 1.0, 7), heavy_tailed(3, 1.0, 1, 9, 7), "
        "popular_inputs(9, 5, 1.0, 7), drawn_trace(Drawn(jobs=3, mean_gap_s=1.0, seed=7)))"
    )
    outputs = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": str(n)},
            capture_output=True,
            check=True,
        ).stdout
        for n in (1, 2)
    }
    assert len(outputs) == 1
    assert poisson_arrivals(3, 1.0, 7) != poisson_arrivals(3, 1.0, 8)


@pytest.mark.parametrize(
    ("call", "told"),
    [
        (lambda: poisson_arrivals(1, 0.0, 1), "mean_gap_s: 0 is not possible"),
        (lambda: heavy_tailed(1, 1.0, 5.0, 4.0, 1), "sizes from 5 to 4: expected a range"),
        (lambda: popular_inputs(1, 0, 1.0, 1), "popularity of 0 files"),
        (lambda: with_deadlines([], [], 1, 3.0, 1.0), "deadline factors from 3 to 1"),
        (lambda: threshold_arrivals([], math.nan), "threshold: nan is not possible"),
        (lambda: drawn_trace(Drawn(jobs=0, mean_gap_s=1.0)), "expected 1 or more jobs"),
    ],
)
def test_what_cannot_be_is_refused(call, told):
    with pytest.raises(BadInput) as caught:
        call()
    assert told in str(caught.value)
