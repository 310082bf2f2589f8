"""The experiments with FGCS, a policy that assigns CPU to tasks (paper liu2015).

The experiments are in the order of the paper.
"""

from schedbed.deploy.papers.liu2015 import (
    fgcs_live,
    fig2_teragen,
    gain_causes,
    mixes,
    table1_demand,
)

EXPERIMENTS = (
    fig2_teragen.EXPERIMENT,
    table1_demand.EXPERIMENT,
    mixes.EXPERIMENT,
    gain_causes.EXPERIMENT,
    fgcs_live.EXPERIMENT,
)
