"""The experiments with ARIA, a policy for jobs with deadlines (paper verma2011), in the paper's order."""

from schedbed.deploy.papers.verma2011 import (
    aria_live,
    arrivals,
    fig3_prediction,
    fig5_bounds,
    fig7_spawned,
    overhead,
    phase_causes,
    table1_months,
    table3_late_jobs,
    table3_readings,
    table4_testbed,
    w1_and_w2,
    waves,
    wikitrends_profiles,
)

EXPERIMENTS = (
    waves.EXPERIMENT,
    table1_months.EXPERIMENT,
    fig3_prediction.EXPERIMENT,
    wikitrends_profiles.EXPERIMENT,
    fig5_bounds.EXPERIMENT,
    w1_and_w2.EXPERIMENT,
    table3_late_jobs.EXPERIMENT,
    table3_readings.EXPERIMENT,
    arrivals.EXPERIMENT,
    fig7_spawned.EXPERIMENT,
    table4_testbed.EXPERIMENT,
    overhead.EXPERIMENT,
    phase_causes.EXPERIMENT,
    aria_live.EXPERIMENT,
)
