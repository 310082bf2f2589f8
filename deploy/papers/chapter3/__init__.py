"""Experiments with the schedulers that chapter 3 of the thesis xu2015 reviews, in the chapter's order."""

from schedbed.deploy.papers.chapter3 import (
    balancedpool_batch,
    coshh_speeds,
    dare,
    lsap_idle,
    lsps_users,
    mimp_shared,
    mrcp_stream,
    review_causes,
    scarlett,
)

EXPERIMENTS = (
    coshh_speeds.EXPERIMENT,
    lsps_users.EXPERIMENT,
    balancedpool_batch.EXPERIMENT,
    mrcp_stream.EXPERIMENT,
    mimp_shared.EXPERIMENT,
    scarlett.EXPERIMENT,
    dare.EXPERIMENT,
    lsap_idle.EXPERIMENT,
    review_causes.EXPERIMENT,
)
