"""The experiments with DTSS, which splits maps (xu2015), in order, and for its future work."""

from schedbed.deploy.papers.xu2015 import dtss_figures, larger_clusters

EXPERIMENTS = (*dtss_figures.EXPERIMENTS, larger_clusters.LARGER)
