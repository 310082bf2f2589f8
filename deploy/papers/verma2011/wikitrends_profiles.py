"""Job profiles, the durations of a job's phases (section 2.2).

They are the profile of the paper's job WikiTrends, and profiles measured in runs.
"""

from __future__ import annotations

from schedbed.deploy.papers.experiment import Values
from schedbed.deploy.results.metrics import RunTables, useful
from schedbed.scheduler.models.job_profile import JobProfile, Profiler, Times

MAPS, REDUCES = 71, 64
"""Numbers of tasks of WikiTrends in section 5.2."""


def wikitrends(said: Values) -> JobProfile:
    """Return a profile of the job WikiTrends from which the policy ARIA computes the slots in Figure 5.

    The slots depend only on the sum of the maximum durations in four phases. Here the maxima of shuffles and
    reduces equal their means, and the longest map takes the rest of the sum.
    """
    map_s, shuffle_s, reduce_s = (said[key].number for key in ("map_avg", "shuffle_avg", "reduce_avg"))
    longest_map_s = said["maxima"].number - 2 * shuffle_s - reduce_s
    return JobProfile(
        map=Times(map_s, longest_map_s),
        first_shuffle=Times(shuffle_s, shuffle_s),
        typical_shuffle=Times(shuffle_s, shuffle_s),
        reduce=Times(reduce_s, reduce_s),
    )


def profile_of(run: RunTables, job: str) -> JobProfile:
    """Return the profile of a job in a finished run, as the profiler of the policy ARIA would measure it.

    A profile contains the durations of the job's phases. `job` is the job's id. Raises ValueError if no map
    ended.
    """
    profiler = Profiler()
    for row in useful(run.attempts[run.attempts["job"] == job]).to_dict("records"):
        if row["kind"] == "map":
            profiler.map_ended(row["assigned"], row["end"], row["length"], row["output_bytes"])
            continue
        marks = [row[mark] for mark in ("sort_end", "shuffle_end") if row[mark] == row[mark]]
        sorted_s = marks[0] if marks else None
        profiler.reduce_ended(
            row["assigned"], sorted_s, row["end"], row["shuffle_bytes"], row["output_bytes"]
        )
    profile = profiler.profile()
    if profile is None:
        raise ValueError(f"{job}: no map of it has ended")
    return profile
