"""The experiments with RAS, the Resource-aware Adaptive Scheduler (polo2011), in the order of the paper."""

from schedbed.deploy.papers.polo2011 import hardware_map, ras_figures, ras_idle

EXPERIMENTS = (
    *ras_figures.EXPERIMENTS,
    *hardware_map.EXPERIMENTS,
    *ras_idle.EXPERIMENTS,
    ras_figures.LIVE,
)
