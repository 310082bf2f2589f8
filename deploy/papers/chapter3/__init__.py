"""Experiments with the schedulers that chapter 3 of the thesis xu2015 reviews, in the chapter's order."""

from schedbed.deploy.papers.chapter3 import input_locality, job_choice, job_deadlines, user_shares

EXPERIMENTS = (
    *user_shares.EXPERIMENTS,
    *job_choice.EXPERIMENTS,
    *job_deadlines.EXPERIMENTS,
    *input_locality.EXPERIMENTS,
)
