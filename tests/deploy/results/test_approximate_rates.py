"""Tests the warning about a simulated run whose transfer rates were approximate, and links that scenarios
refuse.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from schedbed.deploy.results.measures.approximate_rates import KEY, approximate_rates, rate_notes
from schedbed.deploy.results.runfile import RunFile, RunRecord
from schedbed.deploy.scenario.resolve import resolve
from schedbed.tasks.errors import BadInput


def run(*rates: dict[str, int]) -> RunFile:
    records = [
        RunRecord(policy="fifo", repeat=repeat, epoch_s=0.0, rates=each) for repeat, each in enumerate(rates)
    ]
    return RunFile(scenario={}, policies=["fifo"], repeats=len(rates), seed=1, machines="sim", runs=records)


def test_runs_that_were_cut_short_are_counted_together() -> None:
    told = approximate_rates(run({"times": 150, "cut_short": 10}, {}, {"times": 50, "cut_short": 30}))
    assert told[KEY] == {"reach": 16, "runs": 2, "solved": 200, "cut_short": 40}
    assert rate_notes(told) == [
        "Simulated disk and network rates are approximate: in 20.0% of the updates more than 16 transfers shared "
        "resources, and only the nearest ones got new rates at once (docs/simulator.md)."
    ]


def test_a_rare_cut_is_no_zero() -> None:
    told = approximate_rates(run({"times": 100_000, "cut_short": 1}))
    assert "in less than 0.1% of" in rate_notes(told)[0]


def test_exact_rates_are_not_spoken_of() -> None:
    assert approximate_rates(run({}, {})) == {}
    assert rate_notes({}) == []


@pytest.mark.parametrize("key", ["downlink", "core_switch"])
def test_a_link_has_a_rate_or_none(key: str, tmp_path: Path) -> None:
    def cluster(rate: str):
        jobs = [{"app": "synthetic", "maps": 1, "map": {"cpu": "1s"}}]
        return {"cluster": {"nodes": 2, "racks": 2, key: rate}, "workload": {"jobs": jobs}}

    assert getattr(resolve(cluster("2MB/s"), base=tmp_path).cluster, f"{key}_bps") == 2e6
    assert getattr(resolve(cluster("none"), base=tmp_path).cluster, f"{key}_bps") is None
    with pytest.raises(BadInput, match=f"cluster.{key}: '0MB/s' is not above 0"):
        resolve(cluster("0MB/s"), base=tmp_path)
