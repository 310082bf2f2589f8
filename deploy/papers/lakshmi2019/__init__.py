"""The experiments with CSLA, a policy that mixes CPU-heavy and I/O-heavy jobs (paper lakshmi2019).

They are in the order of the paper.
"""

from schedbed.deploy.papers.lakshmi2019.csla_figures import EXPERIMENTS

__all__ = ["EXPERIMENTS"]
