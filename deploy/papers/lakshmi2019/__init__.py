"""The experiments with CSLA, a policy that mixes CPU-heavy and I/O-heavy jobs (paper lakshmi2019).

They are in the order of the paper.
"""

from schedbed.deploy.papers.lakshmi2019 import (
    csla_live,
    fours,
    load_causes,
    pairs,
    table3_predictor,
    ways,
)

EXPERIMENTS = (
    table3_predictor.EXPERIMENT,
    pairs.EXPERIMENT,
    ways.EXPERIMENT,
    fours.EXPERIMENT,
    load_causes.EXPERIMENT,
    csla_live.EXPERIMENT,
)
