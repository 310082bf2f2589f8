"""The experiments with DTSS, which splits maps (xu2015), in order, and for its future work."""

from schedbed.deploy.papers.xu2015.dtss_figures import EXPERIMENTS

__all__ = ["EXPERIMENTS"]
