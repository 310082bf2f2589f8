"""The experiments with FGCS, a policy that assigns CPU to tasks (liu2015)."""

from schedbed.deploy.papers.liu2015.fgcs_figures import EXPERIMENTS

__all__ = ["EXPERIMENTS"]
