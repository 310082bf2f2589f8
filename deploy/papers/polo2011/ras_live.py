"""Figure 3's main result in live runs on three nodes: the policies Fair (one map slot per node) and RAS."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from schedbed.deploy.papers.bench import Bench, FinishedRun
from schedbed.deploy.papers.experiment import Measured
from schedbed.deploy.papers.live_and_simulated import compare, live_experiment
from schedbed.deploy.papers.polo2011.nine_jobs import jobs, longer, ras
from schedbed.deploy.papers.polo2011.paper_cluster import FULL, Size, fair_spec, scenario

SIZE = Size(3, 0.04, live=True)
SCALE = 0.025
CORE_SPEED = 0.1
WORST_SLOTS = 1


def measure(bench: Bench) -> Measured:
    """Measure by how many percent the policy Fair takes longer than the policy RAS, live and simulated."""
    return compare(bench, "headline", plan(), gain)


def plan() -> Mapping[str, Any]:
    """Return the live scenario: Experiment 1 with less work per node and with shorter gaps between jobs.

    In Experiment 1, nine jobs run without tight completion goals.
    """
    sooner = SIZE.part * FULL.nodes / SIZE.nodes
    mine = [{**each, "submit": f"{sooner * float(each['submit'].removesuffix('s'))}s"} for each in jobs(SIZE)]
    asked = scenario(mine, [fair_spec(WORST_SLOTS), ras(live=True)], SIZE)
    node = {**asked["cluster"]["node"], "core_speed": CORE_SPEED}
    return {**asked, "scale": SCALE, "cluster": {**asked["cluster"], "node": node}}


def gain(finished: FinishedRun) -> Sequence[float]:
    """Return by how many percent the makespan is longer under the policy Fair than under RAS.

    The result has one number per repeat.
    """
    fair_s, ras_s = (finished.figures(policy, "makespan_s") for policy in finished.policies)
    return longer(fair_s, ras_s)


EXPERIMENT = live_experiment(measure, 750)
