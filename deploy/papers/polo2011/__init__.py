"""The experiments with RAS, the Resource-aware Adaptive Scheduler (polo2011), in the order of the paper."""

from schedbed.deploy.papers.polo2011 import ras_causes, ras_figures

EXPERIMENTS = (*ras_figures.EXPERIMENTS, *ras_causes.EXPERIMENTS, ras_figures.LIVE)
