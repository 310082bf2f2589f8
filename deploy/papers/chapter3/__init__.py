"""Experiments with the schedulers that chapter 3 of the thesis xu2015 reviews, in the chapter's order."""

from schedbed.deploy.papers.bench import Bench
from schedbed.deploy.papers.chapter3 import input_locality, job_choice, job_deadlines
from schedbed.deploy.papers.chapter3.runs import reviewed
from schedbed.deploy.papers.experiment import Measured


def causes(bench: Bench) -> Measured:
    """Measure the gains of the policies COSHH, MRCP, MIMP and LSAP again, each with a changed setup.

    Jobs have unequal sizes, arrive at once, have other deadlines, or read blocks with more replicas.
    """
    parts = (
        job_choice.coshh_causes,
        job_deadlines.mrcp_causes,
        job_deadlines.mimp_causes,
        input_locality.lsap_causes,
    )
    return Measured(values={key: each for part in parts for key, each in part(bench).items()})


EXPERIMENTS = (
    *job_choice.EXPERIMENTS,
    *job_deadlines.EXPERIMENTS,
    *input_locality.EXPERIMENTS,
    reviewed("causes", causes, 120),
)
