"""The source of a small user's policy, for tests that load a policy from a file."""

MINE = """
from schedbed.policy import Proposal, TaskKind


class Mine:
    def decide(self, view, node, kind):
        for job in view.jobs.values():
            if job.stage(kind).ready:
                task = job.any_reduce() if kind is TaskKind.REDUCE else job.any_map()
                return Proposal(task, "the first")
"""
