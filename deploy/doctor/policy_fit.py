"""Warnings about policies that leave cores of a scenario's nodes idle."""

from __future__ import annotations

from collections.abc import Iterator

from schedbed.deploy.scenario.resolved import PolicyChoice, ResolvedScenario
from schedbed.scheduler.admission.fgcs import Fgcs
from schedbed.scheduler.policy import Composed


def policy_warnings(scenario: ResolvedScenario) -> Iterator[str]:
    """Yield a warning for each policy of the scenario under which nodes can run only one task at a time.

    Users' own policies are not checked.
    """
    for choice in scenario.policies:
        reserved = _reserved_cores(choice)
        if reserved is None:
            continue
        nodes = scenario.cluster.nodes
        tight = [node for node in nodes if node.cores - reserved <= 1]
        if tight:
            yield (
                f"{choice.spec}: a task of a job that no profile knows asks for a whole core, and {len(tight)} of "
                f"{len(nodes)} nodes have {tight[0].cores} cores, {reserved} reserved: such a node runs one task at a "
                "time. Declare more cores, say reserved_cores=0, or profile the jobs first (schedbed profile)."
            )


def _reserved_cores(choice: PolicyChoice) -> int | None:
    """Return the number of cores per node that a policy keeps free for daemons, or None if it keeps none.

    Only policies with the admission rule FGCS, which decides whether a node has room for a task, keep cores
    free.
    """
    if choice.is_own:
        return None
    policy = choice.build(scale=1.0, store="none")
    if isinstance(policy, Composed) and isinstance(policy.admission, Fgcs):
        return policy.admission.reserved_cores
    return None
