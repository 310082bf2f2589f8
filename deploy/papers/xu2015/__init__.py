"""The experiments with the policy DTSS, which splits maps (thesis xu2015), in the thesis's order.

They are followed by experiments for the thesis's future work.
"""

from schedbed.deploy.papers.xu2015 import analysis, beyond, dtss_live, fig12, fig13, fig14, fig15

EXPERIMENTS = (
    analysis.EXPERIMENT,
    fig12.EXPERIMENT,
    fig13.EXPERIMENT,
    fig14.EXPERIMENT,
    fig15.EXPERIMENT,
    beyond.EXPERIMENT,
    dtss_live.EXPERIMENT,
)
