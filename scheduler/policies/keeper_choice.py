"""The rule by which a map that fetches its block keeps the block as a replica.

The rule comes from the policy (`keep_copy`) or from the scenario (`dare`).
"""

from __future__ import annotations

from typing import NamedTuple

from schedbed.cluster.spec import BlockSettings
from schedbed.scheduler.policy import Policy
from schedbed.tasks.chance import chance


class Keeping(NamedTuple):
    """Settings of kept blocks.

    `share`: share of the fetching maps that keep their block. `budget`: limit of the bytes of such replicas,
    as a share of the bytes of all inputs with their replicas.
    """

    share: float
    budget: float

    def asks(self, seed: int, attempt: str) -> bool:
        """Return whether this attempt asks to keep the block that it fetches. The choice is random, by seed
        and attempt."""
        return self.share >= 1 or chance(seed, "keeps a copy", attempt).random() < self.share


def keeping_of(policy: Policy, blocks: BlockSettings) -> Keeping | None:
    """Return the settings of kept blocks; None if no block is kept.

    The attribute `keeping` of the policy or of its locality comes first, then the settings of the cluster's
    blocks.
    """
    for owner in (policy, getattr(policy, "locality", None)):
        own: Keeping | None = getattr(owner, "keeping", None)
        if own is not None:
            return own
    return Keeping(blocks.keep_share, blocks.keep_budget) if blocks.keep_share > 0 else None
