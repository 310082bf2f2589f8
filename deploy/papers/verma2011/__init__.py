"""The experiments with ARIA, a policy for jobs with deadlines (paper verma2011), in the paper's order."""

from schedbed.deploy.papers.verma2011 import job_phases, slo_slots, spawned_jobs, unequal_nodes

EXPERIMENTS = (
    *job_phases.EXPERIMENTS,
    *slo_slots.EXPERIMENTS,
    *spawned_jobs.EXPERIMENTS,
    *unequal_nodes.EXPERIMENTS,
    slo_slots.LIVE,
)
