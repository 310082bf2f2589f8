"""The decisions of a run that metrics and the timeline need, if there are hundreds of millions.

Under delay scheduling, most decisions repeat that a job still waits for a node with its data.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

import numpy as np

from schedbed.deploy.results.measures.coded import Coded
from schedbed.deploy.results.measures.passed_over import waits_for_data

if TYPE_CHECKING:
    import pandas as pd

AT_ONCE = 2  # Added to the codes of skips, 1 and 2, if they last no time. 0 is the code of other decisions.


def needed(decisions: pd.DataFrame, drawn: Collection[str]) -> np.ndarray:
    """Return a boolean array that is true for the decisions that metrics and the timeline need.

    `decisions` are consecutive rows of one run. A skip repeats the previous decision about the same job and
    kind of tasks if that was a skip as well, and both or none were for data. The time from the first of
    several such skips to the end of the last one is the same without those between. Launches are not needed,
    since the attempts say when they were. All decisions about the nodes in `drawn` are needed.
    """
    jobs = Coded.of(decisions["job"])
    is_skip = (decisions["answer"] == "skip").to_numpy(bool)
    said = np.where(is_skip, 1 + waits_for_data(decisions["reason"]), 0)
    about = 2 * jobs.codes + (decisions["kind"] == "reduce").to_numpy(bool)
    order = np.argsort(about, kind="stable")
    about, said, t = about[order], said[order], decisions["t"].to_numpy(float)[order]
    said[is_skip[order] & _ends_at_once(about, said, t)] += AT_ONCE
    repeats = np.zeros(len(decisions), bool)
    repeats[order[1:]] = (about[1:] == about[:-1]) & (said[1:] == said[:-1])
    return (is_skip & ~repeats) | decisions["node"].isin(drawn).to_numpy(bool)


def _ends_at_once(about: np.ndarray, said: np.ndarray, t: np.ndarray) -> np.ndarray:
    """Return whether each decision is at the time of the job's last launch, after which a skip lasts no time.

    The rows are sorted by `about`, then by time. A launch before the first row of a job is not known, so the
    answer is true as well for all rows at the time of the job's first row.
    """
    places = np.arange(len(about))
    is_first = np.diff(about, prepend=-1) != 0
    first = np.maximum.accumulate(np.where(is_first, places, 0))
    launched = np.maximum.accumulate(np.where(said == 0, places, 0))
    return (t == t[first]) | (t == t[np.maximum(first, launched)])
