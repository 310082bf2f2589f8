"""The rule that decides which maps keep the block they fetch as a replica on their node.

The settings come from the policy's locality (parameter `keep_copy`) or from the scenario (the replication
scheme `dare`).
"""

from __future__ import annotations

from typing import NamedTuple

from schedbed.cluster.spec import BlockSettings
from schedbed.scheduler.policy import Policy
from schedbed.tasks.chance import chance


class Keeping(NamedTuple):
    """The settings of the rule by which maps keep fetched blocks as replicas.

    `share`: share of the fetching maps that keep their block. `budget`: largest total size of such replicas,
    as a share of the size of all inputs with their replicas.
    """

    share: float
    budget: float

    def asks(self, seed: int, attempt: str) -> bool:
        """Return whether the attempt with the id `attempt` tries to keep the block that it fetches.

        The choice is random, but the same for equal `seed` and `attempt`.
        """
        return self.share >= 1 or chance(seed, "keeps a copy", attempt).random() < self.share


def keeping_of(policy: Policy, blocks: BlockSettings) -> Keeping | None:
    """Return the settings by which maps keep fetched blocks, or None if maps never keep blocks.

    The settings are the attribute `keeping` of the policy, else that of the policy's locality axis, else the
    values in `blocks`, the scenario's settings of blocks.
    """
    for owner in (policy, getattr(policy, "locality", None)):
        own: Keeping | None = getattr(owner, "keeping", None)
        if own is not None:
            return own
    return Keeping(blocks.keep_share, blocks.keep_budget) if blocks.keep_share > 0 else None
