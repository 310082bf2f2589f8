"""The rule for which maps keep a fetched block, by the locality (`keep_copy`) or the scenario (`dare`)."""

from __future__ import annotations

from schedbed.cluster.spec import BlockSettings
from schedbed.scheduler.hooks import Keeping, hook
from schedbed.scheduler.policy import Policy


def keeping_of(policy: Policy, blocks: BlockSettings) -> Keeping | None:
    """Return the settings by policy, else its locality, else the scenario, or None for never."""
    for owner in (policy, getattr(policy, "locality", None)):
        its: Keeping | None = hook(owner, "keeping")
        if its is not None:
            return its
    return Keeping(blocks.keep_share, blocks.keep_budget) if blocks.keep_share > 0 else None
