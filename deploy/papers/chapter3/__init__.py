"""Schedulers that xu2015 chapter 3 reviews: a headline of each, in the order of the chapter."""

from schedbed.deploy.papers.chapter3 import balancedpool, coshh, dare, lsap, lsps, mimp, mrcp, scarlett

EXPERIMENTS = (
    coshh.EXPERIMENT,
    lsps.EXPERIMENT,
    balancedpool.EXPERIMENT,
    mrcp.EXPERIMENT,
    mimp.EXPERIMENT,
    scarlett.EXPERIMENT,
    dare.EXPERIMENT,
    lsap.EXPERIMENT,
)
