"""The experiments with ARIA, a policy for jobs with deadlines (paper verma2011), in the paper's order."""

from schedbed.deploy.papers.verma2011 import (
    alone,
    aria_live,
    fig3_prediction,
    fig4_allocations,
    fig5_bounds,
    fig7_spawned,
    overhead,
    phase_causes,
    table1_months,
    table2_generators,
    table3_late_jobs,
    table3_readings,
    table4_testbed,
    waves,
)

EXPERIMENTS = (
    waves.EXPERIMENT,
    table1_months.EXPERIMENT,
    fig3_prediction.EXPERIMENT,
    fig4_allocations.EXPERIMENT,
    fig5_bounds.EXPERIMENT,
    table2_generators.EXPERIMENT,
    table3_late_jobs.EXPERIMENT,
    table3_readings.EXPERIMENT,
    alone.EXPERIMENT,
    fig7_spawned.EXPERIMENT,
    table4_testbed.EXPERIMENT,
    overhead.EXPERIMENT,
    phase_causes.EXPERIMENT,
    aria_live.EXPERIMENT,
)
