"""The experiments with CSLA, a policy that mixes CPU-heavy and I/O-heavy jobs (lakshmi2019)."""

from schedbed.deploy.papers.lakshmi2019.csla_figures import EXPERIMENTS

__all__ = ["EXPERIMENTS"]
