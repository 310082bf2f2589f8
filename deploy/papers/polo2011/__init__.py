"""The experiments with the policy RAS, the Resource-aware Adaptive Scheduler (paper polo2011).

The experiments are in the order of the paper.
"""

from schedbed.deploy.papers.polo2011 import (
    causes,
    fig2_utility,
    fig3_makespans,
    fig4_running_tasks,
    fig5_utilities,
    fig6_goals,
    hardware_map,
    ras_live,
    table1_alone,
)

EXPERIMENTS = (
    fig2_utility.EXPERIMENT,
    table1_alone.EXPERIMENT,
    fig3_makespans.EXPERIMENT,
    fig4_running_tasks.EXPERIMENT,
    fig5_utilities.EXPERIMENT,
    fig6_goals.EXPERIMENT,
    causes.EXPERIMENT,
    hardware_map.EXPERIMENT,
    ras_live.EXPERIMENT,
)
