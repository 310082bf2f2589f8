"""FGCS (liu2015): its experiments in the order of the paper."""

from deploy.papers.liu2015 import fig2, mixes, table1

EXPERIMENTS = (fig2.EXPERIMENT, table1.EXPERIMENT, mixes.EXPERIMENT)
