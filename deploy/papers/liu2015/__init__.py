"""FGCS (liu2015): its experiments in the order of the paper."""

from schedbed.deploy.papers.liu2015 import causes, fig2_teragen, mixes, table1_demand

EXPERIMENTS = (fig2_teragen.EXPERIMENT, table1_demand.EXPERIMENT, mixes.EXPERIMENT, causes.EXPERIMENT)
