"""The experiments with the policy DTSS, which splits maps (thesis xu2015), in the thesis's order.

They are followed by experiments for the thesis's future work.
"""

from schedbed.deploy.papers.xu2015.dtss_figures import EXPERIMENTS

__all__ = ["EXPERIMENTS"]
