"""The results of the policy DTSS on randomly drawn clusters that match the thesis.

An epoch is an interval of fixed length. A cluster matches if the users' map slots by epoch are close to Table
6, and if the jobs end after a similar number of epochs. Each cluster runs the twenty jobs once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from statistics import fmean

import numpy as np

from schedbed.deploy.papers import paper_file
from schedbed.deploy.papers.bench import Bench, FinishedRun
from schedbed.deploy.papers.posterior.mini import Mini
from schedbed.deploy.papers.posterior.prior import Drawn
from schedbed.deploy.papers.xu2015.epochs import EPOCH_S, epochs, off_fair, off_table, ratios, slots
from schedbed.deploy.papers.xu2015.fig13 import local_bytes
from schedbed.deploy.papers.xu2015.fig15 import BEFORE_RAMP
from schedbed.deploy.papers.xu2015.twenty_jobs import USERS, Setting, gains, held_slots, run_twenty_jobs
from schedbed.deploy.results.metrics import locality


def fits(bench: Bench, drawn: Drawn) -> Iterator[tuple[str, float]]:
    """Yield the values that must match the thesis, as pairs of key and number.

    An epoch is an interval of fixed length. The values are the mean number of busy slots in the first epochs
    under delay scheduling, the number of epochs until the last map ends under the policy DTSS, and the mean
    difference between our map slots and those in Table 6.
    """
    finished, setting = _skewed(bench, drawn), _setting(drawn)
    delay, quarter, _ = setting.policies
    held = slots(held_slots(finished, delay), EPOCH_S)
    yield "busy", float(np.sum(list(held.values()), axis=0)[:BEFORE_RAMP].mean())
    yield "epochs", epochs(finished.of(quarter), 1.0)
    said = paper_file.load("xu2015").experiments["fig15"].values
    yield "table6", off_table(held, {user: np.array(said[f"delay_slots_{user}"].numbers) for user in USERS})


def claims(bench: Bench, drawn: Drawn) -> Mapping[str, float]:
    """Return our values for the claims on a drawn cluster, as a dictionary from EXPERIMENT/VALUE to number.

    The values are the reductions of makespans by the policy DTSS, the amount of local input, and the distance
    from fair shares. Local input is also measured in a run whose input is spread evenly over the nodes.
    """
    setting, finished = _setting(drawn), _skewed(bench, drawn)
    delay, quarter, most = setting.policies
    (even,) = run_twenty_jobs(bench, layout="even", setting=setting)
    quarter_gain, most_gains = fmean(gains(finished, quarter, delay)), gains(finished, most, delay)
    local_gb = [local_bytes(finished.of(policy)) / 1e9 for policy in (delay, quarter)]
    off = [_off_fair(finished, policy) for policy in (delay, quarter)]
    return {
        "fig12/quarter_mean": quarter_gain,
        "fig12/most_most": max(most_gains),
        "fig12/less_is_better": quarter_gain - fmean(most_gains),
        "fig13/delay_more": local_gb[0] - local_gb[1],
        "fig14/quarter_local": 100 * locality(even.of(quarter).attempts)["bytes"]["node"],
        "fig15/fairer": off[0] - off[1],
    }


def _setting(drawn: Drawn) -> Setting:
    return Setting(
        name="-drawn", start_s=drawn["start_s"], wait_s=round(drawn["wait_s"], 3), cpu_s=drawn["cpu_s"]
    )


def _skewed(bench: Bench, drawn: Drawn) -> FinishedRun:
    """Return a run on the drawn cluster with all input on one node. Later calls return the same run."""
    (finished,) = run_twenty_jobs(bench, setting=_setting(drawn))
    return finished


def _off_fair(finished: FinishedRun, policy: str) -> float:
    run = held_slots(finished, policy)
    return off_fair(ratios(slots(run, EPOCH_S), run, EPOCH_S))


MINI = Mini(fits=fits, claims=claims)
