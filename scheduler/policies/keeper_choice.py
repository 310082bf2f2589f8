"""The rule for which maps keep a fetched block, by the locality (`keep_copy`) or the scenario (`dare`)."""

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
        """Return whether an attempt tries to keep its block: at random, but the same for equal arguments."""
        return self.share >= 1 or chance(seed, "keeps a copy", attempt).random() < self.share


def keeping_of(policy: Policy, blocks: BlockSettings) -> Keeping | None:
    """Return the settings by policy, else its locality, else the scenario, or None for never."""
    for owner in (policy, getattr(policy, "locality", None)):
        own: Keeping | None = getattr(owner, "keeping", None)
        if own is not None:
            return own
    return Keeping(blocks.keep_share, blocks.keep_budget) if blocks.keep_share > 0 else None
