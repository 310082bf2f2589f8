"""CSLA (lakshmi2019): its experiments in the order of the paper."""

from deploy.papers.lakshmi2019 import fours, pairs, table3

EXPERIMENTS = (table3.EXPERIMENT, pairs.EXPERIMENT, fours.EXPERIMENT)
