"""The judgment of `schedbed validate`: the repeats to fit costs to, errors by job, and whether both sides have one
winner."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any

from schedbed.deploy.studies.compare import Agreement, ratio_interval


def split_repeats(repeats: Iterable[int]) -> tuple[frozenset[int], frozenset[int]]:
    """Return the repeats that costs are fitted to, and the repeats that the simulation is judged on.

    No repeat is in both. Costs are fitted to every second repeat, so that a slow change of the host affects both
    sides. A single repeat is judged on.
    """
    ordered = sorted(repeats)
    fitted = frozenset(ordered[1::2])
    return fitted, frozenset(ordered) - fitted


def job_errors(found: Agreement) -> str:
    """Return a line on the absolute errors of jobs, which do not cancel as they do in the error of their mean."""
    errors = {name: abs(pair.error) for name, pair in found.jobs.items()}
    worst = max(errors, key=lambda name: errors[name])
    return f"median absolute error {median(errors.values()):.1%}, worst {errors[worst]:.1%} ({worst})"


@dataclass(frozen=True, slots=True)
class Winner:
    """The policies with the least mean completion time. `told_apart`: the live runs separate the best from the
    second."""

    live: str
    simulated: str
    told_apart: bool

    @property
    def same(self) -> bool | None:
        """Return whether both sides pick one policy; None if the live runs pick none."""
        return self.live == self.simulated if self.told_apart else None

    def to_json(self) -> dict[str, Any]:
        """Return plain values with the answer."""
        return asdict(self) | {"same": self.same}

    def __str__(self) -> str:
        picks = f"least mean completion: live {self.live}, simulated {self.simulated}"
        words = {
            True: "same winner",
            False: "ANOTHER WINNER",
            None: "live repeats do not tell the best two apart",
        }
        return f"{picks}: {words[self.same]}"


def winners(found: Sequence[Agreement], live_s: Mapping[str, Sequence[float]]) -> Winner | None:
    """Return the winner live and simulated; None with fewer than two policies.

    `live_s`: mean completion of each trusted live repeat, by policy. Repeats that costs were fitted to count as well:
    all policies share the costs, and two of four repeats would show no difference. Live policies are told apart if
    the 95% interval of their ratio excludes 1 (`compare.ratio_interval`), which takes three repeats.
    """
    if len(found) < 2:
        return None
    best, second = sorted((each.policy for each in found), key=lambda policy: median(live_s[policy]))[:2]
    played = min(found, key=lambda each: each.completion_s.sim)
    ratio = ratio_interval(live_s[second], live_s[best])
    return Winner(best, played.policy, ratio is not None and ratio[0] > 1)
