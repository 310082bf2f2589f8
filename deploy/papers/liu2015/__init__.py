"""The experiments with FGCS, a policy that assigns CPU to tasks (paper liu2015).

The experiments are in the order of the paper.
"""

from schedbed.deploy.papers.liu2015.fgcs_figures import EXPERIMENTS

__all__ = ["EXPERIMENTS"]
