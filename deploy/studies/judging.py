"""The verdicts of `schedbed validate`: the repeats used for fitting, errors by job, and the best policy."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any

from schedbed.deploy.studies.compare import Agreement, ratio_interval


def split_repeats(repeats: Iterable[int]) -> tuple[frozenset[int], frozenset[int]]:
    """Return the repeats that costs are fitted to, and the repeats that the simulation is compared with.

    No repeat is in both sets. Costs are fitted to every second repeat, so that a slow change of the host
    affects both sets. A single repeat is used for the comparison.
    """
    ordered = sorted(repeats)
    fitted = frozenset(ordered[1::2])
    return fitted, frozenset(ordered) - fitted


def job_errors(found: Agreement) -> str:
    """Return a line with the median and largest absolute errors of single jobs.

    Positive and negative errors cancel in the error of the mean completion, but not here.
    """
    errors = {name: abs(pair.error) for name, pair in found.jobs.items()}
    worst = max(errors, key=lambda name: errors[name])
    return f"median absolute error {median(errors.values()):.1%}, worst {errors[worst]:.1%} ({worst})"


@dataclass(frozen=True, slots=True)
class Winner:
    """The policies with the least mean completion, in live and in simulated runs.

    `told_apart` is whether the live runs separate the best policy from the second.
    """

    live: str
    simulated: str
    told_apart: bool

    @property
    def same(self) -> bool | None:
        """Return whether live and simulated runs have the same best policy.

        None if the live runs do not separate the best two.
        """
        return self.live == self.simulated if self.told_apart else None

    def to_json(self) -> dict[str, Any]:
        """Return the fields and `same` as JSON values."""
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
    """Return the best policy live and simulated; None with fewer than two policies.

    `live_s` has the mean completion of each trusted live repeat, by policy. Repeats used for fitting costs
    count as well: all policies share the costs, and two of four repeats would show no difference. Live
    policies are separated if the 95% interval of their ratio excludes 1 (`compare.ratio_interval`), which
    needs three repeats.
    """
    if len(found) < 2:
        return None
    best, second = sorted((each.policy for each in found), key=lambda policy: median(live_s[policy]))[:2]
    fastest = min(found, key=lambda each: each.completion_s.sim)
    ratio = ratio_interval(live_s[second], live_s[best])
    return Winner(best, fastest.policy, ratio is not None and ratio[0] > 1)
