"""Parts of `schedbed validate`: the repeats used for fitting, the errors of jobs, and the best policy."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any

from schedbed.deploy.studies.compare import Agreement, ratio_interval


def split_repeats(repeats: Iterable[int]) -> tuple[frozenset[int], frozenset[int]]:
    """Return two sets of live repeats: one to compute task costs from, one to compare the simulation with.

    No repeat is in both sets. Costs are computed from every second repeat, so that a slow change of the host
    affects both sets. A single repeat is used for the comparison.
    """
    ordered = sorted(repeats)
    fitted = frozenset(ordered[1::2])
    return fitted, frozenset(ordered) - fitted


def job_errors(found: Agreement) -> str:
    """Return a line of text with the median and the largest absolute error of the jobs' completion times.

    This shows errors of single jobs that cancel each other in the mean completion time.
    """
    errors = {name: abs(pair.error) for name, pair in found.jobs.items()}
    worst = max(errors, key=lambda name: errors[name])
    return f"median absolute error {median(errors.values()):.1%}, worst {errors[worst]:.1%} ({worst})"


@dataclass(frozen=True, slots=True)
class Winner:
    """The names of the policies with the least mean completion time, in live runs and in simulated runs.

    `told_apart` is whether the live runs differ enough to show that their best policy is better than the
    second.
    """

    live: str
    simulated: str
    told_apart: bool

    @property
    def same(self) -> bool | None:
        """Return whether live and simulated runs have the same best policy.

        Return None if the live runs do not show which policy is best.
        """
        return self.live == self.simulated if self.told_apart else None

    def to_json(self) -> dict[str, Any]:
        """Return the fields of this instance, and the value of `same`, as JSON values."""
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
    """Return the policies with the least mean completion time, in live runs and in simulated runs.

    Return None if there is only one policy. `live_s` is a dictionary from policy to the mean completion time
    in each live repeat, including the repeats from which task costs were computed. The best live policy is
    told apart from the second if the 95% confidence interval of the ratio of their completion times excludes
    1, which needs three repeats.
    """
    if len(found) < 2:
        return None
    best, second = sorted((each.policy for each in found), key=lambda policy: median(live_s[policy]))[:2]
    fastest = min(found, key=lambda each: each.completion_s.sim)
    ratio = ratio_interval(live_s[second], live_s[best])
    return Winner(best, fastest.policy, ratio is not None and ratio[0] > 1)
