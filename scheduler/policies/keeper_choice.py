"""Who leaves a replica of the block that it fetches: a policy's own choice (`keep_copy`) or the scenario's (`dare`)."""

from __future__ import annotations

from typing import NamedTuple

from schedbed.cluster.spec import BlockSettings
from schedbed.scheduler.policy import Policy
from schedbed.tasks.chance import chance


class Keeping(NamedTuple):
    """`share` of the maps that fetch their block do; `budget` is what such replicas may take, as a share of the bytes
    of all inputs with their replicas."""

    share: float
    budget: float

    def asks(self, seed: int, attempt: str) -> bool:
        """Tell whether this attempt asks to keep the block that it fetches."""
        return self.share >= 1 or chance(seed, "keeps a copy", attempt).random() < self.share


def keeping_of(policy: Policy, blocks: BlockSettings) -> Keeping | None:
    """Return `keeping` of the policy or its locality, else that of the cluster's blocks; None for never."""
    for owner in (policy, getattr(policy, "locality", None)):
        own: Keeping | None = getattr(owner, "keeping", None)
        if own is not None:
            return own
    return Keeping(blocks.keep_share, blocks.keep_budget) if blocks.keep_share > 0 else None
