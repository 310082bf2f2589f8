"""The gains of the policy RAS over Fair on random clusters that match the paper.

The clusters and jobs have a quarter of the paper's nodes and tasks.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from schedbed.deploy.papers.bench import Bench
from schedbed.deploy.papers.job_times import JobTime, makespan_s
from schedbed.deploy.papers.polo2011.fair_slots import fair_spec
from schedbed.deploy.papers.polo2011.fig3_makespans import USUAL_SLOTS
from schedbed.deploy.papers.polo2011.nine_jobs import JOBS, SLOTS, jobs, ras
from schedbed.deploy.papers.polo2011.paper_cluster import QUARTER, NodeHardware, scenario
from schedbed.deploy.papers.polo2011.table1_alone import jobs_apart
from schedbed.deploy.papers.posterior.mini import Mini
from schedbed.deploy.papers.posterior.prior import Drawn

NEXT_SLOTS = (3, 6)
"""Other numbers of slots for Fair, which must give longer makespans."""

FITTED = ("J1", "J2", "J6", "J7", "J8", "J9")
"""Jobs whose times alone are compared: not J3 to J5, whose printed sizes and times contradict each other."""


def fits(bench: Bench, drawn: Drawn) -> Iterator[tuple[str, float]]:
    """Yield the values that must match the paper, as pairs of key and number.

    The first value is Fair's makespan in s with four map slots per node. The next values say by how many
    percent the makespan is longer with fewer or with more slots. The last values are the times in s of jobs
    that run alone.
    """
    usual_s = _fair_s(bench, drawn, USUAL_SLOTS)
    yield "fair_four", usual_s
    for slots in NEXT_SLOTS:
        yield f"worse_{slots}", 100 * (_fair_s(bench, drawn, slots) / usual_s - 1)
    alone = _times(bench, drawn, "alone", jobs_apart(QUARTER, JOBS), fair_spec(USUAL_SLOTS))
    took_s = {job.name: job.took_s for job in alone}
    for name in FITTED:
        yield f"{name}_alone", took_s[name]


def claims(bench: Bench, drawn: Drawn) -> Mapping[str, float]:
    """Return our values for the claims on a drawn cluster, by key in paper.yaml.

    The values are the percentages by which jobs take longer under the policy Fair than under RAS, and the
    number of completion goals that RAS meets.
    """
    fair_s = [_fair_s(bench, drawn, slots) for slots in SLOTS]
    ras_s = makespan_s(_times(bench, drawn, "ras", jobs(QUARTER), ras()))
    tight = _times(bench, drawn, "goals", jobs(QUARTER, tight=True), ras())
    least = 100 * (min(fair_s) / ras_s - 1)
    return {
        "fig3/ahead": least,
        "fig3/gain_least": least,
        "fig3/gain_most": 100 * (max(fair_s) / ras_s - 1),
        "fig6/met": float(sum(job.finish_s <= (job.deadline_s or 0.0) for job in tight)),
    }


def _fair_s(bench: Bench, drawn: Drawn, slots: int) -> float:
    """Return the makespan in s of Table 1's jobs under Fair with `slots` map slots per node."""
    return makespan_s(_times(bench, drawn, f"fair-{slots}", jobs(QUARTER), fair_spec(slots)))


def _times(bench: Bench, drawn: Drawn, name: str, asked: Sequence[Any], policy: Any) -> list[JobTime]:
    hardware = NodeHardware(cores=int(drawn["cores"]), seek=drawn["seek"], paging=drawn["paging"])
    return bench.times(name, scenario(asked, [policy], QUARTER, hardware, start_s=drawn["start_s"]))


MINI = Mini(fits=fits, claims=claims)
