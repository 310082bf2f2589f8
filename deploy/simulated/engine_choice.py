"""The choice of the engine for the simulations of a command."""

from __future__ import annotations

from schedbed.deploy.scenario.resolved import PolicyChoice, ResolvedScenario
from schedbed.scheduler.engines import Chosen, Effort, fast_engine


def choose_engine(scenario: ResolvedScenario, at_once: int) -> Chosen:
    """Return the engines that simulations try. `at_once` run at a time.

    If preparing the fast engine saves time, it is prepared first, and standard error tells so.
    """
    fast, tasks = fast_engine(), scenario.task_count
    if scenario.simulate.engine != "auto" or tasks < fast.least_tasks:
        return Chosen()
    if fast.is_ready():
        return Chosen((fast,))
    runs = scenario.repeats * sum(_may_use(choice, scenario) for choice in scenario.policies)
    waits = any(job.after is not None for job in scenario.jobs)
    if not runs or waits or scenario.faults or not scenario.framework.is_none:
        return Chosen()
    return fast.prepare(runs * tasks / at_once, contention=scenario.simulate.contention)


def _may_use(choice: PolicyChoice, scenario: ResolvedScenario) -> bool:
    """Return whether a fast engine may simulate the policy, as far as is known without a user's code."""
    if choice.is_own:
        return scenario.speculation == "none"
    return effort_of(choice, scenario) < Effort.LONG


def effort_of(choice: PolicyChoice, scenario: ResolvedScenario) -> Effort:
    """Return how long a simulation takes under a policy, compared with other policies of the scenario."""
    if choice.is_own:
        return Effort.LONG
    return fast_engine().effort(scenario.new_policy(choice), contention=scenario.simulate.contention)
