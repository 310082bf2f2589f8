"""Gridmix's combiner job (Combine in polo2011): wordcount, which already combines, under a second name.

Its costs are measured separately.
"""

from __future__ import annotations

from dataclasses import replace

from schedbed.tasks.appkit.cost_law import AppCosts, Law
from schedbed.tasks.apps import wordcount

APP = replace(
    wordcount.APP,
    name="combine",
    paper="polo2011",
    summary="counts words like Gridmix's combiner job: maps add up their own counts first; the "
    "output is that of wordcount",
    costs=AppCosts(
        map_start_s=0.0,
        map_cpu_s=1.469e-08,
        map_sort_s=1.366e-07,
        map_output=Law(70490.0, 0.07236),
        map_records=0.0125,
        reduce_start_s=0.0003105,
        reduce_sort_s=4.006e-08,
        reduce_cpu_s=5.7e-09,
        output=Law(71920.0, 0.07098),
        note="its own map and reduce code on 8 MiB of generated text, 2 reduces; the fastest of 3 on a 2-core VM",
    ),
)
